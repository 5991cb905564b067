"""Small tables that the API answers at once: a series at one place, and one pixel of every file."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.warp import transform

from pixel_gather import drill, series
from pixel_gather.core.halt_marker import HALTED_KEY, halt_content
from pixel_gather.features.catalog.catalog import make_catalog
from rank.rasters import make_cog
from scenes.scenes import item
from support.api_bridge import is_a
from support.table_service import HREFS, N, Service

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_hedges")]

LIST = "s3://sources/series.csv"


@pytest.fixture
def lonlat(service: Service, cogs: list[Any]) -> tuple[float, float]:
    """A place on all scenes. Their list has times from the last to the first."""
    rows = [f"{href},2024-01-{N - n:02d}" for n, href in enumerate(HREFS)]
    service.machine.s3.put_object(
        Bucket="sources", Key="series.csv", Body="\n".join(["href,time", *rows]).encode()
    )
    with rasterio.open(cogs[0]) as file:
        x, y = file.xy(100, 200)
        ((lon,), (lat,)) = transform(file.crs, "EPSG:4326", [x], [y])
    return lon, lat


def test_a_point_has_the_values_of_this_process_by_time(
    service: Service, lonlat: tuple[float, float], cogs: list[Any]
) -> None:
    """A query and a body say the same."""
    point = f"{lonlat[0]},{lonlat[1]}"
    code, found = service.do("GET", "/series", point=point, list=LIST, by="twice=nir*2", bands="nir=b1")
    body = {"point": list(lonlat), "sources": LIST, "by": "twice=nir*2", "bands": {"nir": "b1"}}
    posted_code, posted = service.do("POST", "/series", body)

    assert (code, posted_code) == (200, 200), (found, posted)
    assert is_a("Series", found)
    expected = []
    for path in reversed(cogs):
        with rasterio.open(path) as file:
            expected.append(2 * float(file.read(1)[100, 200]))
    assert [row["twice"] for row in found["rows"]] == expected
    assert [row["time"] for row in found["rows"]] == [f"2024-01-{n:02d}T00:00:00Z" for n in range(1, N + 1)]
    assert found["rows"] == posted["rows"]
    assert found["totals"]["images"] == N
    assert 0 < found["totals"]["usd"] < 0.001
    assert not service.machine.found


def test_a_place_that_no_image_shows_is_noted(service: Service, lonlat: tuple[float, float]) -> None:
    """As the command line says it: often latitude was written first."""
    code, found = service.do("GET", "/series", point=f"{lonlat[1]},{lonlat[0]}", list=LIST)

    assert (code, found["rows"]) == (200, [])
    assert found["notes"] == ["no image shows this place; longitude comes first"]


def test_a_polygon_has_the_mean_and_a_file_that_is_gone_its_status(
    service: Service, lonlat: tuple[float, float]
) -> None:
    """The others have their values. It is noted that the names of some files are those of bands."""
    lon, lat = lonlat
    ring = [[lon, lat], [lon + 0.005, lat], [lon + 0.005, lat - 0.005], [lon, lat]]
    geojson = {"type": "Polygon", "coordinates": [ring]}
    landsat = "s3://sources/LC08_L2SP_193027_20240601_20240610_02_T1_SR_B"
    sources = [*HREFS[:3], *(f"{landsat}{number}.TIF" for number in (2, 3))]
    content = "\n".join(["href", *sources])
    service.machine.s3.put_object(Bucket="sources", Key="bands.csv", Body=content.encode())

    code, found = service.do("POST", "/series", {"geojson": geojson, "sources": sources, "by": "b1"})
    _, pixels = service.do("GET", "/drill", pixel="0,0", list="s3://sources/bands.csv")

    assert code == 200, found
    assert sorted(row["status"] for row in found["rows"]) == ["missing"] * 2 + ["ok"] * 3
    assert found["totals"]["failed"] == 2
    assert found["notes"] == pixels["notes"] != []
    assert max(row["mean"] or 0 for row in found["rows"]) > 900


@pytest.mark.long
def test_a_long_series_is_a_table_job(
    service: Service, lonlat: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job starts for many images, for slow ones and for many values. Its table has the same values."""
    body = {"point": list(lonlat), "sources": LIST}
    _, short = service.do("POST", "/series", body)
    monkeypatch.setattr("handlers.tables.at_once.MOST_AT_ONCE", N - 1)
    code, line = service.do("POST", "/series", body)
    _, shown = service.do("GET", f"/tables/{line['id']}")
    monkeypatch.setattr("handlers.tables.at_once.MOST_AT_ONCE", N)
    monkeypatch.setattr("handlers.tables.at_once.LONGEST_S", 1e-4)
    late_code, late = service.do("POST", "/series", body)
    monkeypatch.setattr("handlers.tables.at_once.LONGEST_S", 20.0)
    monkeypatch.setattr("handlers.tables.at_once.MOST_ANSWER_NBYTES", 100 * N)
    large_code, large = service.do("POST", "/series", body)

    assert (code, late_code, large_code) == (202, 200, 200)
    assert is_a("TableStarted", line)
    assert late["id"] == large["id"] == line["id"]
    assert service.table(shown)["b1"].to_pylist() == [row["b1"] for row in short["rows"]]


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        ("/series", {"list": LIST}, "point"),
        ("/series", {"point": "1", "list": LIST}, "point"),
        ("/series", {"point": "46,111", "list": LIST}, "point"),
        ("/series", {"point": "1,2", "list": LIST, "datetime": "2024"}, "list"),
        ("/series", {"point": "1,2", "list": LIST, "mask": "scl"}, "mask"),
        ("/series", {"point": "1,2", "list": LIST, "raw": "yes"}, "raw"),
        ("/series", {"point": "1,2", "list": LIST, "by": "red", "bands": "b1"}, "bands"),
        ("/series", {"point": "1,2", "list": LIST, "by": "red", "bands": "red=b1,red=b2"}, "bands"),
        ("/series", {"point": "1,2", "list": LIST, "colour": "red"}, "colour"),
        ("/series", {"point": "1,2", "list": "s3://elsewhere/list.csv"}, "sources.list"),
        ("/series", {"point": "1,2", "by": "b1"}, "sources.catalog.file"),
        ("/drill", {"list": LIST}, "point"),
        ("/drill", {"point": "500,46", "list": LIST}, "point"),
        ("/drill", {"pixel": "1,2"}, "list"),
        ("/drill", {"pixel": "1.5,2", "list": LIST}, "pixel"),
        ("/drill", {"pixel": "1,2", "list": LIST, "bands": "0"}, "bands"),
        ("/drill", {"pixel": "1,2", "list": LIST, "by": "b1"}, "by"),
    ],
    ids=str,
)
def test_wrong_queries_name_the_parameter(
    service: Service, path: str, query: dict[str, str], field: str
) -> None:
    """Nothing is read or started."""
    code, problem = service.do("GET", path, **query)

    assert (code, problem["field"]) == (422, field), problem
    assert not service.machine.found


