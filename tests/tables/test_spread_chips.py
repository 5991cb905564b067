"""Chips that are spread over polygons."""

import io
import json
from typing import Any

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from shapely.geometry import mapping

from pixel_gather.core.errors import RequestError
from pixel_gather.core.plan.chip_table import Chips
from pixel_gather.core.request.windows_request import WindowsRequest
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.tables.read_chip_table import read_chip_table
from support.geojson import collection, feature

CRS = "EPSG:32632"
AREAS: dict[str, tuple[Any, str]] = {
    "a": (shapely.box(10.0, 45.0, 10.1, 45.2), "maize"),
    "b": (shapely.Polygon([(10.2, 45), (10.4, 45), (10.2, 45.2)]), "wheat"),
    "c": (shapely.box(10.5, 45, 10.7, 45.1).difference(shapely.box(10.55, 45.02, 10.65, 45.08)), "maize"),
}


def areas(**polygons: Any) -> bytes:
    """Return polygons as GeoJSON, with an id and a crop. It is x, if polygons are given."""
    of = {name: (polygon, "x") for name, polygon in polygons.items()} or AREAS
    features = [feature(mapping(each), id=name, crop=crop) for name, (each, crop) in of.items()]
    return json.dumps(collection(features)).encode()


def spread(content: bytes | None = None, name: str = "areas.geojson", **windows: Any) -> Chips:
    """Spread chips over polygons."""
    request = WindowsRequest.model_validate({"table": name, "size": [8, 8]} | windows)
    return read_chip_table(io.BytesIO(areas() if content is None else content), name=name, windows=request)


def by_id(chips: Chips) -> dict[Any, tuple[float, ...]]:
    """Return where each chip lies, in degrees."""
    return dict(zip(chips.ids, zip(chips.lons.tolist(), chips.lats.tolist(), strict=True), strict=True))


