"""Which scenes meet a feature, by their boxes."""

from typing import Any

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.io.crs import RasterioProjector
from pixel_gather.tables.features import Features
from pixel_gather.tables.scene_filter import SceneFilter
from pixel_gather.tables.shapes import Shapes


def points(*places: tuple[float, float], crs: str = "EPSG:4326") -> Features:
    """Return points."""
    xs, ys = np.array(places).T
    return Features(ids=np.arange(len(places)), xs=xs, ys=ys, crs=crs)


def fields(*shapes: Any, crs: str = "EPSG:4326") -> Features:
    """Return polygons, with places of no meaning."""
    at = np.ones(len(shapes))
    geometries = Shapes.of_array(np.array(shapes, object))
    return Features(ids=np.arange(len(shapes)), xs=at, ys=at, crs=crs, geometries=geometries)


def filter_of(features: Features) -> SceneFilter:
    """Return the filter of features."""
    return SceneFilter(features, RasterioProjector())


@pytest.mark.parametrize(
    ("box", "meets"),
    [
        ((10, 40, 12, 42), True),
        ((12, 40, 14, 42), False),
        ((10, 42, 12, 44), False),
        ((11, 41, 12, 42), True),  # on the corner
        ((170, 40, -170, 42), False),
    ],
)
def test_a_scene_is_kept_if_a_point_lies_in_its_box(box: tuple[float, ...], *, meets: bool) -> None:
    """Edges count."""
    assert filter_of(points((11.0, 41.0), (50.0, 60.0))).meets(box) is meets


def test_boxes_across_180_degrees_are_seen_from_both_sides() -> None:
    """And longitudes above 180 are those below -180."""
    found = filter_of(points((179.5, 0.0), (-179.5, 10.0)))

    assert found.meets((179, -1, -179, 1))
    assert found.meets((179, 9, -179, 11))
    assert not found.meets((-170, -1, 170, 1))
    assert filter_of(points((190.0, 0.0))).meets((-171, -1, -169, 1))


def test_points_without_coordinates_meet_nothing() -> None:
    """Nor do polygons that are missing."""
    missing = fields(None, shapely.box(0, 0, 2, 2))

    assert not filter_of(points((np.nan, np.nan))).meets((-180, -90, 180, 90))
    assert filter_of(missing).meets((1, 1, 1.1, 1.1))
    assert not filter_of(missing).meets((3, 3, 4, 4))


@pytest.mark.parametrize("crs", ["EPSG:3413", "EPSG:3031"])
@pytest.mark.parametrize(("west", "south"), [(-300, -300), (-10, -200), (10, -300), (150, 120)])
def test_no_scene_at_a_pole_is_left_out(crs: str, west: float, south: float) -> None:
    """Neither where the pole lies in a field, nor where an edge is nearer to it than all corners. In km."""
    found = filter_of(fields(shapely.box(west * 1e3, south * 1e3, 300e3, 300e3), crs=crs))
    xs, ys = (
        each.ravel() * 1e3 for each in np.meshgrid(np.linspace(west, 300, 30), np.linspace(south, 300, 30))
    )
    lons, lats = RasterioProjector().point_arrays(xs, ys, source_crs=crs, target_crs="EPSG:4326")

    assert all(found.meets((lon, lat, lon, lat)) for lon, lat in zip(lons, lats, strict=True))
    assert not found.meets((0, -50, 10, 50))


@pytest.mark.long
@given(st.floats(300_000, 700_000), st.floats(100_000, 8_000_000), st.floats(10, 90_000))
def test_no_scene_that_shows_a_field_is_left_out(x: float, y: float, side: float) -> None:
    """A field in UTM meets each small box around a place in it, whatever its edges are in degrees."""
    found = filter_of(fields(shapely.box(x, y, x + side, y + side), crs="EPSG:32633"))
    shares = np.linspace(0, 1, 5)
    xs, ys = (each.ravel() for each in np.meshgrid(x + side * shares, y + side * shares))
    lons, lats = RasterioProjector().point_arrays(xs, ys, source_crs="EPSG:32633", target_crs="EPSG:4326")

    assert all(found.meets((lon, lat, lon, lat)) for lon, lat in zip(lons, lats, strict=True))