@pytest.mark.parametrize(
    ("method", "path", "given"),
    [
        ("POST", "/series", {"point": [1, 2], "geojson": {}, "sources": LIST}),
        ("POST", "/tables", {"points": LIST, "zones": LIST, "sources": LIST}),
        ("GET", "/drill", {"point": "1,2", "pixel": "1,2", "list": LIST}),
    ],
)
def test_two_places_are_told_to_be_one_too_many(
    service: Service, method: str, path: str, given: dict[str, Any]
) -> None:
    """Unlike none, for which the same fields are named."""
    code, problem = service.do(method, path, **(given if method == "GET" else {"body": given}))

    assert code == 422
    assert ", not both" in problem["detail"]


def test_a_catalog_is_searched_around_the_place(service: Service, tmp_path: Path) -> None:
    """A series has no window, so the place says where scenes are looked for, if assets are named, too."""
    make_catalog([item("a")], to=tmp_path / "here.parquet")
    for file in tmp_path.iterdir():
        service.machine.s3.upload_file(str(file), "sources", file.name)
    catalog = {"file": "s3://sources/here.parquet", "assets": ["red"]}

    code, problem = service.do("POST", "/series", {"point": [-170, 80], "sources": {"catalog": catalog}})

    assert (code, problem["field"]) == (422, "sources.catalog")
    assert "no scene was found" in problem["detail"]


def test_a_catalog_is_searched_within_a_polygon_across_180_degrees(service: Service, tmp_path: Path) -> None:
    """The scene lies between its western end and 180 degrees."""
    scene = item("a", box=(179.6, 1, 179.9, 2), assets={"red": {"href": "s3://sources/missing.tif"}})
    make_catalog([scene], to=tmp_path / "fiji.parquet")
    for file in tmp_path.iterdir():
        service.machine.s3.upload_file(str(file), "sources", file.name)
    ring = [[179.5, 1.2], [-179.5, 1.2], [-179.5, 1.8], [179.5, 1.8], [179.5, 1.2]]
    polygon = {"type": "Polygon", "coordinates": [ring]}
    catalog = {"file": "s3://sources/fiji.parquet", "assets": ["red"]}

    code, found = service.do("POST", "/series", {"geojson": polygon, "sources": {"catalog": catalog}})

    assert code == 200
    assert [row["status"] for row in found["rows"]] == ["missing"]


@pytest.mark.parametrize(
    "body",
    [
        {"sources": LIST},
        {"point": [1, 2], "geojson": {}, "sources": LIST},
        {"point": "1,2", "sources": LIST},
        {"point": [True, 2], "sources": LIST},
        {"point": [1, 2], "sources": LIST, "statistics": "mean"},
        {"point": [1, 2]},
        {"geojson": {"type": "FeatureCollection", "features": [{}, {}]}, "sources": LIST},
        {"geojson": "s3://sources/fields.geojson", "sources": LIST},
        {"geojson": None, "sources": LIST},
        [],
    ],
    ids=str,
)
def test_wrong_bodies_of_a_series_are_refused(service: Service, body: Any) -> None:
    """With a problem."""
    assert service.do("POST", "/series", body)[0] == 422


