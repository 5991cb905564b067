"""Every page in a headless Chromium, at three widths, light and dark: what axe says, and what is where."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pixel_gather import points, rank, write_table_page
from pixel_gather.features.rank.ranking_page import write_sheet
from rank.rasters import landscape, make_cog
from support.browser import LOADED, Page, faults, needs_browser, opened_browser, violations
from support.pages import FILES, SIZES, VIEWED, Pages, opened_pages

pytestmark = [pytest.mark.slow, needs_browser]

_OPEN_ALL = "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
_LEGENDS = """[...document.querySelectorAll(".bar, .swatch, .hatched, .legend i")]
    .map((each) => getComputedStyle(each))
    .map((look) => look.backgroundColor + look.backgroundImage + look.borderTopColor)"""
_BACKGROUNDS = {False: "rgb(255, 255, 255)", True: "rgb(21, 25, 30)"}
"""Colours of the page, light and dark."""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """Return one tab for all tests."""
    with opened_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """Return all pages. Each is made once."""
    with opened_pages(tmp_path_factory.mktemp("pages")) as opened:
        yield opened


@pytest.mark.long
@pytest.mark.parametrize(
    ("width", "height", "is_dark"), [(*size, n % 2 == 1) for n, size in enumerate(SIZES)]
)
@pytest.mark.parametrize("name", [*FILES, *VIEWED])
def test_page_is_accessible_and_nothing_is_out_of_place(
    page: Page, pages: Pages, name: str, width: int, height: int, *, is_dark: bool
) -> None:
    """As it opens, and with all that is folded. It keeps to its policy, and its background is its theme's.

    It opens in one theme and follows its user to the other one: both are looked at.
    """
    page.look(width=width, height=height, is_dark=is_dark)
    page.events.clear()
    pages.show(name, page)
    found = {is_dark: faults(page)}
    page.look(width=width, height=height, is_dark=not is_dark)
    found[not is_dark] = faults(page)
    page.run(_OPEN_ALL)
    background, broken = {}, {}
    for theme in (not is_dark, is_dark):
        page.look(width=width, height=height, is_dark=theme)
        found[theme] += faults(page)
        broken[theme] = violations(page)
        background[theme] = page.run("getComputedStyle(document.body).backgroundColor")
    said = [each["params"]["entry"] for each in page.events if each["method"] == "Log.entryAdded"]

    assert found == {False: [], True: []}
    assert broken == {False: [], True: []}
    assert [each for each in said if each["source"] != "network"] == []  # not every cube has quicklooks
    assert background == _BACKGROUNDS


@pytest.mark.parametrize("name", ["report of colours", "ranking", "table of zones", "viewer of colours"])
def test_paper_is_light_and_keeps_legends(page: Page, pages: Pages, name: str) -> None:
    """Of a dark page as well. Colour bars, swatches and what marks no data are printed."""
    page.look(width=1440, height=900, is_dark=True)
    pages.show(name, page)
    page.run("document.documentElement.dataset.theme = 'dark'")
    page.send("Emulation.setEmulatedMedia", media="print")
    background = page.run("getComputedStyle(document.body).backgroundColor")
    kept = page.run(
        "[...document.querySelectorAll('.bar, .swatch, .hatched')]"
        ".map((each) => getComputedStyle(each).printColorAdjust)"
    )
    height = page.run("getComputedStyle(document.body).minHeight")
    page.send("Emulation.setEmulatedMedia", media="")

    assert background == _BACKGROUNDS[False]
    assert set(kept) == {"exact"}
    assert height in {"0px", "auto"}  # not that of a screen, which would cut off the rest


@pytest.mark.parametrize("name", ["report of colours", "ranking", "table of zones", "viewer of colours"])
def test_legends_keep_their_colours_in_high_contrast(page: Page, pages: Pages, name: str) -> None:
    """A theme of few colours, as Windows has, changes texts and backgrounds, but no key to a picture."""
    page.look(width=1440, height=900)
    pages.show(name, page)
    colours = page.run(_LEGENDS)
    page.send("Emulation.setEmulatedMedia", features=[{"name": "forced-colors", "value": "active"}])
    forced = page.run(_LEGENDS)
    page.send("Emulation.setEmulatedMedia", features=[])

    assert len(set(colours)) > 1
    assert forced == colours


def test_dates_below_pictures_do_not_break(page: Page, pages: Pages) -> None:
    """A line breaks between the parts of a chip's label, and not at the hyphens of its date."""
    page.look(width=1440, height=900)
    pages.show("report of chips", page)
    n_lines = page.run("""Array.from(document.querySelectorAll(".sheet .date"), (label) => {
        const text = document.createTreeWalker(label, NodeFilter.SHOW_TEXT), range = document.createRange();
        const lines = [];
        while (text.nextNode()) {
            const at = text.currentNode.data.search(/[0-9]{4}-[0-9]{2}-[0-9]{2}/);
            if (at < 0) continue;
            range.setStart(text.currentNode, at);
            range.setEnd(text.currentNode, at + 10);
            if (label.checkVisibility()) lines.push(range.getClientRects().length);
        }
        return lines;
    }).flat()""")

    assert len(n_lines) > 20
    assert set(n_lines) == {1}


_SOUND = """<!doctype html><html lang="en"><title>t</title><style>body { margin: 0 }
.limits { display: inline-flex; white-space: nowrap }
.bar { display: inline-block; width: 80px; height: 9px }</style>
<h1>A page</h1><p id="p">some text</p>
<p class="limits">1<span class="bar" role="img" aria-label="Colour bar from 1 to 2"></span>2</p>
<figure class="chart"><i class="line"></i><b class="x tick">May</b> <b class="x tick">June</b>
<b class="y tick">1</b> <b class="y tick">2</b></figure>"""


