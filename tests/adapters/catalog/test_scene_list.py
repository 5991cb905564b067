"""Scenes as the sources of a gather: on real files, by a catalog and by a STAC API."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.transform import from_origin

from adapters.catalog.stac_server import Answer, Server, landing, page, serving
from catalog.scenes import item
from pixel_gather import RequestError, dry_run
from pixel_gather.local.catalog import make_catalog
from support.undrawn import gather_undrawn

DATES = ("2024-06-01", "2024-06-11", "2024-06-21")


def image(path: Path, value: int) -> str:
    """Write an image of 64 x 64 pixels at 11.0 to 11.64 degrees east, 46.36 to 47 north."""
    path.parent.mkdir(parents=True, exist_ok=True)
    profile = {
        "driver": "GTiff",
        "width": 64,
        "height": 64,
        "count": 1,
        "dtype": "uint16",
        "crs": "EPSG:4326",
        "transform": from_origin(11.0, 47.0, 0.01, 0.01),
        "tiled": True,
        "blockxsize": 64,
        "blockysize": 64,
    }
    with rasterio.open(path, "w", **profile) as file:
        file.write(np.full((1, 64, 64), value, np.uint16))
    return str(path)


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
    urls: list[str] = []
    with serving(
        lambda asked: Answer(body=landing(urls[0])) if asked.path == "/" else page(scenes)
    ) as server:
        urls.append(server.url)
        yield server


def request_of(kind: str, place: str, **changes: Any) -> dict[str, Any]:
    """Return a request for one pixel of red and nir."""
    asked = {"api" if kind == "stac" else "file": place, "assets": {"red": "red", "nir": "B08"}} | changes
    return {"sources": {kind: asked}, "window": {"point": [11.3, 46.7]}}


@pytest.mark.slow
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
    assert "1 scene left out that was processed again later: s0 (kept: s1)" in warnings
    assert "claims another scale than the file's for 2 of 2 sampled sources of band nir" in warnings
    assert "claims another offset than the file's" in warnings


def test_the_area_is_that_of_the_window(api: Server) -> None:
    """A box in another CRS is sent in longitude and latitude."""
    request = request_of("stac", api.url)
    request["window"] = {"bbox": [1_260_000, 5_880_000, 1_261_000, 5_881_000], "crs": "EPSG:3857"}

    dry_run(request)

    def lonlat(x: float, y: float) -> tuple[float, float]:  # of the sphere that EPSG:3857 takes the Earth for
        return math.degrees(x / 6_378_137), math.degrees(math.atan(math.sinh(y / 6_378_137)))

    expected = [*lonlat(1_260_000, 5_880_000), *lonlat(1_261_000, 5_881_000)]
    assert api.asked[-1].body["bbox"] == pytest.approx(expected, abs=1e-6)


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
    assert dry_run(request_of(kind, place, **changes)).n_rows == n_rows


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"where": "cloud"}, "sources.catalog.where: "),
        ({"datetime": "yesterday"}, "sources.catalog.datetime: "),
        ({"area": [0, 0, 500, 1]}, "sources.catalog.bbox: west is 0 and east is 500"),
        ({"assets": ["blue"]}, "none has an asset blue; the first has B04"),
        ({"assets": ["red:2"]}, "sources.catalog.assets: a gather reads the same bands"),
        ({"duplicates": "fail"}, "sources.catalog.duplicates: "),
        ({"datetime": "1999"}, "no scene was found"),
        ({"assets": []}, "sources.catalog.assets"),
        ({"scene": "orbit"}, "sources.catalog.scene"),
        ({"most": 0}, "sources.catalog.most"),
        ({"api": "https://x"}, "sources.catalog.api: there is no such field"),
        ({"file": "nosuch/catalog.parquet"}, "there is no catalog at"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], said: str, catalog: str) -> None:
    """Nothing is made, not even a folder."""
    from pixel_gather import GatherError  # noqa: PLC0415 # the base of all

    with pytest.raises(GatherError) as raised:
        dry_run(request_of("catalog", catalog, **changes))

    assert said in str(raised.value)
    assert not Path("nosuch").exists()


def test_a_window_without_a_place_needs_an_area(catalog: str) -> None:
    """The message says what to write."""
    request = request_of("catalog", catalog) | {"window": "centre"}
    with pytest.raises(RequestError, match=r"sources\.catalog\.area: .*write area"):
        dry_run(request)

    request["sources"]["catalog"]["area"] = "all"
    assert dry_run(request).n_rows == 3


def test_a_scene_whose_asset_may_not_be_read_is_refused(tmp_path: Path) -> None:
    """Addresses of a catalog pass the same check as those of a list."""
    scene = item(assets={"red": {"href": "https://host/a.tif?token=secret\n"}})
    make_catalog([scene], to=tmp_path / "catalog.parquet")
    request = request_of("catalog", str(tmp_path / "catalog.parquet"), assets=["red"], area="all")

    with pytest.raises(RequestError, match=r"sources\.catalog: scene scene-1: the href"):
        dry_run(request)


@pytest.mark.slow
def test_another_answer_is_another_gather(scenes: list[dict[str, Any]], api: Server, tmp_path: Path) -> None:
    """The list that was found counts, so a cube is never gone on with after the catalog has changed."""
    from pixel_gather import ArrayExistsError  # noqa: PLC0415 # of this test alone

    request = request_of("stac", api.url, assets=["red"])
    gather_undrawn(request, to=tmp_path / "cube.zarr")
    assert gather_undrawn(request, to=tmp_path / "cube.zarr").was_complete

    removed = scenes.pop()
    try:
        with pytest.raises(ArrayExistsError, match="another list"):
            gather_undrawn(request, to=tmp_path / "cube.zarr")
    finally:
        scenes.append(removed)