@pytest.mark.long
def test_one_pixel_of_every_file(
    service: Service, lonlat: tuple[float, float], cogs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its place or by column and row. Too many files become a table job, if there is a place."""
    code, found = service.do("GET", "/drill", pixel="200,100", list=LIST)
    _, at_place = service.do("GET", "/drill", point=f"{lonlat[0]},{lonlat[1]}", list=LIST, bands="1")
    monkeypatch.setattr("handlers.tables.at_once.MOST_AT_ONCE", N - 1)
    many_code, many = service.do("GET", "/drill", point=f"{lonlat[0]},{lonlat[1]}", list=LIST, bands="1")
    no_code, no_place = service.do("GET", "/drill", pixel="200,100", list=LIST)
    monkeypatch.setattr("handlers.tables.at_once.MOST_AT_ONCE", N)
    monkeypatch.setattr("handlers.tables.at_once.MOST_ANSWER_NBYTES", 100 * N)
    _, large = service.do("GET", "/drill", point=f"{lonlat[0]},{lonlat[1]}", list=LIST, bands="1")

    assert code == 200, found
    assert is_a("Drilled", found)
    here = drill([str(path) for path in reversed(cogs)], pixel=(200, 100))
    assert [tuple(row["values"]) for row in found["rows"]] == [each.values for each in here]
    assert at_place == found
    assert (many_code, many["id"].partition("-")[0]) == (202, "points")
    assert large["id"] == many["id"]
    begun = json.loads(service.machine.found[many["id"]]["input"])
    assert (begun["raw"], begun["by"]) == (True, ["b1"])
    assert (no_code, no_place["field"]) == (422, "pixel")


def test_numbered_bands_of_many_files_with_names_are_refused(
    service: Service, lonlat: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table would have the first band of B02 as b2."""
    named = "\n".join(["href,band,scene", f"{HREFS[0]},B01,s", f"{HREFS[1]},B02,s"])
    service.machine.s3.put_object(Bucket="sources", Key="named.csv", Body=named.encode())
    monkeypatch.setattr("handlers.tables.at_once.MOST_AT_ONCE", 1)
    place = {"point": f"{lonlat[0]},{lonlat[1]}", "list": "s3://sources/named.csv"}

    code, problem = service.do("GET", "/drill", **place, bands="2")
    whole_code, _ = service.do("GET", "/drill", **place)
    monkeypatch.setattr("handlers.tables.at_once.LONGEST_S", 1e-4)  # the list is not read in time
    late_code, late = service.do("GET", "/drill", **place, bands="2")

    assert (code, problem["field"]) == (422, "bands")
    assert "leave bands out" in problem["detail"]
    assert whole_code == 202
    assert (late_code, late["field"]) == (422, "bands")


def test_a_pixel_that_json_cannot_say_is_null(service: Service, tmp_path: Path) -> None:
    """Programs read JSON by its rules, which have no infinity."""
    pixels = np.full((64, 64), np.inf, "float32")
    path = make_cog(tmp_path / "inf.tif", pixels)
    service.machine.s3.upload_file(str(path), "sources", "odd/inf.tif")
    service.machine.s3.put_object(Bucket="sources", Key="inf.csv", Body=b"href\ns3://sources/odd/inf.tif")

    _, found = service.do("GET", "/drill", pixel="3,4", list="s3://sources/inf.csv")

    assert [(row["status"], row["values"]) for row in found["rows"]] == [("ok", [None])]


def test_nothing_is_answered_while_the_months_budget_is_spent(
    service: Service, lonlat: tuple[float, float]
) -> None:
    """A series and a pixel of every file are refused as gathers are."""
    point = f"{lonlat[0]},{lonlat[1]}"
    content = halt_content(datetime.now(UTC), {})
    service.machine.s3.put_object(Bucket="control", Key=HALTED_KEY, Body=content)
    try:
        refused = [
            service.do("GET", path, point=point, list=LIST, **more)
            for path, more in (("/series", {"by": "b1"}), ("/drill", {"bands": "1"}))
        ]
    finally:
        service.machine.s3.delete_object(Bucket="control", Key=HALTED_KEY)
    code, _ = service.do("GET", "/series", point=point, list=LIST, by="b1")

    assert [code for code, _ in refused] == [422, 422]
    assert all("has spent its budget of the month" in told["detail"] for _, told in refused)
    assert code == 200


def test_the_series_of_this_process_is_the_same(
    service: Service, cogs: list[Any], lonlat: tuple[float, float]
) -> None:
    """Row by row, but for the addresses."""
    _, found = service.do("POST", "/series", {"point": list(lonlat), "sources": HREFS})

    here = series([str(path) for path in cogs], point=lonlat)
    assert [(row["b1"], row["valid"], row["status"]) for row in found["rows"]] == [
        (row["b1"], row["valid"], row["status"]) for row in here
    ]
