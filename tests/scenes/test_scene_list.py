"""Scenes as the sources of a gather: on real files, by a catalog and by a STAC API."""

import json
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import arro3.io
import numpy as np
import pytest
import zarr

from pixel_gather import ArrayExistsError, BudgetError, RequestError, gather, make_plan
from pixel_gather.core.request.href_policy import HrefPolicy
from pixel_gather.core.request.request import parse_sources
from pixel_gather.core.request.web_address import hosts_only
from pixel_gather.features.catalog.catalog import make_catalog
from pixel_gather.features.catalog.search import search
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.io.scenes.scene_list import SceneFinder
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.store_settings import StoreSettings
from scenes.scenes import item
from scenes.stac_server import Answer, Asked, Server, page, serving, serving_api
from support.images import TILES_OF_64, write_image
from support.undrawn import gather_undrawn

BARE = Settings(draws_report=False)
DATES = ("2024-06-01", "2024-06-11", "2024-06-21")


DEGREES: dict[str, Any] = {"west": 11.0, "north": 47.0, "size": 0.01, "crs": "EPSG:4326"} | TILES_OF_64


def image(path: Path, value: int) -> str:
    """Write an image of 64 x 64 pixels at 11.0 to 11.64 degrees east, 46.36 to 47 north."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_image(path, np.full((64, 64), value, np.uint16), nodata=None, **DEGREES)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return three scenes with red and nir, the first one processed twice; the last one has no nir."""
    folder = tmp_path_factory.mktemp("images")
    found = []
    for number, (date, version) in enumerate([(DATES[0], "1"), *((each, "2") for each in DATES)]):
        assets: dict[str, Any] = {
            "B04": {
                "href": image(folder / f"{number}/red.tif", 10 + number),
                "eo:bands": [{"common_name": "red"}],
            },
            "B08": {
                "href": image(folder / f"{number}/nir.tif", 20 + number),
                "eo:bands": [{"common_name": "nir"}],
                "raster:bands": [{"scale": 0.0001, "offset": -0.1}],
            },
        }
        if number == 3:
            del assets["B08"]
        scene = item(
            f"s{number}",
            box=(11.0, 46.36, 11.64, 47.0),
            time=f"{date}T10:00:00Z",
            assets=assets,
            platform="sentinel-2a",
            grid__code="MGRS-32TPS",
            processing__version=version,
            eo__cloud_cover=10 * number,
        )
        found.append(scene)
    return found


