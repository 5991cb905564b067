"""What Python shows of results, and what a search returns."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pixel_gather import (
    MadeTable,
    gather,
    make_catalog,
    make_plan,
    make_virtual,
    presence,
    rank,
    replay,
    search,
)
from pixel_gather.core.request.request import parse_request
from pixel_gather.features.rank.ranking_page import sheet_html
from pixel_gather.io.pictures.stretch import error_in_words, number_in_words
from scenes.scenes import item
from support.joined_cubes import FILES, SERIES

SOURCES = {"hrefs": [str(file) for file in FILES], "time": "(?:_pentad_|_monthly_|_yearly_|_)%Y"}
_UNITED_STATES = SERIES.parent / "stactools-nclimgrid/nclimgrid-prcp-189501.tif"
PIXELS = {"pixels": [0, 0, 16, 12]}


def check(shown: str) -> None:
    """Check that a terminal shows it at once."""
    assert len(shown.splitlines()) < 20
    assert max(map(len, shown.splitlines())) <= 110
    assert shown.startswith("<")
    assert shown.endswith(">")


def cells(html: str) -> dict[str, str]:
    """Return the value of each name in a table of facts."""
    return dict(re.findall(r"<tr><th[^>]*>(.*?)</th><td[^>]*>(.*?)</td></tr>", html))


def test_a_notebook_shows_a_table_and_what_it_took() -> None:
    """Names from outside are text, not tags."""
    made = MadeTable(
        path=Path("<b>.parquet"),
        n_features=2,
        n_images=1_200,
        n_failed=3,
        n_far=4,
        n_lines=2_400,
        n_by_status={"ok": 2_394, "missing": 6},
        n_requests=12,
        nbytes=3_456_789,
        seconds=1.5,
        notes=("1 image has no time",),
    )

    html = made._repr_html_()

    assert cells(html) == {
        "table": "&lt;b&gt;.parquet",
        "lines": "2,400 (2,394 ok, 6 missing)",
        "features": "2",
        "images": "1,200, of which 3 failed and 4 are far",
        "took": "3.5 MB in 12 requests, 1.5 s",
    }
    assert "<p>1 image has no time</p>" in html


def test_results_are_shown_in_few_lines(tmp_path: Path) -> None:
    """Lists of any length, and many warnings, too."""
    # 40 lines that repeat, of other bands and times: every kind of warning
    request: dict[str, Any] = {"sources": [str(FILES[0])] * 40, "window": PIXELS, "output": {"report": False}}
    gathered = gather(request, to=tmp_path / "cube")
    plan = make_plan(request)

    for each in (gathered, gathered.report, plan, plan.estimate, replay(tmp_path / "cube")):
        check(repr(each))
    told = cells(plan._repr_html_())
    assert told["shape"] == "source 40, y 12, x 16"
    assert told["requests"].endswith(" GET")
    assert told["on AWS"].startswith("$")
    assert "repeat an earlier source" in plan._repr_html_()
    check(repr(presence(tmp_path / "cube", by="status")))
    assert "40 sources" in repr(plan)
    assert "(40 ok)" in repr(gathered)
    assert "repeat an earlier source" in repr(plan)


def test_a_ranking_is_shown_in_few_lines() -> None:
    """The first of its scenes, and how many there are."""
    found = rank(sources=[str(FILES[0])] * 15, by="b1", bbox=[0, 0, 20, 20])

    check(repr(found))
    html = found._repr_html_()
    assert html.count("<tr>") == 16
    assert "<b>15 scenes by b1</b>" in html
    assert " MB in " in html
    assert "15 scenes" in repr(found)
    assert "and 5 more" in repr(found)


def test_a_page_of_some_scenes_says_that_they_are_the_first() -> None:
    """Of 15 scenes, two have pictures. Values have no exponent, and the statistic is in words."""
    found = rank(
        sources=[str(FILES[0])] * 15, by="b1 + 12345", bbox=[0, 0, 20, 20], statistic="share_above:12000"
    )

    few, all_ = (sheet_html(found, [{}] * n) for n in (2, 15))

    assert "Share above 12000 over the area;\nthe first 2 of 15 scenes" in few
    assert "over the area;\n15 of 15 scenes" in all_


def test_large_values_and_errors_of_a_ranking_have_no_exponent() -> None:
    """12345 is not 1.234e+04."""
    assert (number_in_words(12_345.4), number_in_words(0.012345)) == ("12,345", "0.01235")
    assert (error_in_words(123.4), error_in_words(12_345.0), error_in_words(0.0123)) == (
        "120",
        "12,000",
        "0.012",
    )

    found = rank(sources=[str(FILES[0])], by="b1 + 12345", bbox=[0, 0, 20, 20])

    for html in (found._repr_html_(), sheet_html(found, [{}])):
        assert re.search(r">1\d,\d{3}<", html)
        assert "e+0" not in html


def test_colours_of_a_ranking_are_named_by_what_they_show() -> None:
    """By the share of valid pixels, pictures show the pixels. If all are equal, there is no colour bar."""
    pages = [
        sheet_html(found, [{"b1": pixels}])
        for by, pixels in (("valid", np.arange(64.0).reshape(8, 8)), ("b1", np.full((8, 8), 7.0)))
        for found in (rank(sources=[str(FILES[0])], by=by, bbox=[0, 0, 20, 20]),)
    ]

    assert re.findall(r'<div class="scale"><span>(\w+)</span><span class="limits">(.*?)<', pages[0]) == [
        ("pixels", "1.26")
    ]
    assert '<div class="scale"><span>b1</span><span class="limits">7</span>' in pages[1]


def test_a_ranking_tells_once_why_scenes_have_no_value(tmp_path: Path) -> None:
    """The reason stands with a count, and the scene with a reason of its own stays a line."""
    gone = [str(tmp_path / f"gone{n}.tif") for n in range(12)]
    (tmp_path / "brok\u00e9n 1.tif").write_bytes(b"no image")
    sources = [str(FILES[0]), *gone, str(tmp_path / "brok\u00e9n 1.tif")]
    found = rank(sources=sources, by="b1", bbox=[0, 0, 20, 20])

    said = "12 of 14 scenes could not be read (missing), such as gone0.tif: no such object"
    for html in (found._repr_html_(), sheet_html(found, [{}] * 14)):
        assert html.count("no such object") == 1
        assert said in html
        assert "brok\u00e9n 1.tif" in html


def test_a_ranking_of_scenes_outside_the_area_is_one_line() -> None:
    """No scene has a row of its own, so there is no empty table on the page."""
    found = rank(sources=[str(_UNITED_STATES)] * 15, by="b1", bbox=[100, 0, 101, 1])

    for html in (found._repr_html_(), sheet_html(found, [{}] * 15)):
        assert html.count("15 of 15 scenes lie outside the area, such as ") == 1
        assert html.count("lies outside its") == 1
        assert "<table>" not in html


def test_a_sheet_says_once_what_a_scene_lacks(tmp_path: Path) -> None:
    """Where its picture would be, and not a second time as its value. No rank is a range here."""
    (tmp_path / "list.csv").write_text(f"href,band,scene\n{_UNITED_STATES},B3,lone\n{FILES[0]},B4,other\n")
    found = rank(str(tmp_path / "list.csv"), by="red", bands={"red": "B4"}, mask={"band": "B4", "drop": [1]})

    page = sheet_html(found, [{}] * 2)
    assert "not read: the list names no red and no B4 for this scene" in page
    assert page.count("the list names") == 1
    assert "A range of ranks" not in page


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog of thirty scenes."""
    place = tmp_path_factory.mktemp("shown") / "catalog.parquet"
    items = [item(f"scene-{n:02d}", time=f"2024-01-{n + 1:02d}T10:00:00Z") for n in range(30)]
    make_catalog(items, to=place)
    return place


