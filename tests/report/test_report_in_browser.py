"""The report in a headless Chromium: what is seen where. Beside what `test_all_pages_in_browser` looks at."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from obstore.store import LocalStore
from scipy import ndimage

from pixel_gather.features.report.cube_evidence import read_evidence
from pixel_gather.features.report.report_files import report_files_of
from support.browser import LOADED, Page, faults, needs_browser, opened_browser
from support.image_cubes import failing_cube, scene_class_cube
from support.images import write_image
from support.report_cubes import MadeCube
from support.undrawn import gather_undrawn
from support.viewed_cubes import (
    MASKLESS,
    gathered_clear,
    gathered_cover,
    gathered_valley,
    gathered_warm,
    scene_classes,
)

pytestmark = [pytest.mark.slow, needs_browser]

WIDTHS = (390, 820, 1440)
HEIGHT = 900
_VISIBLE = """
(() => Object.fromEntries(Object.entries(%s).map(([name, selector]) => {
  const found = document.querySelector(selector);
  const box = found?.getBoundingClientRect();
  const isSeen = box && box.width > 0 && box.height > 0 && found.checkVisibility();
  return [name, isSeen ? [box.top, box.bottom] : null];
})))()
"""
"""Top and bottom of some elements, None for those that nobody sees."""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """Return one tab for all tests."""
    with opened_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return addresses of reports: colours, failures, classes, a mask and units."""
    folder = tmp_path_factory.mktemp("reports")
    gathered = {
        "valley": gathered_valley(folder, n_rows=9),
        "failing": failing_cube(folder),
        "classes": scene_class_cube(folder),
        "cover": gathered_cover(folder),
        "clear": gathered_clear(folder),
        "warm": gathered_warm(folder),
    }
    evidences = {
        name: read_evidence(LocalStore(each.place), place=each.place) for name, each in gathered.items()
    }
    pages = {name: report_files_of(each, viewer="view.html") for name, each in evidences.items()}
    for name, files in pages.items():
        (folder / f"{name}.html").write_bytes(files["report.html"])
    return {name: (folder / f"{name}.html").as_uri() for name in pages}


def test_long_name_of_a_measurement_stays_on_a_telephone(page: Page, tmp_path: Path) -> None:
    """Where one chooses it, too."""
    cube = MadeCube(bands={"a_name_" * 10: frozenset(), "b": frozenset()})
    files = report_files_of(read_evidence(cube.stored(), place="cube"), viewer=None)
    (tmp_path / "report.html").write_bytes(files["report.html"])

    _open(page, (tmp_path / "report.html").as_uri(), width=390)

    assert not faults(page)


def _open(page: Page, url: str, *, width: int = 1440, is_dark: bool = False) -> None:
    page.look(width=width, height=HEIGHT, is_dark=is_dark)
    page.events.clear()
    page.open_(url, until=LOADED)


def test_pictures_of_a_tall_window_fit_a_screen(page: Page, tmp_path: Path) -> None:
    """A strip of 16 x 900 pixels is narrow, not five screens high. So is the place of one that is missing."""
    pixels = np.arange(900 * 16, dtype="uint16").reshape(900, 16)
    sources = [write_image(tmp_path / "strip.tif", pixels), str(tmp_path / "gone.tif")]
    request = {"sources": sources, "window": {"pixels": [0, 0, 16, 900]}}
    place = gather_undrawn(request, to=tmp_path / "cube").place
    files = report_files_of(read_evidence(LocalStore(place), place=place), viewer=None)
    (tmp_path / "report.html").write_bytes(files["report.html"])
    _open(page, (tmp_path / "report.html").as_uri())

    boxes = page.run(
        "Array.from(document.querySelectorAll('.sheet .picture, .sheet .missing'), "
        "(each) => [each.offsetWidth, each.offsetHeight])"
    )
    (wide, high), (_, of_missing) = boxes
    assert 300 < high < 400
    assert high / wide > 30
    assert of_missing < 400


@pytest.mark.long
def test_first_screen_answers(page: Page, reports: dict[str, str]) -> None:
    """Without scrolling: the sentence, why sources failed, the facts, windows, coverage and map."""
    _open(page, reports["failing"])
    wanted = {
        "sentence": ".sentence",
        "causes": ".causes",
        "facts": ".facts",
        "windows": ".sheet img",
        "blank": ".sheet .missing",
        "coverage": ".chart .drawing",
        "map": ".map svg[role=img]",
    }

    found = page.run(_VISIBLE % str(wanted))

    assert [name for name, box in found.items() if box is None or box[1] > HEIGHT] == []
    assert page.run("document.querySelector('.sentence').textContent") == (
        "5 dates, Jan 2018 to Aug 2018: 2 read, 3 failed (1 missing, 1 corrupt, 1 unlike)."
    )
    assert page.run("document.querySelector('.sheet .missing').textContent") == "not read: corrupt"


def test_on_a_telephone_the_sentence_and_causes_come_first(page: Page, reports: dict[str, str]) -> None:
    """Then the windows, above charts and map."""
    _open(page, reports["failing"], width=390)
    wanted = {"sentence": ".sentence", "causes": ".causes", "windows": ".sheet", "coverage": ".chart"}

    found = page.run(_VISIBLE % str(wanted))

    tops = [found[name][0] for name in wanted]
    assert tops == sorted(tops)
    assert found["causes"][1] < HEIGHT


def test_how_it_was_read_is_folded(page: Page, reports: dict[str, str]) -> None:
    """No timing of reading is seen before the reader asks for it."""
    _open(page, reports["valley"])
    text = "document.body.innerText"
    before = page.run(text)
    page.run("document.querySelector('#reading > summary').click()")
    after = page.run(text)

    assert "How it was read" in before
    for timing in ("sources in flight", "time per source", "total wait", "Slowest sources"):
        assert timing not in before
        assert timing in after
    assert "2018" not in after