@pytest.fixture(scope="module")
def catalog(scenes: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the file of a catalog of the scenes."""
    place = tmp_path_factory.mktemp("catalog") / "catalog.parquet"
    make_catalog(scenes, to=place)
    return str(place)


@pytest.fixture(scope="module")
def api(scenes: list[dict[str, Any]]) -> Iterator[Server]:
    """Serve the scenes by a STAC API that ignores what it is asked for."""
    with serving_api(lambda _asked, _url: page(scenes)) as server:
        yield server


def request_of(kind: str, place: str, **changes: Any) -> dict[str, Any]:
    """Return a request for one pixel of red and nir."""
    asked = {"api" if kind == "stac" else "file": place, "assets": {"red": "red", "nir": "B08"}} | changes
    return {"sources": {kind: asked}, "window": {"point": [11.3, 46.7]}}


def request_for(items: Any, *assets: str, **more: Any) -> dict[str, Any]:
    """Return a request for one pixel of some items."""
    asked = {"items": items, "assets": list(assets)} | more
    return {"sources": {"stac": asked}, "window": {"point": [11.3, 46.7]}}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["stac", "catalog"])
def test_scenes_become_a_cube(kind: str, api: Server, catalog: str, tmp_path: Path) -> None:
    """One row a scene in the order of time, each asset a band; of two processings the latest counts."""
    place = api.url if kind == "stac" else catalog

    gathered = gather_undrawn(request_of(kind, place), to=tmp_path / "cube.zarr")

    with gathered.open() as cube:
        assert cube.time.values.astype("datetime64[D]").astype(str).tolist() == list(DATES)
        assert cube.red.values.ravel().tolist() == [11, 12, 13]
        assert cube.nir.values.ravel().tolist()[:2] == [21, 22]
        assert cube.scene.values.tolist() == ["s1", "s2", "s3"]
        assert cube.cloud_cover.values.tolist() == [10, 20, 30]
    warnings = " ".join(gathered.report.warnings)
    assert "1 scene left out, of which a later processing is kept: s0 (kept: s1)" in warnings
    assert "claims another scale than the file's for 2 of 2 sampled sources of band nir" in warnings
    assert "claims another offset than the file's" in warnings


def test_an_asset_that_no_scene_has_is_told(catalog: str) -> None:
    """It may be a slip of the pen. The other bands are gathered."""
    planned = make_plan(request_of("catalog", catalog, assets=["red", "nri"]))

    assert [slot.name for slot in planned.slots] == ["red"]
    said = "3 scenes found, and none has an asset nri; the first has B04;"
    assert any(each.startswith(said) for each in planned.warnings), planned.warnings


def test_an_area_around_more_than_half_the_earth_is_told(catalog: str) -> None:
    """The plan warns."""
    steps = [[x, -80] for x in range(-170, 171, 10)] + [[x, 80] for x in range(170, -171, -10)]
    around = {"type": "Polygon", "coordinates": [[*steps, steps[0]]]}

    planned = make_plan(request_of("catalog", catalog, area=around))

    assert any("1 polygon more than 180 degrees wide, taken as drawn" in each for each in planned.warnings)


@pytest.mark.long
def test_classes_of_the_catalog_are_in_the_cube_and_in_its_rows_to_come(tmp_path: Path) -> None:
    """The item names them. They stay in an append."""
    classes = [{"value": 4, "name": "vegetation", "color_hint": "00A000"}, {"value": 6, "name": "water"}]
    scenes = [
        item(
            f"s{number}",
            box=(11.0, 46.36, 11.64, 47.0),
            time=f"{date}T10:00:00Z",
            assets={
                "SCL": {
                    "href": image(tmp_path / f"{number}/scl.tif", 4 + number),
                    "classification:classes": classes,
                }
            },
        )
        for number, date in enumerate(DATES)
    ]

    cube = tmp_path / "cube.zarr"
    for some, to, output in ((scenes[:2], cube, {}), (scenes[2:], None, {"append_to": str(cube)})):
        gather_undrawn(request_for(some, "SCL") | {"output": output}, to=to)

    told = zarr.open_group(cube, mode="r")["SCL"].attrs
    assert told["flag_values"] == [4, 6]
    assert told["flag_meanings"] == "vegetation water"
    assert told["flag_colors"] == "#00a000 -"


def test_the_area_is_that_of_the_window(api: Server) -> None:
    """A box in another CRS is sent in longitude and latitude."""
    request = request_of("stac", api.url)
    request["window"] = {"bbox": [1_260_000, 5_880_000, 1_261_000, 5_881_000], "crs": "EPSG:3857"}

    request["sources"]["stac"]["api"] += "/?key=secret"
    plan = make_plan(request)
    assert "secret" not in json.dumps(plan.request)

    def lonlat(x: float, y: float) -> tuple[float, float]:  # of the sphere that EPSG:3857 takes the Earth for
        return math.degrees(x / 6_378_137), math.degrees(math.atan(math.sinh(y / 6_378_137)))

    expected = [*lonlat(1_260_000, 5_880_000), *lonlat(1_261_000, 5_881_000)]
    assert api.asked[-1].body["bbox"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "n_rows"),
    [
        ({"where": "eo:cloud_cover<25"}, 2),
        ({"where": {"eo:cloud_cover": {"gte": 30}}}, 1),
        ({"datetime": "2024-06-10/.."}, 2),
        ({"area": [11.6, 46.9, 11.7, 46.95]}, 3),
        ({"area": {"type": "Point", "coordinates": [11.1, 46.5]}}, 3),
        ({"area": "all"}, 3),
        ({"duplicates": "all"}, 4),
        ({"scene": "solar-day", "duplicates": "all"}, 4),
        ({"ids": ["s2"]}, 1),
        ({"assets": ["nir"]}, 2),
        ({"assets": "B04"}, 3),
    ],
)
@pytest.mark.parametrize("kind", ["stac", "catalog"])
def test_each_part_of_the_search_decides(
    kind: str, changes: dict[str, Any], n_rows: int, api: Server, catalog: str
) -> None:
    """Catalog and API answer alike."""
    place = api.url if kind == "stac" else catalog
    assert make_plan(request_of(kind, place, **changes)).n_rows == n_rows


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"where": "cloud"}, "sources.catalog.where: "),
        ({"datetime": "yesterday"}, "sources.catalog.datetime: "),
        ({"area": [0, 0, 500, 1]}, "sources.catalog.bbox: west is 0 and east is 500"),
        ({"area": [200, 0, 200, 0]}, "sources.catalog.bbox: the longitude is 200; write"),
        ({"assets": ["blue"]}, "sources.catalog.assets: 3 scenes found, and none has an asset blue; the "),
        ({"assets": ["blue"]}, "if one of these is meant, write blue=NAME, or {blue: NAME} in a request"),
        (
            {"assets": {"nir": "B8"}},
            "has an asset B8; the first has B04; if one of these is meant, write nir=NAME",
        ),
        ({"assets": ["red:2"]}, "has 1 band, not 2"),
        ({"duplicates": "fail"}, "sources.catalog.duplicates: "),
        ({"datetime": "1999"}, "no scene was found"),
        ({"assets": []}, "sources.catalog.assets"),
        ({"scene": "orbit"}, "sources.catalog.scene"),
        ({"most": 0}, "sources.catalog.most"),
        ({"api": "https://x"}, "sources.catalog.api: there is no such field"),
        ({"file": "nosuch/catalog.parquet"}, "sources.catalog.file: there is no catalog at"),
        ({"file": "nosuch/für uns.parquet"}, "/nosuch/für uns.parquet; make one with pixel-gather catalog"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], said: str, catalog: str) -> None:
    """Nothing is made, not even a folder."""
    from pixel_gather import GatherError  # noqa: PLC0415 # the base of all

    with pytest.raises(GatherError) as raised:
        make_plan(request_of("catalog", catalog, **changes))

    assert said in str(raised.value)
    assert not Path("nosuch").exists()


def test_a_window_without_a_place_needs_an_area(catalog: str) -> None:
    """The message says what to write."""
    request = request_of("catalog", catalog) | {"window": "centre"}
    with pytest.raises(RequestError, match=r"sources\.catalog\.area: .*write area"):
        make_plan(request)

    request["sources"]["catalog"]["area"] = "all"
    assert make_plan(request).n_rows == 3


def test_a_scene_whose_asset_may_not_be_read_is_refused(tmp_path: Path) -> None:
    """Addresses of a catalog pass the same check as those of a list."""
    scene = item(assets={"red": {"href": "https://host/a.tif?token=secret\n"}})
    make_catalog([scene], to=tmp_path / "catalog.parquet")
    request = request_of("catalog", str(tmp_path / "catalog.parquet"), assets=["red"], area="all")

    with pytest.raises(RequestError, match=r"sources\.catalog: scene scene-1: the href"):
        make_plan(request)


@pytest.mark.slow
def test_another_answer_is_another_gather(scenes: list[dict[str, Any]], api: Server, tmp_path: Path) -> None:
    """The list that was found counts, so a cube is never gone on with after the catalog has changed."""
    request = request_of("stac", api.url, assets=["red"])
    gather_undrawn(request, to=tmp_path / "cube.zarr")
    assert gather_undrawn(request, to=tmp_path / "cube.zarr").was_complete

    removed = scenes.pop()
    try:
        with pytest.raises(ArrayExistsError, match="of this request and another list"):
            gather_undrawn(request, to=tmp_path / "cube.zarr")
    finally:
        scenes.append(removed)


def found_list(cube: Path) -> list[dict[str, Any]]:
    """Return the rows of the list beside a cube."""
    table = arro3.io.read_parquet(str(cube / "sources.parquet")).read_all()
    columns = {name: table[name].to_pylist() for name in table.schema.names if name != "time"}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def test_what_was_found_lies_beside_the_cube(
    scenes: list[dict[str, Any]], catalog: str, tmp_path: Path
) -> None:
    """Every asset that was wanted, with what became of it and why."""
    gather(request_of("catalog", catalog), to=tmp_path / "cube.zarr", settings=BARE)

    rows = {(each["scene"], each["band"]): each for each in found_list(tmp_path / "cube.zarr")}
    became = {key: (each["status"], each["reason"]) for key, each in rows.items()}
    duplicate = ("duplicate", "s0 was processed again later: s1 is kept")
    assert became == {
        ("s0", "red"): duplicate,
        ("s0", "nir"): duplicate,
        ("s1", "red"): ("kept", None),
        ("s1", "nir"): ("kept", None),
        ("s2", "red"): ("kept", None),
        ("s2", "nir"): ("kept", None),
        ("s3", "red"): ("kept", None),
        ("s3", "nir"): ("absent", "s3 has no such asset"),
    }
    assert rows["s2", "nir"]["href"].endswith("2/nir.tif")
    assert rows["s2", "nir"]["offset_claimed"] == -0.1
    assert rows["s0", "red"]["cloud_cover"] == 0
    assert len(scenes) == 4


def test_a_gather_from_a_list_leaves_no_such_file(scenes: list[dict[str, Any]], tmp_path: Path) -> None:
    """The list lies somewhere already."""
    hrefs = [scenes[0]["assets"]["B04"]["href"]]
    gather({"sources": hrefs, "window": {"pixels": [0, 0, 4, 4]}}, to=tmp_path / "cube.zarr", settings=BARE)

    assert not (tmp_path / "cube.zarr/sources.parquet").exists()


def test_an_unfinished_gather_goes_on_with_what_it_found(
    scenes: list[dict[str, Any]], api: Server, tmp_path: Path
) -> None:
    """It does not search again; once it is complete, the same request is searched for again."""

    class StoppedError(Exception):
        pass

    def stop(_: Any) -> None:
        raise StoppedError

    request = request_of("stac", api.url)
    with pytest.raises(StoppedError):
        gather(request, to=tmp_path / "cube.zarr", settings=BARE, on_progress=stop)
    n_asked = len(api.asked)
    removed = scenes.pop()
    try:
        gathered = gather(request, to=tmp_path / "cube.zarr", settings=BARE)
        assert len(api.asked) == n_asked
        with pytest.raises(ArrayExistsError, match="of this request and another list"):
            gather(request, to=tmp_path / "cube.zarr")
    finally:
        scenes.append(removed)
    assert gathered.report.status_counts["ok"] == 5
    assert [each["scene"] for each in found_list(tmp_path / "cube.zarr")].count("s3") == 2
    assert not (tmp_path / "cube.zarr/.gather").exists() or not any(
        (tmp_path / "cube.zarr/.gather").iterdir()
    )


def picture(folder: Path, number: int) -> dict[str, Any]:
    """Return a scene whose asset ``visual`` has three bands, beside one that has red alone."""
    pixels = np.stack([np.full((64, 64), 10 * band + number, np.uint8) for band in (1, 2, 3)])
    path = write_image(folder / f"visual{number}.tif", pixels, nodata=None, **DEGREES)
    names = ("red", "green", "blue")
    assets = {
        "visual": {"href": path, "bands": [{"name": name, "eo:common_name": name} for name in names]},
        "B04": {"href": image(folder / f"red{number}.tif", 99), "bands": [{"eo:common_name": "red"}]},
    }
    return item(f"p{number}", time=f"2024-06-0{number}T10:00:00Z", assets=assets)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the file of a catalog of two scenes with pictures."""
    folder = tmp_path_factory.mktemp("pictures")
    make_catalog([picture(folder, 1), picture(folder, 2)], to=folder / "catalog.parquet")
    return str(folder / "catalog.parquet")


def test_a_band_of_an_asset_is_read_by_its_number(pictures: str, tmp_path: Path) -> None:
    """``visual:2`` is the second band, whichever name it has in the cube; it is no repeated source."""
    assets = {"green": "visual:2", "blue": "visual:3"}
    gathered = gather(request_of("catalog", pictures, assets=assets), to=tmp_path / "a.zarr", settings=BARE)

    with gathered.open() as cube:
        assert cube.green.values.ravel().tolist() == [21, 22]
        assert cube.blue.values.ravel().tolist() == [31, 32]
    assert not any("repeat" in each for each in gathered.report.warnings)
    assert [
        each.name for each in make_plan(request_of("catalog", pictures, assets=["visual:3"])).measurements
    ] == ["visual_3"]
    assert make_plan(request_of("catalog", pictures, assets=["red"])).measurements[0].dtype == "uint16"


@pytest.mark.parametrize(
    ("assets", "said"),
    [
        ({"rgb": "visual"}, "sources.catalog.assets: the asset of rgb has 3 bands in"),
        (["green"], "sources.catalog.assets: the asset of green has 3 bands in"),
        (["visual:4"], "has 3 bands, not 4"),
        (["red", "red"], "two of them would be the band red"),
        ({"time": "red"}, "sources.catalog.assets: the band 'time' would collide"),
        ({"a/b": "red"}, "sources.catalog.assets: the band 'a/b' cannot be"),
    ],
)
def test_a_band_that_cannot_be_read_is_refused(assets: Any, said: str, pictures: str) -> None:
    """An asset with several bands is never read by its first one in silence."""
    with pytest.raises(RequestError) as raised:
        make_plan(request_of("catalog", pictures, assets=assets))

    assert said in str(raised.value)


def items_in(form: str, scenes: list[dict[str, Any]], folder: Path) -> Any:
    """Return the scenes as a program or a file gives them."""
    collection = {"type": "FeatureCollection", "features": scenes}
    file = folder / "items.json"
    match form:
        case "dicts":
            return scenes
        case "found":
            make_catalog(scenes, to=folder / "catalog.parquet")
            return search(catalog=folder / "catalog.parquet", duplicates="all")
        case "file":
            file.write_text(json.dumps(collection))
            return file
        case _:
            for each in scenes:
                (folder / f"{each['id']}.json").write_text(json.dumps(each))
            links = [{"rel": "item", "href": f"{each['id']}.json"} for each in scenes]
            file.write_text(json.dumps({"type": "Catalog", "links": links}))
            return str(file)


@pytest.mark.parametrize("form", ["dicts", "found", "file", "static catalog"])
def test_items_are_gathered_from_wherever_they_are(
    form: str, scenes: list[dict[str, Any]], tmp_path: Path
) -> None:
    """What search returns, dicts and files are one; conditions hold for them, too."""
    given = partial(request_for, items_in(form, scenes, tmp_path), assets={"red": "red"})

    plan, fewer = make_plan(given()), make_plan(given(where="eo:cloud_cover<25"))

    assert (plan.n_rows, fewer.n_rows) == (3, 2)
    with pytest.raises(BudgetError, match="more than 2 scenes"):
        make_plan(given(most=2))


def test_items_make_a_cube(scenes: list[dict[str, Any]], tmp_path: Path) -> None:
    """The stored request has a digest of the items; the list beside the cube has their assets."""
    request = request_for(scenes, "red")
    gathered = gather(request, to=tmp_path / "cube.zarr", settings=BARE)

    with gathered.open() as cube:
        assert cube.red.values.ravel().tolist() == [11, 12, 13]
    assert len(found_list(tmp_path / "cube.zarr")) == 4
    assert gather(request, to=tmp_path / "cube.zarr", settings=BARE).was_complete


def test_granules_of_cmr_are_gathered(monkeypatch: pytest.MonkeyPatch, scenes: list[dict[str, Any]]) -> None:
    """The collection is named, and the box of the window goes along."""

    def answer(asked: Asked) -> Answer:
        assert asked.parameters["short_name"] == "HLSL30"
        assert asked.parameters["bounding_box"] == "11.3,46.7,11.3,46.7"
        url = {"URL": f"file://{scenes[1]['assets']['B04']['href']}", "Type": "GET DATA"}
        box = {"West": 11.0, "South": 46.36, "East": 11.64, "North": 47.0}
        rectangle = {f"{side}BoundingCoordinate": value for side, value in box.items()}
        umm = {
            "GranuleUR": "HLS.1",
            "TemporalExtent": {"SingleDateTime": "2024-06-01T10:00:00Z"},
            "SpatialExtent": {"HorizontalSpatialDomain": {"Geometry": {"BoundingRectangles": [rectangle]}}},
            "RelatedUrls": [url],
        }
        return Answer(body={"items": [{"umm": umm}]})

    with serving(answer) as server:
        monkeypatch.setattr("pixel_gather.io.scenes.search_for_request.CMR", server.url)
        asked = {"cmr": {"short_name": "HLSL30"}, "assets": ["red"]}
        plan = make_plan({"sources": {"stac": asked}, "window": {"point": [11.3, 46.7]}})

    assert plan.n_rows == 1


def test_a_plan_tells_what_the_search_took(api: Server, catalog: str) -> None:
    """Pages of an API, or reads of the catalog's files."""
    n_before = len(api.asked)
    by_api = make_plan(request_of("stac", api.url)).estimate
    by_catalog = make_plan(request_of("catalog", catalog)).estimate

    said = [
        next(each.how_much for each in one.figures if each.what == "search") for one in (by_api, by_catalog)
    ]
    assert said == [f"{len(api.asked) - n_before} pages", "4 GETs"]


@pytest.mark.long
@pytest.mark.parametrize("rule", ["solar-day", "datatake"])
def test_scenes_of_one_day_or_datatake_share_a_row(rule: str, tmp_path: Path) -> None:
    """Where two of them have the same band, both are kept: the later one of the list gets a second row."""
    place: dict[str, Any] = {"box": (11.0, 46.36, 11.64, 47.0), "s2__datatake_id": "T1"}
    hrefs = {name: image(tmp_path / f"{name}.tif", value) for name, value in (("r", 1), ("n", 2), ("r2", 3))}
    scenes = [
        item("red", time="2024-06-01T10:00:00Z", assets={"red": {"href": hrefs["r"]}}, **place),
        item("nir", time="2024-06-01T10:00:20Z", assets={"nir": {"href": hrefs["n"]}}, **place),
        item("again", time="2024-06-01T10:00:40Z", assets={"red": {"href": hrefs["r2"]}}, **place),
    ]
    request = request_for(scenes, "red", "nir", scene=rule, duplicates="all")

    with gather(request, to=tmp_path / "cube.zarr", settings=BARE).open() as cube:
        assert cube.red.values.ravel().tolist() == [1, 3]
        assert cube.nir.values.ravel().tolist() == [2, 0]
        assert cube.status.values.tolist() == [[0, 0], [0, 1]]
        assert (
            cube.scene.values.tolist() == ["sentinel-2-l2a 2024-06-01" if rule == "solar-day" else "T1"] * 2
        )
        assert cube.item.values.tolist() == [["red", "nir"], ["again", ""]]
        assert cube.time.values[0] < cube.time.values[1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"bbox": [math.nan, 46, 12, 47]},
        {"bbox": [11, 46, math.inf, 47]},
        {"properties": {"datetime": None}},
        {"assets": 7},
        {"id": ""},
    ],
)
def test_a_wrong_item_of_a_program_is_refused(wrong: dict[str, Any]) -> None:
    """The error is a sentence, as for an item of a server. Nothing is read before."""
    with pytest.raises(RequestError, match=r"sources\.stac"):
        make_plan(request_for([item() | wrong], "red"))


