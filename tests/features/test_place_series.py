"""One place through all images: values by time, in Python and drawn in the terminal."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio

from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.features.series.series import series, sparkline
from pixel_gather.features.series.series_page import page_html, write_page
from pixel_gather.features.series.series_rows import PlaceSeries
from pixel_gather.tables.part_folder import ImageRecord, LineStatus, line_dtype
from pixel_gather_cli.commands.series import series_text
from support.command_line import run

DEMO = Path(__file__).parents[1] / "data/demo/sources.csv"
_POINT = (-105.27, 40.01)
_POLYGON = {"type": "Polygon", "coordinates": [[[-106, 39], [-105, 39], [-105, 40], [-106, 40], [-106, 39]]]}


def _files() -> list[Path]:
    hrefs = [line.partition(",")[0] for line in DEMO.read_text().splitlines()[1:]]
    return [(DEMO.parent / href).resolve() for href in hrefs]


def test_a_part_that_cannot_be_read_tells_why() -> None:
    """Elsewhere the image can be read, so the reason is that of its line."""
    columns = ("b1",)
    lines = np.zeros(1, line_dtype(columns))
    lines["status"], lines["reason"], lines["v0"] = LineStatus.CORRUPT, 1, np.nan
    record = ImageRecord(number=0, scene="s", time_us=None, hrefs=("a",), reasons=("late", "damaged"))

    (row,) = PlaceSeries.of([(record, lines)], columns).rows

    assert (row["status"], row["reason"], row["b1"]) == ("corrupt", "damaged", None)


def test_a_point_has_rasterios_values_by_time() -> None:
    """One of each image of the list."""
    rows = series(str(DEMO), point=_POINT)

    expected = []
    for path in _files():
        with rasterio.open(path) as dataset:
            expected.append(float(next(dataset.sample([_POINT]))[0]))
    assert [row["b1"] for row in rows] == expected
    assert [row["time"].year for row in rows] == [1895, 1895, 2022, 2022, 2022]
    assert {row["status"] for row in rows} == {"ok"}


def test_a_polygon_has_the_mean_of_its_pixels() -> None:
    """In the column mean."""
    rows = series(str(DEMO), geojson=_POLYGON)

    with rasterio.open(_files()[0]) as dataset:
        window = dataset.window(-106, 39, -105, 40).round_offsets().round_lengths()
        near = np.nanmean(dataset.read(1, window=window, masked=True).filled(np.nan))
    assert rows[0]["mean"] == pytest.approx(near, rel=0.05)
    assert all(row["valid"] == 1 for row in rows)


def test_an_image_that_cannot_be_read_is_there() -> None:
    """With its status; the others have their values."""
    rows = series([str(_files()[0]), "/no/such/file.tif"], point=_POINT, by="b1")

    assert sorted(row["status"] for row in rows) == ["missing", "ok"]


@pytest.mark.parametrize(
    ("given", "says"),
    [({}, "^point: give point or geojson$"), ({"point": _POINT, "geojson": _POLYGON}, "geojson, not both$")],
)
def test_exactly_one_place_is_wanted(given: dict[str, Any], says: str) -> None:
    """A point or a polygon."""
    with pytest.raises(RequestError, match=says):
        series(str(DEMO), **given)


@pytest.mark.parametrize("point", ["-105,40", 7, (1, 2, 3), ("a", "b")])
def test_a_point_is_two_numbers(point: Any) -> None:
    """Whatever a program gives."""
    with pytest.raises(RequestError, match=r"^point: "):
        series(str(DEMO), point=point)


@pytest.mark.parametrize(
    ("values", "drawn"),
    [([1.0, 2.0, 8.0], "▁▂█"), ([3.0, None, 3.0], "▁ ▁"), ([None, None], "  "), ([], "")],
)
def test_a_sparkline_has_a_character_for_each_value(values: list[float | None], drawn: str) -> None:
    """From the lowest to the highest; a space where there is none."""
    assert sparkline(values) == drawn


def test_a_sparkline_of_many_values_fits_a_line() -> None:
    """Each character is the mean of those that follow one another and have a value."""
    values = [None if n % 2 else float(n // 100) for n in range(350)]

    assert sparkline(values) == "▁" * 16 + "▂" + "▃" * 16 + "▅" + "▆" * 16 + "█" * 9


def test_the_command_draws_and_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each image and a sparkline, or JSON."""
    arguments = ["series", "--point", f"{_POINT[0]},{_POINT[1]}", "--sources", str(DEMO), "--quiet"]
    assert run(*arguments) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[0] == "1895-01-01T00:00:00Z  b1 10.1699"
    assert text.splitlines()[-1].endswith("0 to 31.1602, 5 images")
    assert run(*arguments, "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["status"] for line in lines] == ["ok"] * 5
    assert run(*arguments, "--by", "b9") == 1
    assert "1895-01-01T00:00:00Z  unlike: it has 1 band, not band 9" in capsys.readouterr().out
    assert run("series", "--point", "40,20", "--sources", DEMO, "--quiet") == 0
    assert capsys.readouterr().out == "no image shows this place; longitude comes first\n"


def test_the_page_has_a_dot_for_each_value(tmp_path: Path) -> None:
    """And a row for each image, that which cannot be read with its reason."""
    point = f"{_POINT[0]},{_POINT[1]}"
    code = run("series", "--point", point, "--sources", DEMO, "--quiet", "--html", tmp_path / "series.html")

    page = (tmp_path / "series.html").read_text()
    assert code == 0
    assert page.count('<path class="dots"') == 5
    assert page.count("<tr>") == 6
    assert "1895-01-01T00:00:00Z: 10.1699" in page
    assert "b1, 5 values of 5 images. b1 from 0 to 31.1602" in page


def test_the_page_escapes_texts_and_marks_images_without_a_value() -> None:
    """Also if there is one image, or none."""
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    row = {
        "time": moment,
        "scene": "<a>",
        "href": "h",
        "b1": 2.0,
        "valid": 1.0,
        "status": "ok",
        "reason": None,
    }
    gone = row | {"b1": None, "status": "missing", "reason": "<no>"}

    page = page_html([row, gone], title="<t>")

    assert (page.count('<path class="dots"'), page.count("v-60")) == (1, 1)
    assert not [text for text in ("<a>", "<no>", "<t>") if text in page]
    assert "no value has a time" in page_html([gone], title="t")
    assert "<p>No image shows this place; longitude comes first.</p>" in page_html([], title="t")


def test_large_whole_numbers_keep_their_digits() -> None:
    """On the page and in the text. The axis of the chart has room for them."""
    row = {"time": None, "scene": "a", "href": "a", "valid": 1.0, "status": "ok", "reason": None}
    rows = [row | {"time": datetime(2024, 1, 1 + n, tzinfo=UTC), "b1": 1_701_234_567.0 + n} for n in range(2)]
    page, text = page_html(rows, title="t"), series_text(PlaceSeries(rows, {}))

    assert '<td class="n">1701234567</td>' in page
    assert '<figure class="chart has-y" style="--left: 7.5rem">' in page
    assert "b1 1701234568\n" in text
    assert "1701234567 to 1701234568, 2 images" in text


def test_a_page_that_cannot_be_written_says_why(tmp_path: Path) -> None:
    """With its place."""
    with pytest.raises(StoreError, match="cannot be written"):
        write_page([], tmp_path / "no" / "page.html", title="t")


@pytest.mark.parametrize(
    ("place", "field"),
    [
        ({"point": (46, 111)}, "point"),
        ({"geojson": {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 111], [0, 0]]]}}, "geojson"),
    ],
    ids=["point", "geojson"],
)
def test_a_place_that_is_not_on_the_earth_is_named(place: dict[str, Any], field: str) -> None:
    """By what was given, as a series has no features."""
    with pytest.raises(RequestError, match="latitudes from -90 to 90") as refused:
        series(str(DEMO), **place)

    assert refused.value.field == field
