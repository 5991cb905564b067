"""Footprints on the Earth, computed from headers."""

import math
from collections.abc import Sequence
from copy import replace
from typing import Any

import numpy as np
import pytest
from rasterio.crs import CRS
from shapely.geometry import box, shape

from pixel_gather.core.area import Area
from pixel_gather.core.model.source import Header, Source
from pixel_gather.core.model.window import Transform
from pixel_gather.core.scenes.item import scene_key
from pixel_gather.core.scenes.scenes_from_headers import item_of_headers, lay_footprint, lay_footprints
from pixel_gather.io.crs import RasterioProjector

HEADER = Header(
    href="s3://bucket/a.tif",
    etag=None,
    nbytes=1,
    driver="GTiff",
    width=100,
    height=100,
    n_bands=1,
    dtype="uint16",
    nodata=math.nan,
    scales=(0.1,),
    offsets=(0.0,),
    transform=Transform(1000, 0, 600_000, 0, -1000, 5_200_000),
    crs="EPSG:32632",
    tile_width=100,
    tile_height=100,
    is_tiled=True,
)
PROJECTOR = RasterioProjector()
PROJECTED = CRS.from_string("+proj=laea +lat_0=46 +lon_0=11").to_wkt()
TIME = 1_717_236_030_000_000


def scene(header: Header, **source: object) -> dict[str, Any]:
    """Return the item of one image."""
    given = Source(href=header.href, time_us=TIME, **source)  # type: ignore[arg-type] # a test's own
    item = item_of_headers([(given, header)], collection="images", projector=PROJECTOR)
    assert isinstance(item, dict)
    return item


def test_the_footprint_follows_the_image_and_holds_what_it_shows() -> None:
    """All corners and the centre of the image lie in the footprint, and a point beside it does not."""
    item = scene(HEADER)
    footprint = shape(item["geometry"])
    assert footprint.is_valid
    xs, ys = PROJECTOR.points(
        [601_000, 650_000, 699_000, 598_000],
        [5_199_000, 5_150_000, 5_101_000, 5_150_000],
        source_crs="EPSG:32632",
        target_crs="EPSG:4326",
    )
    within = [Area.of_point(x, y).meets(footprint) for x, y in zip(xs, ys, strict=True)]
    assert within == [True, True, True, False]
    assert scene_key(item, name="item").start_us == TIME


def test_an_image_across_the_antimeridian_is_one_scene_of_its_own_width() -> None:
    """The scene is found on both sides of 180 degrees, and not on the other side of the Earth."""
    header = replace(HEADER, crs="EPSG:32601", transform=Transform(1000, 0, 120_000, 0, -1000, 100_000))
    item = scene(header)
    west, _, east, _ = scene_key(item, name="item").box
    assert west > 178
    assert east < -178
    footprint = shape(item["geometry"])
    found = {x: Area.of_point(x, 0.5).meets(footprint) for x in (179.8, -179.8, 0.0, 90.0, -90.0)}
    assert found == {179.8: True, -179.8: True, 0.0: False, 90.0: False, -90.0: False}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"transform": None}, "not placed on the map"),
        ({"crs": None}, "not placed on the map"),
        ({"crs": "EPSG:999999"}, "no CRS that PROJ knows"),
    ],
)
def test_an_image_without_a_place_says_why(changes: dict[str, Any], said: str) -> None:
    """An image without a georeference gets a reason."""
    reason = lay_footprint(replace(HEADER, **changes), PROJECTOR)
    assert isinstance(reason, str)
    assert said in reason


@pytest.mark.parametrize("west", [-180, 0])
def test_an_image_that_covers_the_earth_covers_all_of_it(west: int) -> None:
    """This holds whether longitudes begin at -180 or, as in many models, at 0."""
    header = replace(HEADER, crs="EPSG:4326", transform=Transform(3.6, 0, west, 0, -1.8, 90))
    item = scene(header)
    assert item["bbox"] == pytest.approx([-180, -90, 180, 90])
    assert shape(item["geometry"]).equals(box(-180, -90, 180, 90))