def test_a_search_has_a_length_and_iterates(catalog: Path) -> None:
    """Its items come newest first, as in ``items``."""
    found = search(catalog=catalog)

    assert len(found) == 30
    assert [each["id"] for each in found] == [each["id"] for each in found.items]
    check(repr(found))
    assert "30 scenes" in repr(found)
    assert "scene-29 2024-01-30" in repr(found)
    assert "and 20 more" in repr(found)
    assert not search(catalog=catalog, datetime="1999")


def test_a_search_makes_a_data_frame(catalog: Path) -> None:
    """One row a scene, whose times are times, and whose properties are columns."""
    frame = search(catalog=catalog, datetime="2024-01-10/2024-01-12").to_dataframe()

    assert list(frame.columns[:7]) == ["id", "collection", "time", "west", "south", "east", "north"]
    assert list(frame["id"]) == ["scene-11", "scene-10", "scene-09"]
    assert str(frame["time"].dtype) == "datetime64[us, UTC]"
    assert frame["time"].iloc[0].isoformat() == "2024-01-12T10:00:00+00:00"
    assert (frame["west"] < frame["east"]).all()
    none = search(catalog=catalog, datetime="1999").to_dataframe()
    assert (len(none), list(none.columns)) == (0, list(frame.columns[:7]))


def test_a_request_does_not_show_the_items_of_a_program() -> None:
    """They may be thousands."""
    items = [item(f"scene-{n}") for n in range(500)]
    request = parse_request({"sources": {"stac": {"items": items, "assets": "red"}}, "window": PIXELS})

    assert len(repr(request)) < 3000
    assert "scene-1" not in repr(request)


def test_references_are_shown_in_few_lines(tmp_path: Path) -> None:
    """Their report is, too."""
    made = make_virtual({"sources": [str(FILES[0])], "window": "centre"}, to=tmp_path / "virtual")

    assert len(repr(made).splitlines()) < 20
    assert len(repr(made)) < 2000
