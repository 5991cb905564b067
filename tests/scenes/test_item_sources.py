"""Items from files, from CMR, from the Sentinel-2 index, and as STAC-GeoParquet."""

import gzip
import io
import json
import math
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shapely import Point, to_wkb
from shapely.geometry import shape

from pixel_gather.core.errors import BudgetError, RequestError, StoreError
from pixel_gather.core.request.web_address import same_host_only
from pixel_gather.core.scenes.search_criteria import SearchCriteria, wanted_items
from pixel_gather.core.scenes.skipped_items import SkippedItems
from pixel_gather.core.scenes.whole_hrefs import with_whole_hrefs
from pixel_gather.features.catalog.catalog import make_catalog, refresh_catalog
from pixel_gather.features.catalog.search import search
from pixel_gather.features.gather.gather import make_plan
from pixel_gather.io.scenes.item_files import _items_of_document
from pixel_gather.io.scenes.search_cmr import cmr_items
from pixel_gather.io.scenes.sentinel2_index import items_of_index
from pixel_gather.io.store.json_http import JsonClient
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.open_list_file import open_list_file
from pixel_gather.io.store.store_settings import StoreSettings
from scenes.scenes import item
from scenes.stac_server import Answer, Asked, Server, page, serving, serving_api


def ids(place: Path, **wanted: Any) -> list[str]:
    """Return the ids that a catalog holds, in the order of the alphabet."""
    return sorted(each["id"] for each in search(catalog=place, duplicates="all", **wanted).items)


SCENES = [item(f"s{n}", time=f"2024-0{n + 1}-01T00:00:00Z", eo__cloud_cover=n) for n in range(4)]


def as_collection(folder: Path, scenes: Sequence[dict[str, Any]] = SCENES) -> Path:
    """Write a collection of items."""
    place = folder / "items.json"
    place.write_text(json.dumps({"type": "FeatureCollection", "features": scenes}, indent=2))
    return place


def as_lines(folder: Path, scenes: Sequence[dict[str, Any]] = SCENES) -> Path:
    """Write one item a line, gzipped, with an empty line."""
    place = folder / "items.ndjson.gz"
    place.write_bytes(gzip.compress("\n\n".join(map(json.dumps, scenes)).encode()))
    return place


def as_api_parquet(folder: Path, scenes: Sequence[dict[str, Any]]) -> Path:
    """Write STAC-GeoParquet with the links of the items, as stac-geoparquet does."""
    rows = [
        {"geometry": to_wkb(shape(each["geometry"])), "datetime": datetime.now(UTC)}
        | {name: each[name] for name in ("id", "bbox", "assets", "links")}
        for each in scenes
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "items.parquet")
    return folder / "items.parquet"


def as_parquet(folder: Path) -> Path:
    """Write STAC-GeoParquet."""
    make_catalog(SCENES, to=folder / "items.parquet")
    return folder / "items.parquet"


def as_static_catalog(folder: Path) -> Path:
    """Write a catalog whose documents link to each other, in a circle too."""
    for number, scene in enumerate(SCENES):
        (folder / f"year/{number}").mkdir(parents=True)
        (folder / f"year/{number}/item.json").write_text(json.dumps(scene))
    links = [{"rel": "item", "href": f"./{number}/item.json"} for number in range(4)]
    back = {"rel": "child", "href": "../catalog.json"}
    year = {"type": "Collection", "links": [*links, back, {"rel": "root", "href": "../nosuch.json"}]}
    (folder / "year/collection.json").write_text(json.dumps(year))
    root = {
        "type": "Catalog",
        "links": [{"rel": "child", "href": "year/collection.json"}, 7, {"rel": "item"}],
    }
    (folder / "catalog.json").write_text(json.dumps(root))
    return folder / "catalog.json"


@pytest.mark.parametrize("write", [as_collection, as_lines, as_parquet, as_static_catalog])
def test_all_kinds_of_files_give_the_same_catalog(write: Callable[[Path], Path], tmp_path: Path) -> None:
    """Properties, assets and footprints come through unchanged."""
    made = make_catalog(write(tmp_path), kind="items_file", to=tmp_path / "catalog.parquet")

    found = search(catalog=tmp_path / "catalog.parquet", duplicates="all").items
    assert made.n_scenes == 4
    assert [each["id"] for each in found] == ["s3", "s2", "s1", "s0"]
    for each, scene in zip(found, SCENES[::-1], strict=True):
        assert each["properties"] == scene["properties"]
        assert each["geometry"] == scene["geometry"]
        assert each["assets"] == scene["assets"]


