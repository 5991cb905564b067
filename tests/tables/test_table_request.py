"""What a table asks of a search: the scenes around its features."""

import json
from typing import Any

import numpy as np
import pytest
import shapely

from pixel_gather.core.errors import RequestError
from pixel_gather.core.plan.longitudes import short_way_around
from pixel_gather.core.request.sources import Sources
from pixel_gather.tables.read_features import FeatureColumns, given_features
from pixel_gather.tables.table_request import TableRequest
from pixel_gather.tables.zone_cells import check_zones
from support.geojson import collection, feature


def area_of(features: Any, *, crs: str | None = None) -> Any:
    """Return where scenes are looked for."""
    sources = {"catalog": {"file": "c.parquet", "assets": ["data"]}}
    request = TableRequest.of(features=features, sources=sources, crs=crs)
    read = given_features(features, columns=FeatureColumns(crs=crs))
    found: Sources = request.sources_near(read if read.geometries is None else check_zones(read))
    assert found.catalog is not None
    return found.catalog.area


def geojson(*shapes: shapely.Geometry) -> dict[str, Any]:
    """Return shapes as GeoJSON."""
    return collection(feature(json.loads(shapely.to_geojson(each))) for each in shapes)


@pytest.mark.parametrize(
    ("lons", "box"),
    [
        ([10.0, 12.0], [10, 12]),
        ([179.5, -179.0], [179.5, -179]),
        ([170.0, 190.0], [170, -170]),
        ([190.0, 350.0], [-170, -10]),
        ([-190.0, -170.0], [170, -170]),
        ([-100.0, 0.0, 100.0], [-100, 100]),
        ([-120.0, 0.0, 119.0, 179.0], [0, -120]),
        ([180.0], [180, 180]),
    ],
)
def test_scenes_are_looked_for_on_the_short_way_around(lons: list[float], box: list[float]) -> None:
    """Wherever the features begin to count longitudes. Before, those beyond 180 were refused."""
    area = area_of([{"lon": lon, "lat": lat} for lon, lat in zip(lons, (1, 5, 3, 4), strict=False)])

    north = 1 if len(lons) == 1 else 5
    assert list(area) == [box[0], 1, box[1], north]


def test_scenes_of_polygons_across_180_degrees_are_looked_for_there() -> None:
    """Before, they were looked for all around the Earth but there, and those between were not found."""
    crossing = shapely.box(-179.5, 1, 179.5, 2)  # the short way around
    beyond = shapely.box(178, 3, 181, 4)

    assert list(area_of(geojson(crossing))) == [179.5, 1, -179.5, 2]
    assert list(area_of(geojson(crossing, beyond))) == [178, 1, -179, 4]
    assert list(area_of(geojson(crossing, shapely.box(0, 0, 1, 1)))) == [0, 0, -179.5, 2]
    assert list(area_of(geojson(shapely.Point(3, 4)))) == [3, 4, 3, 4]


def test_the_narrowest_box_holds_all_places() -> None:
    """Of random places, each lies in it, and the other way around is no shorter."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        wests = rng.uniform(-180, 179, rng.integers(1, 5))
        easts = np.minimum(wests + rng.uniform(0, 60, len(wests)), 180)
        west, east = short_way_around(wests, easts)
        width = (east - west) % 360
        for start, stop in zip(wests, easts, strict=True):
            assert (start - west) % 360 + (stop - start) <= width + 1e-9
        assert width <= easts.max() - wests.min() + 1e-9


def test_names_of_bands_without_values_are_refused() -> None:
    """Otherwise all bands would be written, and nobody would see that the names stand for nothing."""
    with pytest.raises(RequestError, match="give by") as refused:
        TableRequest.of(features=None, sources=None, bands={"red": "B04"})

    assert refused.value.field == "bands"


@pytest.mark.parametrize("band", ["scl", "scl:2"])
def test_names_of_bands_may_stand_for_the_mask_alone(band: str) -> None:
    """A mask has a name of a band, too."""
    mask = {"band": band, "drop": [3]}

    request = TableRequest.of(features=None, sources=None, bands={"scl": "SCL"}, mask=mask)

    assert request.values.bands == (("scl", "SCL"),)


@pytest.mark.parametrize("assets", [{}, {"assets": ["red"]}])
def test_links_of_a_search_are_signed_as_asked(assets: dict[str, Any]) -> None:
    """Also where the assets are chosen by the names of the values."""
    sources = {"stac": {"api": "https://host/v1"} | assets, "sign": "earthdata"}
    request = TableRequest.of(features=None, sources=sources, by="red")
    features = given_features([{"lon": 1, "lat": 2}], columns=FeatureColumns())

    assert request.sources_near(features).sign == "earthdata"