@pytest.mark.long
@given(n=st.integers(1, 300), seed=st.integers(0, 2**63 - 1), has_strata=st.booleans())
def test_a_sample_lies_in_its_polygons(*, n: int, seed: int, has_strata: bool) -> None:
    """Each chip lies in the area that it names, and has its label. Each label has as many, or one more."""
    chips = spread(sample=n, seed=seed, strata="crop" if has_strata else None)

    assert sorted(chips.ids) == list(range(1, n + 1))
    for lon, lat, area, crop in zip(
        chips.lons, chips.lats, chips.columns["area"], chips.columns["crop"], strict=True
    ):
        polygon, label = AREAS[area]
        assert shapely.contains_xy(polygon, lon, lat)
        assert crop == label
    if has_strata:
        counts = [list(chips.columns["crop"]).count(crop) for crop in ("maize", "wheat")]
        assert counts == [-(-n // 2), n // 2]


def test_equal_seeds_give_equal_chips() -> None:
    """Others do not."""
    one, again, other = (spread(sample=50, seed=seed) for seed in (7, 7, 8))

    assert by_id(one) == by_id(again)
    assert one.digest == again.digest != other.digest
    assert by_id(spread(sample=50)) == by_id(spread(sample=50, seed=0))


def test_every_place_of_a_sample_is_as_likely() -> None:
    """A degree of longitude counts less in the north, and a large polygon more than a small one."""
    wide = areas(world=shapely.box(-180, -90, 180, 90))
    lats = spread(wide, sample=20_000, seed=1).lats
    two = areas(one=shapely.box(0, 59, 1, 61), two=shapely.box(0, -1, 1, 1))
    names = spread(two, sample=20_000, seed=1).columns["area"]

    assert abs(np.mean(np.abs(lats) < 30) - 0.5) < 0.02  # half of the Earth
    assert abs(list(names).count("two") / 20_000 - 2 / 3) < 0.02


@pytest.mark.long
@given(step=st.integers(500, 9000))
def test_a_lattice_has_every_point_in_the_polygons_once(step: int) -> None:
    """And no other, at whole multiples of the spacing."""
    chips = spread(spacing=step, crs=CRS)
    xs, ys = (np.arange(low // step - 1, high // step + 2) * step for low, high in _utm_box())
    all_xs, all_ys = (each.ravel().astype(float) for each in np.meshgrid(xs, ys))
    lons, lats = RasterioProjector().point_arrays(all_xs, all_ys, source_crs=CRS, target_crs="EPSG:4326")
    inside = shapely.contains_xy(shapely.union_all([each for each, _ in AREAS.values()]), lons, lats)

    found = list(zip(chips.xs.tolist(), chips.ys.tolist(), strict=True))
    assert len(set(found)) == len(found)
    assert sorted(found) == sorted(zip(all_xs[inside].tolist(), all_ys[inside].tolist(), strict=True))
    assert chips.crs == CRS


def _utm_box() -> tuple[tuple[int, int], tuple[int, int]]:
    west, south, east, north = RasterioProjector().bounds(
        (10.0, 45.0, 10.7, 45.2), source_crs="EPSG:4326", target_crs=CRS
    )
    return (int(west), int(east)), (int(south), int(north))


def test_a_point_in_two_polygons_is_the_first_ones() -> None:
    """No chip comes twice."""
    box = shapely.box(0, 0, 2, 2)
    chips = spread(areas(one=box, two=box.buffer(1)), spacing=0.5)
    of = dict(zip(zip(chips.xs.tolist(), chips.ys.tolist(), strict=True), chips.columns["area"], strict=True))

    assert of[1.0, 1.0] == "one"
    assert of[2.5, 1.0] == "two"
    assert len(of) == len(chips)


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        ({"sample": 5, "spacing": 2.0}, "give sample or spacing, not both"),
        ({"seed": 5}, "use it only with sample"),
        ({"strata": "crop", "spacing": 1.0}, "use it only with sample"),
        ({"sample": 5, "strata": "kind"}, "windows.strata: there is no column kind; there are id, crop"),
        ({"spacing": 1e-6}, "windows.spacing: the box around the areas has .* points; give a larger one"),
        ({"spacing": 7.0}, "windows.spacing: no such point lies in the areas; give a smaller one"),
    ],
)
def test_wrong_ways_are_refused(windows: dict[str, Any], message: str) -> None:
    """The message says what to do."""
    with pytest.raises(ValueError, match=message):
        spread(**windows)


def test_areas_beyond_the_lattices_crs_are_told() -> None:
    """Not by an overflow. Those that are no degrees are refused before."""
    far = areas(far=shapely.box(676_000, 5e6, 677_000, 5.1e6))
    with pytest.raises(RequestError, match=r"areas\.geojson: it has longitude 676000"):
        spread(far, spacing=10, crs=CRS)
    of_etrs = json.loads(far) | {"crs": {"type": "name", "properties": {"name": "EPSG:4258"}}}
    with pytest.raises(RequestError, match=r"windows\.crs: the areas cannot be placed in EPSG:32632"):
        spread(json.dumps(of_etrs).encode(), spacing=10, crs=CRS)


def test_areas_across_180_degrees_have_their_chips_there() -> None:
    """A ring from 170 to -170 degrees is 20 degrees wide. One in small steps is wide, and is told."""
    crossing = areas(a=shapely.box(-170, 0, 170, 1))
    steps = [(x, 0) for x in range(-170, 171, 10)] + [(x, 1) for x in range(170, -171, -10)]
    wide = areas(a=shapely.Polygon(steps))

    for chips in (spread(crossing, sample=50), spread(crossing, spacing=0.5)):
        assert np.abs(chips.lons).min() > 170
        assert {*np.sign(chips.lons)} == {-1, 1}
        assert chips.notes == ()
    assert spread(crossing).lons.tolist() == [180]
    assert [each[:38] for each in spread(wide, sample=5).notes] == ["1 polygon more than 180 degrees wide, "]
    assert spread(wide).notes == spread(wide, sample=5).notes


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:32760", "EPSG:3832"])
def test_a_lattice_across_180_degrees_has_every_point(crs: str) -> None:
    """Also those at 180 degrees itself, once, and in a CRS in metres whose box is small there."""
    crossing = areas(fiji=shapely.box(179.88, -17.12, 180.12, -16.88))
    spacing = 0.05 if crs == "EPSG:4326" else 5000.0

    chips = spread(crossing, spacing=spacing, crs=crs)

    projector = RasterioProjector()
    (middle_x,), (middle_y,) = projector.points([180.0], [-17.0], source_crs="EPSG:4326", target_crs=crs)
    steps = np.arange(-10, 11)
    xs, ys = ((round(middle / spacing) + steps) * spacing for middle in (middle_x, middle_y))
    lons, lats = projector.point_arrays(
        np.repeat(xs, len(ys)), np.tile(ys, len(xs)), source_crs=crs, target_crs="EPSG:4326"
    )
    is_in = (np.abs(lons % 360 - 180) < 0.12) & (np.abs(lats + 17) < 0.12)
    expected = zip((lons[is_in] % 360).round(6).tolist(), lats[is_in].round(6).tolist(), strict=True)
    found = zip((chips.lons % 360).round(6).tolist(), chips.lats.round(6).tolist(), strict=True)
    assert sorted(found) == sorted(expected)
    assert is_in.sum() > 20


def test_a_lattice_around_a_pole_has_every_point() -> None:
    """The pole, and those at 180 degrees, lie on the edge of the polygon alone."""
    cap = areas(cap=shapely.box(-180, 80, 180, 90))

    chips = spread(cap, spacing=200_000, crs="EPSG:3413")

    xs, ys = (each.ravel() for each in np.meshgrid(*[np.arange(-8, 9) * 200_000.0] * 2))
    _, lats = RasterioProjector().point_arrays(xs, ys, source_crs="EPSG:3413", target_crs="EPSG:4326")
    expected = zip(xs[lats > 80].tolist(), ys[lats > 80].tolist(), strict=True)
    assert sorted(zip(chips.xs.tolist(), chips.ys.tolist(), strict=True)) == sorted(expected)


def test_a_sample_of_a_small_polygon_across_180_degrees_is_drawn() -> None:
    """Its parts lie 360 degrees apart. Before, it was too thin to draw points from."""
    crossing = areas(fiji=shapely.box(179.88, -17.12, 180.06, -16.88))

    lons = spread(crossing, sample=3000, seed=1).lons

    assert np.abs(lons).min() > 179.88
    assert abs(np.mean(lons > 0) - 2 / 3) < 0.05


def test_points_are_no_areas() -> None:
    """A chip at each would be meant otherwise."""
    with pytest.raises(RequestError, match=r"windows\.table: sample and spacing need a polygon in each line"):
        spread(b"id,lon,lat\n1,10,45\n", "points.csv", sample=3)


def test_a_column_that_the_cube_names_is_refused() -> None:
    """The polygon's id becomes the coordinate area."""
    polygon = "POLYGON ((0 0, 1 0, 1 1, 0 0))"
    content = f'id,area,wkt\nf7,x,"{polygon}"\n'.encode()

    with pytest.raises(
        RequestError, match=r"has a coordinate area of its own; rename the column, or name it by windows.id"
    ):
        spread(content, "areas.csv", sample=3)
    assert set(spread(content, "areas.csv", sample=3, id="area").columns["area"]) == {"x"}


def test_a_polygon_without_room_is_told() -> None:
    """Not tried for ever."""
    thin = areas(line=shapely.Polygon([(0, 0), (40, 40), (40, 40.0000000001)]))

    with pytest.raises(RequestError, match=r"windows\.table: area line is too thin to draw points from"):
        spread(thin, sample=3)