def test_relative_addresses_start_from_the_document_that_names_them(tmp_path: Path) -> None:
    """A static catalog can be moved with its images."""
    (tmp_path / "a").mkdir()
    scene = item(
        assets={"up": {"href": "../x.tif"}, "beside": {"href": "./y.tif"}, "s3": {"href": "s3://b/z.tif"}}
    )
    (tmp_path / "a/item.json").write_text(json.dumps(scene))
    root = {"type": "Catalog", "links": [{"rel": "item", "href": "a/item.json"}]}
    (tmp_path / "catalog.json").write_text(json.dumps(root))

    make_catalog(tmp_path / "catalog.json", kind="items_file", to=tmp_path / "c.parquet")

    assets = search(catalog=tmp_path / "c.parquet").items[0]["assets"]
    assert assets["up"]["href"] == f"file://{tmp_path}/x.tif"
    assert assets["beside"]["href"] == f"file://{tmp_path}/a/y.tif"
    assert assets["s3"]["href"] == "s3://b/z.tif"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (json.dumps(item("odd", x=math.nan)), None),
        ("[" * 100_000, "odd.json is no JSON object"),
        ("[]", "odd.json is no JSON object"),
        ("{", "odd.json is no JSON object"),
    ],
    ids=["NaN", "deep", "array", "cut off"],
)
def test_documents_of_a_static_catalog_are_read_as_files_of_items_are(
    content: str, said: str | None, tmp_path: Path
) -> None:
    """Some writers leave NaN. What is no item is left out, however deep it is."""
    (tmp_path / "good.json").write_text(json.dumps(item("good")))
    (tmp_path / "odd.json").write_text(content)
    links = [{"rel": "item", "href": href} for href in ("odd.json", "good.json")]
    (tmp_path / "catalog.json").write_text(json.dumps({"type": "Catalog", "links": links}))

    made = make_catalog(tmp_path / "catalog.json", kind="items_file", to=tmp_path / "c.parquet")

    assert ids(tmp_path / "c.parquet") == (["good", "odd"] if said is None else ["good"])
    assert (said or "()") in str(made.left_out)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"hello", "neither JSON nor Parquet"),
        (b"[]", "an array; give a collection of STAC items"),
        (json.dumps(item() | {"geometry": {}}).encode(), "it is no GeoJSON geometry"),
        (json.dumps(item() | {"geometry": "x"}).encode(), "it is no GeoJSON geometry"),
        (b'\n{"type": "Feature", "id": "a"}\n \n5\n', "no properties"),
        (b'{"type": "Something"}', "no STAC items"),
        (b'{"type": "FeatureCollection", "features": [{"id": "a"}]}', "no properties"),
        (b'{"type": "Feature", "id": "a"}\n5\n', "no properties"),
        (b"PAR1 and then nothing", "items.json"),
        (b'{"type": "Catalog", "links": [{"rel": "item", "href": "nosuch.json"}]}', "nosuch.json"),
        (b'{"type": "Catalog", "links": []}', "no scene was found"),
        (json.dumps(item(box=(float("nan"), 0.0, 1.0, 1.0))).encode(), "nan is no number"),
        (json.dumps(item(geometry={"type": "Polygon", "coordinates": [[[0, 0], [1]]]})).encode(), "geometry"),
        (json.dumps(item(geometry={"type": "Blob"})).encode(), "geometry"),
    ],
)
def test_a_wrong_file_is_refused_with_a_sentence(content: bytes, said: str, tmp_path: Path) -> None:
    """Nothing is written."""
    (tmp_path / "items.json").write_bytes(content)

    with pytest.raises(RequestError, match=said):
        make_catalog(tmp_path / "items.json", kind="items_file", to=tmp_path / "c.parquet")

    assert [each.name for each in tmp_path.iterdir()] == ["items.json"]


def test_numbers_of_lines_count_blank_ones(tmp_path: Path) -> None:
    """A file may begin with blank lines, too."""
    (tmp_path / "items.ndjson").write_text(f"\n\n{json.dumps(item())}\n\n7\n")

    made = make_catalog(tmp_path / "items.ndjson", kind="items_file", to=tmp_path / "c.parquet")

    assert (made.n_scenes, made.left_out[0][0]) == (1, "items.ndjson line 5")


