"""Assets with several bands: tables, series and rankings read the band that is named, as a gather does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pixel_gather import RequestError, drill, points, rank, series, zones
from scenes.scenes import item
from support.geojson import collection, feature, polygon
from support.images import write_image
from support.tables import rows_of

WEST, NORTH, SIDE, PIXEL = 11.0, 46.0, 32, 0.01
POINT = [11.105, 45.895]
FIELD = polygon((11.05, 45.95), (11.15, 45.95), (11.15, 45.85), (11.05, 45.95))


def _search_among(folder: Path, claims: list[dict[str, Any]]) -> dict[str, str]:
    """Return a search among a scene with an asset of some bands, which hold 1, 2 and so on."""
    pixels = np.stack([np.full((SIDE, SIDE), band, "uint16") for band in range(1, len(claims) + 1)])
    file = write_image(
        folder / "rgb.tif", pixels, west=WEST, north=NORTH, size=PIXEL, crs="EPSG:4326", nodata=None
    )
    box = (WEST, NORTH - SIDE * PIXEL, WEST + SIDE * PIXEL, NORTH)
    scene = item("s1", box=box, assets={"rgb": {"href": file, "raster:bands": claims}})
    (folder / "items.json").write_text(json.dumps(collection([scene])))
    return {"items": str(folder / "items.json")}


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return a search among a scene with an asset of three bands."""
    return _search_among(tmp_path_factory.mktemp("items"), [{}, {}, {}])


def _of_points(sources: Any, to: Path, **values: Any) -> float:
    points(collection([feature({"type": "Point", "coordinates": POINT})]), sources, to=to, **values)
    return _only_value(rows_of(to)[0])


def _of_zones(sources: Any, to: Path, **values: Any) -> float:
    zones(collection([feature(FIELD)]), sources, statistics="mean", to=to, **values)
    return _only_value(rows_of(to)[0])


def _of_series(sources: Any, _to: Path, **values: Any) -> float:
    (row,) = series(sources, point=POINT, **values)
    return _only_value(row)


def _of_ranking(sources: Any, _to: Path, **values: Any) -> float:
    (row,) = rank(sources, **values).rows()
    return float(row["value"])


def _only_value(row: dict[str, Any]) -> float:
    (found,) = (each for name, each in row.items() if isinstance(each, float) and name != "valid")
    return found


@pytest.mark.parametrize("measure", [_of_points, _of_zones, _of_series, _of_ranking])
@pytest.mark.parametrize(("assets", "by", "value"), [({"blue": "rgb:3"}, "blue", 3), (["rgb:2"], "rgb_2", 2)])
def test_a_numbered_asset_is_that_band(
    items: dict[str, str],
    tmp_path: Path,
    measure: Callable[..., float],
    assets: Any,
    by: str,
    value: float,
) -> None:
    """Each had the first band of the file before, and said nothing."""
    sources = {"stac": items | {"assets": assets}}

    assert measure(sources, tmp_path / "t.parquet", by=by) == value


@pytest.mark.parametrize("measure", [_of_points, _of_zones, _of_series])
@pytest.mark.parametrize(("asset", "value"), [("rgb", 1), ("rgb:3", 3)])
def test_names_stand_for_assets(
    items: dict[str, str], tmp_path: Path, measure: Callable[..., float], asset: str, value: float
) -> None:
    """Where the request names no assets, ``bands`` says which ones its names mean."""
    found = measure({"stac": items}, tmp_path / "t.parquet", by="blue", bands={"blue": asset})

    assert found == value


def test_a_drill_has_that_band_alone(items: dict[str, str]) -> None:
    """It had all bands of the file before, each as a value of ``blue``."""
    sources = {"stac": items | {"assets": {"blue": "rgb:3", "all": "rgb"}}}

    found = {each.source.band: (each.bands, each.values) for each in drill(sources, point=(11.105, 45.895))}

    assert found == {"blue": ((3,), (3,)), "all": ((1, 2, 3), (1, 2, 3))}


def test_names_stand_for_bands_of_a_search(items: dict[str, str], tmp_path: Path) -> None:
    """Where the request names assets, ``bands`` says which of them its names mean, in rankings, too."""
    sources = {"stac": items | {"assets": {"third": "rgb:3"}}}

    for measure in (_of_points, _of_ranking):
        assert measure(sources, tmp_path / "t.parquet", by="dark", bands={"dark": "third"}) == 3


@pytest.mark.parametrize("measure", [_of_points, _of_zones, _of_series, _of_ranking])
def test_bands_count_before_names_of_a_search(
    items: dict[str, str], tmp_path: Path, measure: Callable[..., float]
) -> None:
    """A ranking read ``blue`` of the search before, and a table what stands for it."""
    sources = {"stac": items | {"assets": {"blue": "rgb:1", "nir": "rgb:3"}}}

    assert measure(sources, tmp_path / "t.parquet", by="blue", bands={"blue": "nir"}) == 3


def test_each_band_of_a_file_has_the_nodata_that_is_claimed_of_it(tmp_path: Path) -> None:
    """Also if both are read together. Before, that of the first held for all."""
    claimed = _search_among(tmp_path, [{"nodata": 7}, {"nodata": 2}])

    sources = {"stac": claimed | {"assets": {"one": "rgb:1", "two": "rgb:2"}}}

    (row,) = series(sources, point=POINT)
    drilled = drill(sources, point=(11.105, 45.895))

    assert (row["one"], row["two"]) == (1, None)
    assert {each.source.band: each.is_nodata(*each.values) for each in drilled} == {"one": False, "two": True}


@pytest.mark.parametrize("measure", [_of_points, _of_ranking])
def test_a_number_counts_in_the_file_that_a_name_stands_for(
    items: dict[str, str], tmp_path: Path, measure: Callable[..., float]
) -> None:
    """The message said to say what ``dark`` means, though that was said."""
    file = Path(items["items"]).with_name("rgb.tif")
    (tmp_path / "list.csv").write_text(f"href,band,scene\n{file},visual,one\n{file},nir,one\n")

    found = measure(str(tmp_path / "list.csv"), tmp_path / "t.parquet", by="dark:2", bands={"dark": "visual"})

    assert found == 2


def test_a_table_of_another_band_of_the_asset_is_another_table(items: dict[str, str], tmp_path: Path) -> None:
    """The list names the same file, so its digest is the same."""
    to, point = tmp_path / "t.parquet", collection([feature({"type": "Point", "coordinates": POINT})])
    first, third = ({"stac": items | {"assets": {"blue": f"rgb:{number}"}}} for number in (1, 3))
    points(point, first, to=to, by="blue")

    places: list[dict[str, Any]] = [{"to": to}, {"append_to": to}]
    for place in places:
        with pytest.raises(RequestError, match="another value of the band of an asset, such as rgb:3"):
            points(point, third, by="blue", **place)
