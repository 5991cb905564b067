"""Pages of tables of points and zones: what is drawn, what is told of failures, and what is refused."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pixel_gather import RequestError, StoreError, points, verify_table, write_table_page, zones
from pixel_gather.io.pictures.stretch import number_in_words
from rank.rasters import landscape, make_cog
from support.command_line import run
from support.geojson import collection, feature
from support.images import TILES_OF_64, write_image
from support.tables import CRS, FIELD, rows_of

N_IMAGES = 3
N_PLOTS = 8
PLOTS: list[dict[str, Any]] = [
    {"id": f"plot <{n}>", "x": 500_100.0 + 90.0 * n, "y": 4_999_500.0} for n in range(N_PLOTS)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three images of one grid."""
    made = tmp_path_factory.mktemp("images")
    for n in range(N_IMAGES):
        make_cog(made / f"{n}.tif", landscape(n))
    return made


def listed(folder: Path, *, times: bool = True) -> dict[str, Any]:
    """Return a list of the images, and of one that is not there."""
    names = ["0", "1", "2", "gone"]
    rows = [{"href": str(folder / f"{name}.tif"), "scene": f"scene {name}"} for name in names]
    if times:
        rows = [row | {"time": f"2024-06-{n + 1:02d}"} for n, row in enumerate(rows)]
    return {"rows": rows}


def page_of(table: Path) -> str:
    """Return the page of a table."""
    write_table_page(table, table.with_suffix(".html"))
    return table.with_suffix(".html").read_text(encoding="utf-8")


def test_a_page_draws_points_and_tells_what_failed(folder: Path, tmp_path: Path) -> None:
    """A bar for each time, six of eight series, a circle for each point, and the image that is not there."""
    to = tmp_path / "t.parquet"
    off = {"id": "off", "x": 497_000.0, "y": 4_999_500.0}
    made = points([*PLOTS, off], listed(folder), to=to, id="id", crs=CRS)
    page = page_of(to)
    bars = re.findall(r'<path class="valid" d="M\S+ 1000.0L\S+ (.*?)L.*?"><title>(.*?)</title>', page)

    assert made.n_failed == 1
    assert [title for _, title in bars[:N_IMAGES]] == [
        f"2024-06-0{n + 1}T00:00:00Z: 8 of 9" for n in range(N_IMAGES)
    ]
    assert {height for height, _ in bars[:N_IMAGES]} == {f"{1000 - 1000 * 8 / 9:.1f}"}
    assert page.count('<path class="one"') == page.count('<path class="dots"') == 6
    assert page.count("h0") >= 6 * N_IMAGES
    assert page.count("<circle") == 9
    assert page.count('class="shape none"') == 1
    assert "plot &lt;0&gt;" in page
    assert "plot <0>" not in page
    assert "scene gone" in page
    assert "<td>missing</td>" in page
    unread = "the feature may lie on an image that could not be read"
    assert f'<td>unread</td><td class="n">1</td><td class="text">{unread}</td>' in page
    assert f"{made.n_requests} requests and {made.nbytes / 1e3:,.1f} kB" in page
    assert f"${made.n_requests * 4e-7:.6f}" in page


def test_the_map_has_the_colours_of_the_last_values(folder: Path, tmp_path: Path) -> None:
    """The lowest is purple, the highest yellow. Earlier values do not count."""
    to = tmp_path / "t.parquet"
    points(PLOTS, listed(folder), to=to, id="id", crs=CRS)
    found = re.findall(r'<circle class="shape" fill="(.*?)" .*?<title>.*?: (.*?)</title>', page_of(to))
    lines = [each for each in rows_of(to) if each["status"] == "ok"]
    last = {each["id"]: each for each in lines}
    values = sorted(number_in_words(each["b1"]) for each in last.values())

    assert sorted(value for _, value in found) == values
    assert min(found, key=_number)[0] == "#440154"
    assert max(found, key=_number)[0] == "#fde725"


def test_a_far_feature_does_not_shrink_the_map(folder: Path, tmp_path: Path) -> None:
    """Such as one at 0, 0, which stands for no place in many tables. It is named below the map."""
    to = tmp_path / "t.parquet"
    points([*PLOTS, {"id": "far <1>", "x": 0.0, "y": 0.0}], listed(folder), to=to, id="id", crs=CRS)
    page = page_of(to)
    xs = [float(x) for x in re.findall(r'<circle .*?cx="(.*?)"', page)]

    assert len(xs) == N_PLOTS
    assert max(xs) - min(xs) > 900
    assert "1 feature far from the others left out: far &lt;1&gt;." in page