@pytest.mark.parametrize(
    ("column", "values", "kept"),
    [
        ("datetime", pa.array([date(2024, 6, 1)]), "2024-06-01"),
        ("eo:cloud_cover", pa.array([Decimal("12.5")]), 12.5),
        ("proj:geometry", pa.array([to_wkb(Point(1, 2))]), {"type": "Point", "coordinates": [1.0, 2.0]}),
        (
            "assets",
            pa.array(
                [[("red", {"href": "s3://b/r"})]], pa.map_(pa.string(), pa.struct({"href": pa.string()}))
            ),
            {"red": {"href": "s3://b/r"}},
        ),
        (
            "assets",
            pa.array(['{"red": {"href": "s3://b/r"}, "odd": "x", "none": null}']),
            {"red": {"href": "s3://b/r"}},
        ),
    ],
    ids=["a day", "a decimal number", "a second geometry", "a map", "JSON"],
)
def test_parquet_files_of_other_writers_are_read(column: str, values: Any, kept: Any, tmp_path: Path) -> None:
    """DuckDB writes decimal numbers and maps. A condition compares them as numbers."""
    scene = pa.table(
        {
            "id": ["a"],
            "geometry": [to_wkb(Point(11, 46))],
            "datetime": ["2024-06-01T00:00:00Z"],
            "assets": [{"red": {"href": "s3://b/r"}}],
        }
    )
    left = scene.drop_columns([column]) if column in scene.column_names else scene
    pq.write_table(left.append_column(column, values), tmp_path / "items.parquet")

    make_catalog(tmp_path / "items.parquet", kind="items_file", to=tmp_path / "c.parquet")

    where = "eo:cloud_cover<20" if column == "eo:cloud_cover" else None
    (found,) = search(catalog=tmp_path / "c.parquet", datetime="2024-06-01", where=where).items
    assert (found["properties"] | found)[column] == kept


def test_a_parquet_file_with_another_geometry_is_refused(tmp_path: Path) -> None:
    """The message names the column."""
    pq.write_table(
        pa.table({"id": ["a"], "geometry": ["POINT(11 46)"], "assets": ["{}"]}), tmp_path / "i.parquet"
    )

    with pytest.raises(RequestError, match="column geometry is no WKB"):
        make_catalog(tmp_path / "i.parquet", kind="items_file", to=tmp_path / "c.parquet")


@pytest.mark.parametrize("box", [None, {"xmin": 11}])
def test_items_without_a_box_or_with_odd_assets_are_kept(box: Any, tmp_path: Path) -> None:
    """The box is that of the geometry; an asset that is no object is left out."""
    scene = item(assets={"red": {"href": "s3://b/r.tif"}, "odd": 5}) | {"bbox": box}
    make_catalog([scene], to=tmp_path / "c.parquet")
    make_catalog(tmp_path / "c.parquet", kind="items_file", to=tmp_path / "again.parquet")

    found = search(catalog=tmp_path / "again.parquet", bbox=(11.5, 46.5, 11.6, 46.6)).items[0]

    assert found["bbox"] == [11.0, 46.0, 12.0, 47.0]
    assert list(found["assets"]) == ["red"]


@pytest.mark.parametrize(
    ("start", "href", "whole"),
    [
        ("https://host/a/catalog.json", "/x/b.tif", "https://host/x/b.tif"),
        ("https://host/a/catalog.json", "//host/b.tif", "https://host/b.tif"),
        ("https://host/a/catalog.json", "../b.tif", "https://host/b.tif"),
        ("s3://bucket/a/catalog.json", "/x/b.tif", "s3://bucket/x/b.tif"),
        ("s3://bucket/a/catalog.json", "b.tif", "s3://bucket/a/b.tif"),
        ("file:///home/a/catalog.json", "/x/b.tif", "file:///x/b.tif"),
        ("https://host/a/catalog.json", "s3://bucket/b.tif", "s3://bucket/b.tif"),
    ],
)
def test_paths_from_the_root_stay_on_their_host(start: str, href: str, whole: str) -> None:
    """A catalog on the web never means a file of this machine."""
    document = {"features": [item(assets={"red": {"href": href}}) | {"links": []}]}

    (found,) = _items_of_document(
        document, start, "catalog", lambda _: {}, lambda: None, skipped=SkippedItems()
    )

    assert found["assets"]["red"]["href"] == whole