def static_catalog(folder: Path, *links: str) -> Path:
    """Write a catalog with one item, a child that links back to it, and further links."""
    (folder / "item.json").write_text(json.dumps(item()))
    of_child = [{"rel": "child", "href": "catalog.json"}, {"rel": "item", "href": "item.json"}]
    (folder / "child.json").write_text(json.dumps({"type": "Catalog", "links": of_child}))
    named = [{"rel": "child", "href": href} for href in ("child.json", "catalog.json", *links)]
    (folder / "catalog.json").write_text(json.dumps({"type": "Catalog", "links": named}))
    return folder / "catalog.json"


def finder(folder: Path) -> SceneFinder:
    """Return a finder that may read one folder's scheme, as a deployment may read its buckets."""
    policy = HrefPolicy(schemes=frozenset({"file"}), base=str(folder))
    return SceneFinder(
        window=None,
        projector=RasterioProjector(),
        objects=Objects(StoreSettings()),
        policy=HrefPolicy(schemes=frozenset({"s3"})),
        catalog_policy=policy,
        check_api=lambda _: hosts_only(frozenset(), field="stac"),
    )


def test_a_static_catalog_with_loops_ends(tmp_path: Path) -> None:
    """Each document is read once."""
    named = parse_sources({"stac": {"items": str(static_catalog(tmp_path)), "assets": ["red"]}})

    assert [each.scene for each in finder(tmp_path)(named).sources] == ["scene-1"]