def test_classes_have_a_legend_and_neither_scale_nor_mean(page: Page, reports: dict[str, str]) -> None:
    """Each class has one colour in windows, legend and charts. Its name says what it is."""
    _open(page, reports["classes"])
    text = page.run("document.body.innerText")

    assert page.run("document.querySelector('.bar')") is None
    assert "4 vegetation: 75.0%" in text
    assert "Most pixels are 4 vegetation (75.0%)." in text
    assert "Mean through" not in text
    assert "no georeference" in text
    assert page.run("document.querySelector('.map')") is None


def test_classes_of_the_files_have_their_colours_and_names(page: Page, reports: dict[str, str]) -> None:
    """Those of the palette, and black where it has none."""
    _open(page, reports["cover"])
    legend = page.run(
        "Object.fromEntries(Array.from(document.querySelectorAll('.look:not([hidden]) .limits'), (each) =>"
        " [each.textContent.trim(), getComputedStyle(each.querySelector('.swatch')).backgroundColor]))"
    )

    assert legend == {
        "10 forest": "rgb(1, 100, 0)",
        "20": "rgb(255, 187, 34)",
        "80 open water": "rgb(0, 100, 200)",
        "30": "rgb(0, 0, 0)",
    }


def test_report_says_grid_and_mask(page: Page, reports: dict[str, str]) -> None:
    """One line each. A chart shows the hidden share of each row whose mask was read."""
    _open(page, reports["clear"])
    lines = page.run("Array.from(document.querySelectorAll('.facts ~ p.note'), (each) => each.textContent)")
    dots = page.run(
        "document.querySelector('[aria-label^=\"Hidden by the mask through time\"] .dots').getAttribute('d')"
    )
    titles = page.run("Array.from(document.querySelectorAll('.first .chart h2'), (each) => each.textContent)")

    hidden = [
        (ndimage.binary_dilation(scl == 8, np.ones((5, 5))) | (scl == 0)).mean()
        for scl in (
            scene_classes(row)[::2, ::2].repeat(2, 0).repeat(2, 1) for row in range(5) if row != MASKLESS
        )
    ]
    share = f"{100 * np.mean(hidden):.1f}% of the pixels of 4 rows"
    assert lines == [
        "Grid: pixels of 10 m: red as it is, nir as it is, scl each pixel 2 x 2 times.",
        f"Mask: pixels are hidden where scl has the value 8, and 2 pixels around: {share}.",
    ]
    assert dots.count("M") == 4
    assert titles == ["Coverage through time", "Hidden by the mask through time"]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["valley", "failing", "clear", "warm"])
def test_labels_of_an_axis_do_not_touch(page: Page, reports: dict[str, str], name: str, width: int) -> None:
    """Also at the ends, where they are moved inwards."""
    _open(page, reports[name], width=width)
    axes = page.run(
        "Array.from(document.querySelectorAll('.drawing'), (each) =>"
        " Array.from(each.querySelectorAll('.x.tick'))"
        ".filter((tick) => tick.checkVisibility()).map((tick) => tick.getBoundingClientRect())"
        ".map(({ left, right }) => [left, right]))"
    )

    assert len(axes) > 2
    assert all(before[1] < after[0] for labels in axes for before, after in pairwise(labels))


def test_report_has_units_and_scaled_values(page: Page, reports: dict[str, str]) -> None:
    """Beside the name of the measurement, and at the colour bar."""
    _open(page, reports["warm"])
    titles = page.run("Array.from(document.querySelectorAll('.values h3'), (each) => each.textContent)")
    bars = page.run("Array.from(document.querySelectorAll('.look .scale'), (each) => each.textContent)")

    assert titles == ["t2m K", "lst \u00b0C"]
    assert "K" in bars[0]
    assert "\u00b0C" in bars[1]


def test_report_has_red_as_red(page: Page, reports: dict[str, str]) -> None:
    """Colours of the canvas are in the order red, green, blue, and so are the bars below it."""
    _open(page, reports["valley"])

    assert page.run(
        "Array.from(document.querySelectorAll('.look:not([hidden]) .limits'), (each) =>"
        " [each.textContent.trim().split(' ')[0], each.querySelector('.bar').classList[1]])"
    ) == [["red", "red"], ["green", "green"], ["blue", "blue"]]


def test_report_unfolds_on_paper_and_folds_again(page: Page, reports: dict[str, str]) -> None:
    """All measurements, all failures and all frames are printed. Then the page is as before."""
    _open(page, reports["valley"])
    hidden = "Array.from(document.querySelectorAll('.look'), (look) => look.hidden)"
    before = page.run(hidden)
    page.run("dispatchEvent(new Event('beforeprint'))")
    on_paper = page.run(hidden)
    page.run("dispatchEvent(new Event('afterprint'))")

    assert before == [False, True, True, True, True]  # colours first
    assert on_paper == [False] * 5
    assert page.run(hidden) == before


@pytest.mark.long
def test_report_shows_all_frames_on_paper(page: Page, reports: dict[str, str]) -> None:
    """A film is one picture with a frame for each row. On a screen, one frame of it is seen."""
    _open(page, reports["valley"])
    size = "getComputedStyle(document.querySelector('.frame .pixels')).backgroundSize"
    on_screen = page.run(size)
    page.send("Emulation.setEmulatedMedia", media="print")
    on_paper = page.run(size)
    page.send("Emulation.setEmulatedMedia", media="")

    assert on_screen == "300% 300%"
    assert on_paper == "100% 100%"