@pytest.mark.parametrize("write", [as_collection, as_lines, as_api_parquet])
def test_relative_addresses_in_a_collection_start_from_the_item_itself(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    """Items of an API that were kept in a file name files of the API. A whole path is one of this machine."""
    hrefs = {"beside": "./y.tif", "up": "../x.tif", "here": "/z.tif", "s3": "s3://b/z.tif"}
    scene = item(assets={name: {"href": href} for name, href in hrefs.items()})
    scene["links"] = [{"rel": "root", "href": "/"}, {"rel": "self", "href": "https://host/items/s/1"}]

    make_catalog(write(tmp_path, [scene]), kind="items_file", to=tmp_path / "c.parquet")

    assets = search(catalog=tmp_path / "c.parquet").items[0]["assets"]
    assert {name: asset["href"] for name, asset in assets.items()} == {
        "beside": "https://host/items/s/y.tif",
        "up": "https://host/items/x.tif",
        "here": "file:///z.tif",
        "s3": "s3://b/z.tif",
    }


@pytest.mark.parametrize(
    ("start", "whole"),
    [
        ("https://host/a/catalog.json", "https://host/x/b.tif"),
        ("s3://bucket/a/catalog.json", "s3://bucket/x/b.tif"),
        ("file:///home/a/catalog.json", "file:///x/b.tif"),
        (None, "/x/b.tif"),
    ],
)
def test_items_own_path_is_one_of_the_host_that_names_it(start: str | None, whole: str) -> None:
    """A document on the web cannot name a folder of this machine by its link ``self`` either."""
    scene = item(assets={"red": {"href": "b.tif"}}) | {"links": [{"rel": "self", "href": "/x/item.json"}]}

    (found,) = with_whole_hrefs([scene], start)

    assert found["assets"]["red"]["href"] == whole


def test_adding_keeps_what_is_there_and_refreshing_asks_again(tmp_path: Path) -> None:
    """Sources are remembered, both of them; what they no longer name goes."""
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    one.write_text(json.dumps({"features": SCENES[:2]}))
    other.write_text(json.dumps({"features": SCENES[1:3]}))
    place = tmp_path / "catalog.parquet"
    make_catalog(one, kind="items_file", to=place)

    added = make_catalog(other, kind="items_file", to=place, add=True)
    assert (added.n_scenes, added.n_new) == (3, 2)
    assert ids(place) == ["s0", "s1", "s2"]

    one.write_text(json.dumps({"features": [SCENES[3]]}))
    assert refresh_catalog(to=place).n_scenes == 3
    assert ids(place) == ["s1", "s2", "s3"]

    one.unlink()
    with pytest.raises(RequestError, match=r"one\.json"):
        refresh_catalog(to=place)
    assert ids(place) == ["s1", "s2", "s3"]


def test_what_a_program_gave_cannot_be_refreshed(tmp_path: Path) -> None:
    """The message says so, and the catalog is as it was."""
    make_catalog(SCENES, to=tmp_path / "catalog.parquet")
    with pytest.raises(RequestError, match="make the catalog anew"):
        refresh_catalog(to=tmp_path / "catalog.parquet")
    with pytest.raises(StoreError, match=f"there is no catalog at {tmp_path}/nosuch.parquet;"):
        refresh_catalog(to=tmp_path / "nosuch.parquet")


def granule(name: str, **changes: Any) -> dict[str, Any]:
    """Return a granule as CMR describes it."""
    points = [(179.0, 10.0), (-179.0, 10.0), (-179.0, 11.0), (179.0, 11.0)]
    polygon = {"Boundary": {"Points": [{"Longitude": x, "Latitude": y} for x, y in points]}}
    return {
        "umm": {
            "GranuleUR": name,
            "CollectionReference": {"ShortName": "HLSL30"},
            "TemporalExtent": {"RangeDateTime": {"BeginningDateTime": "2024-06-01T00:00:00Z"}},
            "SpatialExtent": {"HorizontalSpatialDomain": {"Geometry": {"GPolygons": [polygon]}}},
            "CloudCover": 12,
            "RelatedUrls": [
                {"Type": "GET DATA", "URL": f"https://host/{name}.B04.tif"},
                {"Type": "GET DATA VIA DIRECT ACCESS", "URL": f"s3://bucket/{name}.B04.tif"},
                {"Type": "VIEW", "URL": "https://host/x.jpg"},
            ],
        }
        | changes
    }


def test_granules_of_cmr_are_items_page_by_page() -> None:
    """Pages follow one another by a header; S3 goes before https; a box may cross the antimeridian."""

    def answer(asked: Asked) -> Answer:
        after = asked.headers.get("cmr-search-after")
        assert asked.parameters["short_name"] == "HLSL30"
        assert asked.parameters["bounding_box"] == "170,0,-170,20"
        assert asked.parameters["temporal"].startswith("2024-01-01T00:00:00Z,2024-12-31T23:59:59")
        if after == "2":
            return Answer(body={"items": []})
        headers = {"CMR-Search-After": "2" if after else "1"}
        return Answer(body={"items": [granule("G2" if after else "G1")]}, headers=headers)

    with serving(answer) as server:
        found = found_by_cmr(server, short_name="HLSL30", bbox=(170, 0, -170, 20), datetime="2024")

    assert [each["id"] for each in found] == ["G1", "G2"]
    assert found[0]["bbox"] == pytest.approx([179, 10, -179, 11.0016], abs=1e-4)
    assert found[0]["assets"] == {"B04": {"href": "s3://bucket/G1.B04.tif", "roles": ["data"]}}
    assert found[0]["properties"]["eo:cloud_cover"] == 12


def found_by_cmr(server: Server, *, short_name: str = "X", **search: Any) -> list[dict[str, Any]]:
    """Return what a search of CMR finds."""
    client = JsonClient(same_host_only(server.url, field="cmr"))
    wanted, collection = SearchCriteria.of(**search), {"short_name": short_name}
    return list(cmr_items(wanted, client, collection=collection, skipped=SkippedItems(), root=server.url))


def test_an_unknown_property_is_told_in_the_words_of_each_source(tmp_path: Path) -> None:
    """An API's items, CMR's granules and a file's items."""
    place = as_collection(tmp_path)
    of_file = {"items": str(place), "assets": ["red"], "area": "all", "where": "nosuch<1"}
    of_api = r"^where: no item of 127\.0\.0\.1:\d+ has the property nosuch;"

    with (
        serving_api(lambda _asked, _url: page(SCENES)) as api,
        pytest.raises(RequestError, match=of_api),
    ):
        search(stac=api.url, where="nosuch<1")
    with (
        serving(lambda _: Answer(body={"items": [granule("G1")]})) as server,
        pytest.raises(RequestError, match=r"^where: no granule has the property nosuch;"),
    ):
        found_by_cmr(server, where="nosuch<1")
    with pytest.raises(RequestError, match=r"where: no item has the property nosuch;"):
        make_plan({"sources": {"stac": of_file}, "window": "centre"})


@pytest.mark.parametrize(
    "changes",
    [
        {"RelatedUrls": None},
        {"RelatedUrls": 7},
        {"TemporalExtent": 7},
        {"SpatialExtent": None},
        {"SpatialExtent": {"HorizontalSpatialDomain": {"Geometry": {"GPolygons": []}}}},
        {"SpatialExtent": {"HorizontalSpatialDomain": {"Geometry": 7}}},
        {"GranuleUR": 7},
    ],
)
def test_a_granule_without_place_time_or_data_is_no_scene(changes: dict[str, Any]) -> None:
    """It is passed over, whatever it is."""
    with serving(lambda _: Answer(body={"items": [granule("G1", **changes), 7, {}]})) as server:
        assert found_by_cmr(server) == []


def granules(*given: dict[str, Any], **search: Any) -> list[dict[str, Any]]:
    """Return what a search of CMR makes of granules."""
    with serving(lambda _: Answer(body={"items": list(given)})) as server:
        return found_by_cmr(server, **search)


def placed(**geometry: Any) -> dict[str, Any]:
    """Return a granule of these shapes."""
    return granule("G1", SpatialExtent={"HorizontalSpatialDomain": {"Geometry": geometry}})


def ring(*positions: tuple[float, float]) -> dict[str, Any]:
    """Return a polygon as CMR writes it."""
    points = [{"Longitude": x, "Latitude": y} for x, y in (*positions, positions[0])]
    return {"Boundary": {"Points": points}}


def rectangle(*sides: float) -> dict[str, float]:
    """Return a box as CMR writes it."""
    names = ("West", "South", "East", "North")
    return {f"{name}BoundingCoordinate": side for name, side in zip(names, sides, strict=True)}


@pytest.mark.parametrize(
    ("geometry", "box"),
    [
        ({"BoundingRectangles": [rectangle(170, 0, 180, 5), rectangle(-180, 0, -170, 6)]}, [170, 0, -170, 6]),
        ({"BoundingRectangles": [rectangle(10, 0, 11, 1), rectangle(20, 5, 21, 6)]}, [10, 0, 21, 6]),
        ({"BoundingRectangles": [rectangle(179, 0, -179, 1)]}, [179, 0, -179, 1]),
        (
            {"BoundingRectangles": [rectangle(1, 1, 2, 2)], "GPolygons": [ring((5, 5), (6, 5), (6, 6))]},
            [1, 1, 6, 6],
        ),
        ({"GPolygons": [ring((-180, -90), (180, -90), (180, 90), (-180, 90))]}, [-180, -90, 180, 90]),
        ({"GPolygons": [ring((-135, 80), (-45, 80), (45, 80), (135, 80))]}, [-180, 80, 180, 90]),
        ({"Points": [{"Longitude": 7, "Latitude": 8}, {"Longitude": 9, "Latitude": 1}]}, [7, 1, 9, 8]),
        (
            {"Lines": [{"Points": [{"Longitude": 179, "Latitude": 1}, {"Longitude": -179, "Latitude": 2}]}]},
            [179, 1, -179, 2],
        ),
    ],
)
def test_a_granule_of_cmr_covers_all_of_its_shapes(geometry: dict[str, Any], box: list[float]) -> None:
    """Several boxes, a ring around the Earth or a pole, points and lines make one box."""
    assert [each["bbox"] for each in granules(placed(**geometry))] == [box]


_APEX = math.degrees(math.atan(math.tan(math.radians(60)) / math.cos(math.radians(1))))
"""The latitude that a great circle reaches between two places at 60 degrees, 2 degrees of longitude apart."""


@pytest.mark.parametrize(
    ("geometry", "box"),
    [
        ({"GPolygons": [ring((5, 59), (7, 59), (7, 60), (5, 60))]}, [5, 59, 7, _APEX]),
        ({"GPolygons": [ring((5, -59), (7, -59), (7, -60), (5, -60))]}, [5, -_APEX, 7, -59]),
        ({"GPolygons": [ring((179, 59), (-179, 59), (-179, 60), (179, 60))]}, [179, 59, -179, _APEX]),
        ({"Lines": [{"Points": ring((5, 60), (7, 60))["Boundary"]["Points"]}]}, [5, 60, 7, _APEX]),
        ({"BoundingRectangles": [rectangle(5, 59, 7, 60)]}, [5, 59, 7, 60]),
    ],
)
def test_edges_of_a_granule_of_cmr_are_great_circles(geometry: dict[str, Any], box: list[float]) -> None:
    """A tile of 2 degrees at 60 degrees reaches 420 m beyond its corners; a rectangle does not."""
    assert granules(placed(**geometry))[0]["bbox"] == pytest.approx(box, abs=1e-6)


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ({"where": "eo:cloud_cover<20"}, ["G1"]),
        ({"ids": ["G2"]}, ["G2"]),
        ({"where": "eo:cloud_cover<20", "most": 1}, ["G1"]),
        ({"geojson": {"type": "Polygon", "coordinates": [[[0, 0], [9, 0], [9, 9], [0, 0]]]}}, []),
    ],
)
def test_no_condition_of_a_search_of_cmr_is_ignored(search: dict[str, Any], found: list[str]) -> None:
    """CMR is asked for places and times; conditions, ids and shapes are looked at here."""
    given = (granule("G1"), granule("G2", CloudCover=50), granule("G1"))
    assert [each["id"] for each in granules(*given, **search)] == found


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("G1.B04.tif", "B04"),
        ("G1_B01_WTR.tif", "B01_WTR"),
        ("G1-red.TIF", "red"),
        ("G1_LST.tiff", "LST"),
        ("G1.tif", "G1"),
        ("G10_LST.tif", "G10_LST"),
        ("other.B04.tif", "other.B04"),
        ("G1_meta.json", "meta.json"),
    ],
)
def test_an_asset_of_cmr_is_named_by_what_the_granule_name_leaves(file: str, name: str) -> None:
    """HLS writes a point before the band, OPERA and ECOSTRESS an underscore."""
    (item,) = granules(granule("G1", RelatedUrls=[{"Type": "GET DATA", "URL": f"https://host/a/{file}"}]))
    assert list(item["assets"]) == [name]