@pytest.mark.parametrize(
    ("sound", "wrong", "said"),
    [
        ("", "", None),
        ('<p id="p">', '<p id="p" style="width: 500px">', "the page is 500 wide"),
        ('<p id="p">', '<p id="p" style="font-size: 10.5px">', '"some text" has 10.5 px'),
        ('<p id="p">', '<p id="p" style="margin-left: -9px">', "leaves the page"),
        ('<p id="p">', '<p id="p" style="margin-top: -40px">', '"A page" lies on "some text"'),
        ('<p id="p">', '<p id="p" style="width: 30px; overflow: hidden; white-space: nowrap">', "cuts off"),
        (
            "some text",
            '<span style="word-break: break-all; display: block; width: 9px">abc</span>',
            '"abc" is',
        ),
        ("<h1>A page</h1>", "<h1></h1>", "no title on top"),
        ("<h1>A page</h1>", '<h1 style="margin-top: 700px">A page</h1>', "no title on top"),
        ("some text", '<img src="data:,">', "img has no alt text"),
        ("some text", '<img src="data:," alt="a">', "img is not there"),
        ("some text", '<svg role="img" width="9" height="9"></svg>', "svg has no label"),
        ('"></span>2', '"></span>', "span.bar has no two ends in sight"),
        ("width: 80px", "width: 30px", "span.bar has no two ends in sight"),
        ("inline-flex; white-space: nowrap }", "block; width: 9px }", "is broken"),
        ('<b class="x tick">June</b>', "", "has 1 dates and 2 values"),
        ('<b class="y tick">2</b>', "", "has 2 dates and 1 values"),
    ],
)
def test_each_fault_is_found(page: Page, tmp_path: Path, sound: str, wrong: str, said: str | None) -> None:
    """On a page that has none but this one."""
    (tmp_path / "page.html").write_text(_SOUND.replace(sound, wrong, 1))
    page.look(width=390, height=844)
    page.open_((tmp_path / "page.html").as_uri(), until="document.querySelector('figure')")
    found = faults(page)

    assert (found == []) is (said is None)
    assert said is None or any(said in each for each in found)


def test_ranking_of_classes_has_their_colours_and_names(page: Page, pages: Pages) -> None:
    """There is no colour ramp of class numbers."""
    page.look(width=1440, height=900, is_dark=False)
    pages.show("ranking of classes", page)
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


def test_ranking_says_dates_scale_and_what_was_not_read(page: Page, pages: Pages) -> None:
    """Every picture has a text, and the colour bar has the values at its ends."""
    page.look(width=1440, height=900, is_dark=False)
    pages.show("ranking", page)
    text = page.run("document.body.innerText")

    assert "3 of 3 scenes, 2024-01-01 to 2024-02-01." in text
    assert "not read: no such object" in text
    assert page.run("Array.from(document.images, (each) => each.alt)") == ["s1, 2024-01-02", "s0, 2024-01-01"]
    assert page.run("document.querySelector('.bar.viridis').ariaLabel").startswith("Colour bar from ")
    assert "the same for all scenes; hatched: no data" in text


@pytest.mark.parametrize(("width", "last"), [(1440, "td.level"), (360, "td.n:nth-child(6)")])
def test_ranking_shows_values_beside_very_long_names(
    page: Page, tmp_path: Path, width: int, last: str
) -> None:
    """A name of 200 letters breaks. It does not push the values out of the window, nor on a telephone."""
    image = make_cog(tmp_path / f"{'long_' * 40}.tif", landscape(0, side=256))
    ranking = rank(sources=[str(image)], by="b1")
    write_sheet(ranking, [{}], tmp_path / "sheet.html")

    page.look(width=width, height=900, is_dark=False)
    page.open_((tmp_path / "sheet.html").as_uri(), until=LOADED)
    most, right = page.run(
        f"['.wide', '{last}'].map((each) => document.querySelector(each).getBoundingClientRect().right)"
    )

    assert 100 < right <= most < width


def test_table_has_room_for_a_long_name(page: Page, tmp_path: Path) -> None:
    """In the legends of its charts. A name of 200 letters breaks."""
    image = make_cog(tmp_path / "image.tif", landscape(0, side=256))
    plots = [{"id": "x" * 200, "x": 500_100.0, "y": 4_999_900.0}]
    rows = [{"href": str(image), "time": f"2024-06-0{n}"} for n in (1, 2)]
    points(plots, {"rows": rows}, to=tmp_path / "plots.parquet", id="id", crs="EPSG:32633")
    write_table_page(tmp_path / "plots.parquet", tmp_path / "plots.html")

    page.look(width=360, height=740, is_dark=False)
    page.open_((tmp_path / "plots.html").as_uri(), until=LOADED)

    assert len(page.texts(".legend li")) > 1
    assert faults(page) == []


@pytest.mark.long
def test_ranking_shows_values_on_a_telephone(page: Page, pages: Pages) -> None:
    """Also beside long names of scenes, and with a long expression above."""
    page.look(width=390, height=900, is_dark=True)
    pages.show("ranking of products", page)
    right = page.run(
        "Math.max(...Array.from(document.querySelectorAll('td.n'), "
        "(each) => each.getBoundingClientRect().right))"
    )

    assert 100 < right <= 390