def test_a_map_shows_all_of_two_groups_of_features(folder: Path, tmp_path: Path) -> None:
    """Neither is the bulk. Features of one place, too, are all there."""
    two, one = tmp_path / "two.parquet", tmp_path / "one.parquet"
    others = [each | {"id": f"b{n}", "x": each["x"] + 5e5} for n, each in enumerate(PLOTS)]
    points([*PLOTS, *others], listed(folder), to=two, id="id", crs=CRS)
    points([PLOTS[0] | {"id": n} for n in range(9)], listed(folder), to=one, id="id", crs=CRS)

    assert page_of(two).count("<circle") == 2 * N_PLOTS
    assert page_of(one).count("<circle") == 9


def test_a_map_across_the_antimeridian_is_as_narrow_as_its_features(folder: Path, tmp_path: Path) -> None:
    """A point at -179.9 degrees lies east of one at 179.9."""
    to = tmp_path / "t.parquet"
    plots = [{"id": n, "x": x, "y": -17.0} for n, x in enumerate((179.7, 179.8, 179.9, -179.9, -179.8))]
    points(plots, listed(folder), to=to, id="id", crs="EPSG:4326")
    page = page_of(to)
    xs = [float(x) for x in re.findall(r'<circle .*?cx="(.*?)"', page)]

    assert xs == sorted(xs)
    assert min(np.diff(xs)) > 150
    assert "longitude 179.7000 to -179.8000" in page


def test_a_map_of_one_place_has_it_in_the_middle(folder: Path, tmp_path: Path) -> None:
    """In a low picture. Its single value has no colour bar, and no range."""
    to = tmp_path / "t.parquet"
    points(PLOTS[:1], {"rows": listed(folder)["rows"][:1]}, to=to, id="id", crs=CRS)
    page = page_of(to)
    (value,) = (number_in_words(each["b1"]) for each in rows_of(to))

    assert 'viewBox="0 0 960 120"' in page
    assert 'cx="480.0" cy="60.0"' in page
    assert f'<span class="limits">b1 {value}</span>' in page
    assert f"b1, {value}. Drawn are the median" in page


def test_an_image_that_was_not_read_is_named_as_people_do(folder: Path, tmp_path: Path) -> None:
    """Its address is percent-encoded."""
    to = tmp_path / "t.parquet"
    rows = [*listed(folder)["rows"][:1], {"href": str(tmp_path / "gone \u00fc.tif"), "time": "2024-07-01"}]
    points(PLOTS, {"rows": rows}, to=to, id="id", crs=CRS)

    assert f"file://{tmp_path}/gone \u00fc.tif" in page_of(to)


def _number(found: tuple[str, str]) -> float:
    return float(found[1].replace(",", ""))


def test_a_page_has_a_chart_of_each_statistic_of_zones(folder: Path, tmp_path: Path) -> None:
    """And draws polygons with their holes."""
    to = tmp_path / "t.parquet"
    hole = [[500_450, 4_999_600], [500_550, 4_999_600], [500_500, 4_999_500], [500_450, 4_999_600]]
    field = {"type": "Polygon", "coordinates": [*FIELD["coordinates"], hole]}
    given = collection([feature(field, id="a")])
    zones(given, {"rows": listed(folder)["rows"][:3]}, to=to, id="id", crs=CRS, statistics="mean,p90")
    page = page_of(to)

    assert re.findall(r"<h3>(\w+)</h3>", page) == ["mean", "p90"]
    (path,) = re.findall(r'<path class="shape" .*? d="(.*?)"', page)
    assert path.count("M") == path.count("Z") == 2
    assert "Each line has a value." in page