def test_cmr_that_repeats_itself_or_finds_too_much_is_ended() -> None:
    """A search neither runs for ever nor fills the memory."""
    same = Answer(body={"items": [granule("G1", RelatedUrls=[])]}, headers={"cmr-search-after": "1"})
    with serving(lambda _: same) as server, pytest.raises(StoreError, match="repeats"):
        found_by_cmr(server)
    two = Answer(body={"items": [granule("G1"), granule("G2")]})
    with serving(lambda _: two) as server, pytest.raises(BudgetError, match="more than 1"):
        found_by_cmr(server, most=1)


HEAD = "GRANULE_ID,SENSING_TIME,CLOUD_COVER,MGRS_TILE,NORTH_LAT,SOUTH_LAT,WEST_LON,EAST_LON,BASE_URL\n"
LINE = "L1C_T32TPS,2024-06-01T10:00:00Z,12.5,32TPS,47,46,11,12,gs://bucket/tiles/32/T/PS/X.SAFE\n"


def items_in_index(content: bytes, folder: Path) -> list[dict[str, Any]]:
    """Return the items of an index, opened as for a catalog."""
    file = folder / "index.csv"
    file.write_bytes(content)
    name, opened = open_list_file(file.as_uri(), objects=Objects(StoreSettings()))
    with closing(opened):
        return list(items_of_index(opened, name=name, skipped=SkippedItems()))


