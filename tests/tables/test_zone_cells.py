"""The cells of polygons on a grid: which ones, how many at a time, and what is kept for the next image."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import shapely

from pixel_gather.core.model.source import Header
from pixel_gather.core.model.window import Transform
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.tables.features import LONLAT, Features
from pixel_gather.tables.shapes import Shapes
from pixel_gather.tables.zone_cells import Coverage, ZonePlaces, check_zones
from support.fakes import header_of

CRS = "EPSG:32631"
IN_PIXELS = Transform(10, 0, 0, 0, -10, 0)


def zones_of(*shapes: Any, crs: str = CRS) -> Features:
    """Return polygons that were checked."""
    at = shapely.centroid(np.array(shapes, object))
    return check_zones(
        Features(
            ids=np.arange(len(shapes)),
            xs=shapely.get_x(at),
            ys=shapely.get_y(at),
            crs=crs,
            geometries=Shapes.of_array(np.array(shapes, object)),
        )
    )


def pixels(west: float, north: float, east: float, south: float) -> Any:
    """Return a box by columns and rows."""
    return shapely.box(west * 10, -south * 10, east * 10, -north * 10)


def image(n_cols: int = 20, **changes: Any) -> Header:
    """Return the header of an image with pixels of 10 m and 12 rows. Its first corner is the origin."""
    given = {"transform": IN_PIXELS, "crs": CRS, **changes}
    return header_of(np.zeros((1, 12, n_cols), "uint8"), "s3://b/a.tif", **given)


class Projector:
    """Moves points by a function."""

    def __init__(self, move: Callable[[Any, Any], Any]) -> None:
        self.move = move

    def point_arrays(self, xs: Any, ys: Any, *, source_crs: str, target_crs: str) -> Any:
        """Return where points are in the other CRS."""
        assert source_crs != target_crs
        return self.move(xs, ys)


def places_of(
    *shapes: Any, coverage: Coverage = "fraction", move: Callable[[Any, Any], Any] | None = None
) -> ZonePlaces:
    """Return the places of zones; in degrees, if they are to be moved."""
    zones = zones_of(*shapes, crs=CRS if move is None else LONLAT)
    projector: Any = None if move is None else Projector(move)
    return ZonePlaces(zones, projector, coverage=coverage)


def cells_of(places: ZonePlaces, header: Header) -> list[tuple[int, int, int, float]]:
    """Return zone, column, row and share of each cell."""
    found: list[tuple[int, int, int, float]] = []
    for cells in places.on(header):
        assert len(cells.zones)
        n = np.diff(np.append(cells.starts, len(cells.cols)))
        columns = np.repeat(cells.zones, n), cells.cols, cells.rows, cells.coverage
        found += zip(*(each.tolist() for each in columns), strict=True)
    places.close()
    return found


def test_a_zone_that_another_crs_does_not_have_or_breaks_is_mended_or_left_out() -> None:
    """Here one is twisted, and one is beyond the CRS. None of it brings a warning."""

    def twist(xs: Any, ys: Any) -> Any:
        return np.where(xs > 100, np.inf, xs), (ys + 20) * (50 - xs) / 50 - 20

    places = places_of(shapely.box(0, -40, 100, 0), shapely.box(90, -20, 110, -10), move=twist)
    shapes = places._in_crs_of(image())[:]
    places.close()

    assert shapes[1] is None
    assert (shapes[0].geom_type, shapes[0].is_valid, shapes[0].area) == ("MultiPolygon", True, 2000)


@pytest.mark.parametrize("crs", ["EPSG:3413", "EPSG:5041"])
def test_a_polygon_at_the_other_pole_is_not_cut_into_endless_pieces(crs: str) -> None:
    """A CRS of the Arctic has Antarctica 1e23 m away. Other polygons have their cells."""
    arctic, antarctic = shapely.box(0, 89, 40, 90), shapely.box(0, -90, 10, -80)
    places = ZonePlaces(zones_of(arctic, antarctic, crs=LONLAT), RasterioProjector(), coverage="fraction")
    west, south = places._in_crs_of(image(crs=crs))[0:1][0].bounds[:2]
    at = Transform(1e4, 0, west, 0, -1e4, south + 12e4)

    found = cells_of(places, image(crs=crs, transform=at))

    assert {zone for zone, *_ in found} == {0}
    assert sum(share for *_, share in found) * 1e8 == pytest.approx(1.2e10 * 40 / 360 * np.pi, rel=0.1)