def test_a_large_table_draws_some_of_its_features(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says how many."""
    to = tmp_path / "t.parquet"
    points(PLOTS, listed(folder), to=to, id="id", crs=CRS)
    monkeypatch.setattr("pixel_gather.tables.drawn_table._MOST_SHAPES", 3)
    page = page_of(to)

    assert "Drawn is one feature in 3." in page
    assert page.count("<circle") == 3
    assert "3 of 3</title>" in page


@pytest.mark.parametrize("sources", [0, 3])
def test_a_table_without_times_or_values_has_a_page(folder: Path, tmp_path: Path, sources: int) -> None:
    """It says what it lacks."""
    to = tmp_path / "t.parquet"
    far = {"id": "far", "x": 900_000.0, "y": 4_999_500.0}
    rows = listed(folder, times=False)["rows"]
    points(PLOTS if sources else [far], {"rows": rows[:3]}, to=to, id="id", crs=CRS)
    page = page_of(to)

    assert "No line has a time." in page
    assert "b1 has no value with a time." in page
    assert "No feature has a value with a time." in page
    assert "Colour bar" not in page


def test_values_of_ten_thousand_have_no_exponent(tmp_path: Path) -> None:
    """They are written as on the axes."""
    image = make_cog(tmp_path / "a.tif", np.full((64, 64), 12_345, "uint16"))
    points(
        PLOTS[:1], {"rows": [{"href": str(image), "time": "2024-06-01"}]}, to=tmp_path / "t.parquet", crs=CRS
    )

    page = page_of(tmp_path / "t.parquet")

    assert "b1, 12,345. Drawn are the median of all features" in page
    assert "<title>1: 12,345</title>" in page


@pytest.mark.parametrize(
    ("hidden", "days"), [(0, "2024-06-01 to 2024-06-03"), (100, "2024-06-03")], ids=["some", "none"]
)
def test_last_values_have_their_days(tmp_path: Path, hidden: int, days: str) -> None:
    """One that the last image does not have is older than the others."""
    rows = []
    for day in (1, 3):
        pixels = np.full((64, 64), 100, "uint16")
        pixels[0, 1] = hidden if day == 3 else 7
        image = write_image(tmp_path / f"{day}.tif", pixels, west=500_000, crs=CRS, nodata=0, **TILES_OF_64)
        rows.append({"href": image, "time": f"2024-06-0{day}"})
    plots = [{"id": f"plot {n}", "x": 500_005 + 10 * n, "y": 4_999_995} for n in range(2)]
    points(plots, {"rows": rows}, to=tmp_path / "t.parquet", crs=CRS)

    assert f'<span class="note">{days}; grey: no value</span>' in page_of(tmp_path / "t.parquet")


def test_range_of_a_series_is_that_of_all_values(tmp_path: Path) -> None:
    """Also of features that have no line of their own, and lie beyond the spread that is drawn."""
    pixels = np.full((64, 64), 100, "uint16")
    pixels[0, 1] = 7
    image = make_cog(tmp_path / "a.tif", pixels)
    plots = [{"id": f"plot {n:02}", "x": 500_005 + 10 * n, "y": 4_999_995} for n in range(11)]
    points(plots, {"rows": [{"href": str(image), "time": "2024-06-01"}]}, to=tmp_path / "t.parquet", crs=CRS)

    page = page_of(tmp_path / "t.parquet")

    assert "b1, 7 to 100. Drawn are the median" in page


def test_a_page_is_asked_for_by_an_option(folder: Path, tmp_path: Path) -> None:
    """An append that reads nothing makes it, too. What a deployment keeps has none."""
    (tmp_path / "plots.csv").write_text("id,x,y\na,500100,4999500\n")
    (tmp_path / "list.csv").write_text(f"href,time\n{folder}/0.tif,2024-06-01\n")
    command = ["points", str(tmp_path / "plots.csv"), "--sources", str(tmp_path / "list.csv"), "--id", "id"]
    command += ["--crs", CRS, "--quiet", "--html", str(tmp_path / "t.html")]
    for _ in range(2):
        (tmp_path / "t.html").unlink(missing_ok=True)
        assert run(*command, "--append-to", tmp_path / "t.parquet") == 0
        assert (tmp_path / "t.html").read_text().startswith("<!doctype html>")
    assert run(*command, "--deployed", "--api", "http://127.0.0.1:1") == 2


def test_no_page_of_what_is_no_table_or_in_no_folder(folder: Path, tmp_path: Path) -> None:
    """It says which file."""
    with pytest.raises(StoreError, match="there is no such table"):
        write_table_page(tmp_path / "none.parquet", tmp_path / "t.html")
    points(PLOTS, listed(folder), to=tmp_path / "t.parquet", id="id", crs=CRS)
    with pytest.raises(StoreError, match=r"t\.html cannot be written"):
        write_table_page(tmp_path / "t.parquet", tmp_path / "no" / "t.html")


def test_a_page_does_not_take_the_place_of_its_table(folder: Path, tmp_path: Path) -> None:
    """A name of another kind of file is refused, and the file stays as it is."""
    points(PLOTS, listed(folder), to=tmp_path / "t.parquet", id="id", crs=CRS)

    with pytest.raises(RequestError, match=r"to: the page is an HTML file; write t\.html"):
        write_table_page(tmp_path / "t.parquet", tmp_path / "t.parquet")
    with pytest.raises(RequestError, match="to: the page is written to this machine: give a path"):
        write_table_page(tmp_path / "t.parquet", "s3://none/t.html")

    assert verify_table(tmp_path / "t.parquet").is_same