@pytest.mark.parametrize("zip_", [lambda content: content, gzip.compress], ids=["plain", "gzipped"])
def test_lines_of_the_sentinel_2_index_are_items(zip_: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """The asset is the folder of the images."""
    (found,) = items_in_index(zip_((HEAD + LINE).encode()), tmp_path)

    assert (found["id"], found["bbox"]) == ("L1C_T32TPS", [11.0, 46.0, 12.0, 47.0])
    assert found["properties"]["eo:cloud_cover"] == 12.5
    folder = "https://storage.googleapis.com/bucket/tiles/32/T/PS/X.SAFE/GRANULE/L1C_T32TPS/IMG_DATA/"
    assert found["assets"]["images"]["href"] == folder


def test_a_tile_across_180_degrees_is_not_around_the_earth() -> None:
    """The index has the least and the greatest longitude of its corners."""
    content = io.BytesIO((HEAD + LINE.replace(",11,12,", ",-179.4,179.2,")).encode())
    (found,) = items_of_index(content, name="index.csv", skipped=SkippedItems())

    assert found["bbox"] == [179.2, 46, -179.4, 47]
    for point, is_found in ((180, True), (-179.5, True), (0, False)):
        wanted = SearchCriteria.of(point=(point, 46.5))
        assert bool(list(wanted_items([found], wanted, name="item", skipped=SkippedItems()))) is is_found


@pytest.mark.long
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a,b\n1,2\n", "has no column GRANULE_ID"),
        (b"", "has no column"),
        ((HEAD + LINE).encode() + b"\xff\xfe,\n", "cannot be read"),
        (gzip.compress((HEAD + LINE * 9000).encode())[:-20], "cannot be read"),
        ((HEAD + '"' + "x" * 200_000).encode(), "cannot be read"),
    ],
)
def test_a_wrong_index_is_refused_with_its_line(content: bytes, said: str, tmp_path: Path) -> None:
    """The error is ours, never one of Python's."""
    with pytest.raises(RequestError, match=said):
        items_in_index(content, tmp_path)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (LINE.replace(",47,", ",north,"), "index.csv line 2: NORTH_LAT is no number: 'north'"),
        (LINE.replace("12.5", "n/a"), "index.csv line 2: CLOUD_COVER is no number: 'n/a'"),
        (LINE + "short\n", "index.csv line 3: it has no SENSING_TIME, NORTH_LAT, SOUTH_LAT, WEST_LON"),
        (LINE.replace("gs://bucket/tiles/32/T/PS/X.SAFE", ""), "index.csv line 2: it has no BASE_URL"),
    ],
)
def test_a_wrong_line_of_the_index_is_left_out_and_named(lines: str, said: str) -> None:
    """It ends no search of a million others."""
    skipped = SkippedItems()
    list(items_of_index(io.BytesIO((HEAD + lines).encode()), name="index.csv", skipped=skipped))

    ((name, reason),) = skipped.first
    assert f"{name}: {reason}".startswith(said)