@pytest.mark.parametrize(
    ("nodata", "declared"),
    [
        (0.0, {"nodata": 0.0}),
        (None, {}),
        (math.nan, {"nodata": "nan"}),
        (-math.inf, {"nodata": "-inf"}),
    ],
)
def test_bands_are_described_in_the_words_of_stac(nodata: float | None, declared: dict[str, object]) -> None:
    """JSON has no NaN. STAC writes it as text."""
    header = replace(HEADER, n_bands=2, scales=(0.1, 1.0), offsets=(-1000.0, 0.0), nodata=nodata)

    asset = scene(header)["assets"]["data"]

    assert asset["raster:bands"] == [
        {"data_type": "uint16", "scale": 0.1, "offset": -1000.0} | declared,
        {"data_type": "uint16", "scale": 1.0, "offset": 0.0} | declared,
    ]


@pytest.mark.parametrize(
    ("crs", "code"), [("EPSG:32632", {"proj:code": "EPSG:32632"}), (PROJECTED, {})], ids=["code", "WKT"]
)
def test_the_grid_is_described_by_shape_and_code(crs: str, code: dict[str, object]) -> None:
    """A CRS without a code has none."""
    properties = scene(replace(HEADER, crs=crs))["properties"]

    found = {name: value for name, value in properties.items() if name.startswith("proj:")}
    assert found == {"proj:shape": [100, 100]} | code


def test_files_of_the_same_name_have_ids_of_their_own() -> None:
    """Files of one name get different ids, the same in every run."""
    one, other = (scene(replace(HEADER, href=f"s3://bucket/{folder}/x.1.tif"))["id"] for folder in "ab")
    assert one != other
    assert str(one).startswith("x.1-")
    assert scene(HEADER, scene="named")["id"] == "named"


@pytest.mark.parametrize(("crs", "pole"), [("EPSG:3413", 90.0), ("EPSG:3031", -90.0)])
def test_an_image_over_a_pole_holds_the_pole(crs: str, pole: float) -> None:
    """It is found at any longitude near the pole."""
    header = replace(HEADER, crs=crs, transform=Transform(20_000, 0, -1_000_000, 0, -20_000, 1_000_000))
    footprint = shape(scene(header)["geometry"])
    assert all(Area.of_point(x, pole).meets(footprint) for x in (-180, -60, 0, 77, 180))
    assert not Area.of_point(0, 0).meets(footprint)


def test_footprints_hold_the_window_and_each_ring_once() -> None:
    """The window lies in its source. Sources without a place are left out."""
    window = replace(HEADER, width=10, height=10, transform=Transform(1000, 0, 610_000, 0, -1000, 5_190_000))
    sources = (HEADER, replace(HEADER, href="s3://bucket/b.tif"), replace(HEADER, crs=None))
    found = lay_footprints(window, sources, PROJECTOR)
    assert found is not None
    (source,) = found.sources
    assert len(source) == 20
    xs, ys = zip(*found.window, strict=True)
    assert (min(xs), max(ys)) == pytest.approx((10.44057, 46.85444))
    assert min(x for x, _ in source) < min(xs) < max(xs) < max(x for x, _ in source)
    degrees = [value for position in found.window for value in position]
    assert degrees == [round(value, 5) for value in degrees]
    assert any(round(value, 4) != value for value in degrees)


def test_footprints_go_on_beyond_the_antimeridian() -> None:
    """A ring there has no jump."""
    header = replace(HEADER, crs="EPSG:32601", transform=Transform(1000, 0, 120_000, 0, -1000, 100_000))
    found = lay_footprints(header, (), PROJECTOR)
    assert found is not None
    xs = [x for x, _ in found.window]
    assert (min(xs), max(xs)) == pytest.approx((179.58665, 180.48452))


def test_footprints_of_many_different_sources_are_their_corners() -> None:
    """The metadata of a cube stay small."""
    places = [Transform(1000, 0, 600_000 + 1000 * n, 0, -1000, 5_200_000) for n in range(5)]
    found = lay_footprints(HEADER, [replace(HEADER, transform=each) for each in places], PROJECTOR)
    assert found is not None
    assert [len(ring) for ring in found.sources] == [4] * 5
    assert set(found.sources[0]) < set(found.window)


def test_a_window_without_a_place_has_no_footprints() -> None:
    """Its sources are not asked for theirs."""
    assert lay_footprints(replace(HEADER, transform=None), (HEADER,), PROJECTOR) is None


LONLAT = replace(HEADER, crs="EPSG:4326", transform=Transform(0.1, 0, 5, 0, -0.1, 50))