@pytest.mark.parametrize("href", ["http://169.254.169.254/latest/meta-data", "s3://elsewhere/catalog.json"])
def test_a_static_catalog_leads_to_no_other_place(href: str, tmp_path: Path) -> None:
    """Every link passes the check of the place itself."""
    named = parse_sources({"stac": {"items": str(static_catalog(tmp_path, href)), "assets": ["red"]}})

    with pytest.raises(RequestError, match=r"sources\.stac\.items: .* is not read here"):
        list(finder(tmp_path)(named).sources)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=302, headers={"location": "http://169.254.169.254/"}),
        page([item()], {"rel": "next", "href": "http://169.254.169.254/search"}),
    ],
    ids=["redirect", "next page"],
)
def test_a_gather_is_not_led_to_another_host(answer: Answer) -> None:
    """Nothing is gathered of what came before."""
    led = pytest.raises(RequestError, match=r"sources\.stac: .*(redirects|another host)")
    with serving_api(lambda _asked, _url: answer) as server, led:
        make_plan(request_of("stac", server.url))


def test_an_offset_that_may_be_applied_already_is_told(tmp_path: Path) -> None:
    """Pixels stay as they are; the row is marked, and the report counts it."""
    claim = {"raster:bands": [{"scale": 0.0001, "offset": -0.1}]}
    scenes = [
        item(
            f"s{value}",
            box=(11.0, 46.36, 11.64, 47.0),
            time=f"2024-06-0{n}T10:00:00Z",
            assets={"red": {"href": image(tmp_path / f"{value}.tif", value)} | claim},
        )
        for n, value in ((1, 120), (2, 1120))
    ]
    gathered = gather(request_for(scenes, "red"), to=tmp_path / "cube.zarr", settings=BARE)

    with gathered.open() as cube:
        assert cube.red.values.ravel().tolist() == [120, 1120]
        assert cube.below_claim.values.tolist() == [True, False]
        assert cube.offset_claimed.values.tolist() == [-0.1, -0.1]
    assert any("1 source with pixels darker" in each for each in gathered.report.warnings)
