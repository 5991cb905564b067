"""The page of a ranking in a headless Chromium: what is seen."""

from collections.abc import Iterator

import pytest

from support.browser import LOADED, Page, faults, needs_browser, opened_browser
from support.pages import FILES

pytestmark = [pytest.mark.slow, needs_browser]


@pytest.fixture(scope="module")
def sheet(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of the page of two scenes and a missing one."""
    return FILES["ranking"](tmp_path_factory.mktemp("sheet"))


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of the page of two scenes by their scene classes."""
    return FILES["ranking of classes"](tmp_path_factory.mktemp("classes"))


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """Return one tab for all tests."""
    with opened_browser() as opened:
        yield opened


def _open(page: Page, url: str, *, width: int, is_dark: bool) -> None:
    page.look(width=width, height=900, is_dark=is_dark)
    page.open_(url, until=LOADED)


def test_sheet_of_classes_has_their_colours_and_names(page: Page, classes: str) -> None:
    """There is no colour ramp of class numbers."""
    _open(page, classes, width=1440, is_dark=False)
    legend = page.run("Array.from(document.querySelectorAll('.limits'), (each) => each.innerText.trim())")
    corner = page.run(
        """(() => { const image = document.images[0], canvas = document.createElement("canvas");
        canvas.width = canvas.height = 1;
        const context = canvas.getContext("2d");
        context.drawImage(image, 0, 0);
        return Array.from(context.getImageData(0, 0, 1, 1).data); })()"""
    )

    assert legend == ["4 vegetation", "9 cloud, high probability"]
    assert corner == [255, 255, 255, 255]
    assert page.run("document.querySelector('.bar.viridis')") is None


def test_sheet_says_dates_scale_and_what_was_not_read(page: Page, sheet: str) -> None:
    """Every picture has a text, and the colour bar has the values at its ends."""
    _open(page, sheet, width=1440, is_dark=False)
    text = page.run("document.body.innerText")

    assert "3 of 3 scenes, 2024-01-01 to 2024-02-01." in text
    assert "not read: no such object" in text
    assert page.run("Array.from(document.images, (each) => each.alt)") == ["s1, 2024-01-02", "s0, 2024-01-01"]
    assert page.run("document.querySelector('.bar.viridis').ariaLabel").startswith("Colour bar from ")
    assert "the same for all scenes; hatched: no data" in text


def test_sheet_shows_values_on_a_telephone(page: Page, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Also beside long names of scenes, and with a long expression above."""
    folder = tmp_path_factory.mktemp("long")
    _open(page, FILES["ranking of products"](folder), width=390, is_dark=True)
    right = page.run(
        "Math.max(...Array.from(document.querySelectorAll('td.n'), "
        "(each) => each.getBoundingClientRect().right))"
    )

    assert 100 < right <= 390
    assert faults(page) == []