def test_the_ring_goes_around_the_edge_in_fifths() -> None:
    """It is closed, and runs counter-clockwise as GeoJSON wants it. It begins at the upper left corner."""
    found = lay_footprint(LONLAT, PROJECTOR)

    assert not isinstance(found, str)
    bounds, ring = found
    down = [(5, 50 - n) for n in range(0, 10, 2)]
    right = [(5 + n, 40) for n in range(0, 10, 2)]
    up = [(15, 40 + n) for n in range(0, 10, 2)]
    left = [(15 - n, 50) for n in range(0, 10, 2)]
    assert bounds == pytest.approx((5, 40, 15, 50))
    np.testing.assert_allclose(ring, [*down, *right, *up, *left, down[0]])


@pytest.mark.parametrize(
    ("west", "north", "bounds"),
    [
        (350, 50, (-10, 40, 0, 50)),
        (175, 50, (175, 40, -175, 50)),
        (-185, 50, (175, 40, -175, 50)),
        (170, 50, (170, 40, 180, 50)),
        (-180, 50, (-180, 40, -170, 50)),
        (5, 90.05, (5, 80.05, 15, 90)),
        (5, -80.05, (5, -90, 15, -80.05)),
    ],
)
def test_longitudes_and_latitudes_lie_on_the_map(
    west: float, north: float, bounds: tuple[float, ...]
) -> None:
    """Whichever turn the file counts from, and though its last pixels may reach over a pole."""
    found = lay_footprint(replace(LONLAT, transform=Transform(0.1, 0, west, 0, -0.1, north)), PROJECTOR)

    assert not isinstance(found, str)
    assert found[0] == pytest.approx(bounds)


@pytest.mark.parametrize(
    ("crs", "south", "north"), [("EPSG:3413", 83.5, 90), ("EPSG:3031", -90, -83.5)], ids=["north", "south"]
)
def test_an_image_over_a_pole_goes_around_the_earth(crs: str, south: float, north: float) -> None:
    """Its box reaches up to the pole, which none of its edges touches."""
    found = lay_footprint(
        replace(HEADER, crs=crs, transform=Transform(10_000, 0, -500_000, 0, -10_000, 500_000)), PROJECTOR
    )

    assert not isinstance(found, str)
    assert found[0] == pytest.approx((-180, south, 180, north), abs=0.1)
    south, north = found[0][1], found[0][3]
    assert found[1] == [(-180, south), (180, south), (180, north), (-180, north), (-180, south)]


class NowhereProjector(RasterioProjector, frozen=True):
    """Finds no place for the last point."""

    def points(
        self, xs: Sequence[float], ys: Sequence[float], *, source_crs: str, target_crs: str
    ) -> tuple[list[float], list[float]]:
        """Return infinity for it, as PROJ does."""
        del source_crs, target_crs
        return [*xs[:-1], math.inf], [*ys[:-1], math.inf]


def test_an_edge_without_a_place_on_the_earth_says_so() -> None:
    """As in corners of a satellite's full disk. No item is made of it."""
    assert lay_footprint(LONLAT, NowhereProjector()) == "its edge has no place on the Earth"
    source = Source(href=HEADER.href, time_us=TIME)
    item = item_of_headers([(source, LONLAT)], collection="images", projector=NowhereProjector())
    assert item == "its edge has no place on the Earth"


def test_an_image_without_a_time_makes_no_item() -> None:
    """A search could not order it. The reason says where times come from."""
    item = item_of_headers([(Source(href="a"), HEADER)], collection="images", projector=PROJECTOR)

    assert item == "no time: say where the names have it (--time), or give a list with a column time"


def test_columns_of_the_list_become_properties() -> None:
    """A missing value is left out."""
    properties = scene(HEADER, columns={"orbit": 7, "cloud": None})["properties"]

    assert properties["orbit"] == 7
    assert "cloud" not in properties


def test_a_source_around_the_earth_keeps_its_four_corners() -> None:
    """It has no positions between them that could be left out."""
    earth = replace(LONLAT, transform=Transform(3.6, 0, -180, 0, -1.8, 90))
    places = [Transform(0.1, 0, 5 + n, 0, -0.1, 50) for n in range(4)]
    found = lay_footprints(LONLAT, [earth, *(replace(LONLAT, transform=each) for each in places)], PROJECTOR)

    assert found is not None
    assert found.sources[0] == ((-180, -90), (180, -90), (180, 90), (-180, 90))
    assert found.sources[1] == ((5, 50), (5, 40), (15, 40), (15, 50))
    assert len(lay_footprints(LONLAT, [earth], PROJECTOR).sources[0]) == 4  # type: ignore[union-attr] # as above
