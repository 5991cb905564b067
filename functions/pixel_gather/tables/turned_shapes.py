"""Shapes that reach over an end of a map: each part is moved to where the map shows it."""

from typing import TYPE_CHECKING

import numpy as np

from pixel_gather.core.area import sides_of_shape
from pixel_gather.core.plan.locate_window import Grid
from pixel_gather.core.plan.longitudes import TURN, ends_of, first_longitude
from pixel_gather.core.ports import Projector
from pixel_gather.tables.features import LONLAT, Floats
from pixel_gather.tables.shapes import Objects, Shapes, union_of

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry


def turn_shapes(shapes: Shapes, grid: Grid, projector: Projector) -> Shapes:
    """Move shapes by whole turns around the Earth to where a grid shows them, such as from 0 to 360 degrees.

    They are in the CRS of the grid. Shapes that no turn brings onto the grid stay as they are. So do all
    shapes if the grid has no longitudes, or if it goes around the Earth more than once.
    """
    image_west, image_east = ends_of(grid)
    west, _, east, _ = shapes.bounds.T
    with np.errstate(invalid="ignore"):
        is_turned = (west + TURN < image_east) | (east - TURN > image_west)
    if not is_turned.any() or (first := first_longitude(grid, projector)) is None:
        return shapes

    def turn(some: Objects, part: slice) -> Objects:
        for index in np.flatnonzero(is_turned[part]):
            some[index] = union_of(sides_of_shape(some[index], first=first))
        return some

    return shapes.map_blocks(turn)


def width_of_earth(crs: str, projector: Projector) -> float:
    """Return the distance in x from 180 degrees west to 180 degrees east, in the unit of a CRS.

    It is 0 if both lie at the same place, as in UTM, or if it differs between latitudes 0 and 60.
    """
    xs, _ = projector.point_arrays(
        np.array([-180.0, 180, -180, 180]), np.array([0.0, 0, 60, 60]), source_crs=LONLAT, target_crs=crs
    )
    with np.errstate(invalid="ignore"):
        width, other = xs[1] - xs[0], xs[3] - xs[2]
    return float(width) if width > 1 and abs(width - other) < width / 1e6 else 0.0


def cut_at_ends(shapes: Objects, earth: float, poles: Floats) -> None:
    """Replace, in the array, shapes whose rings cross an end of the map or go around a pole.

    They are cut at the ends.

    Args:
        shapes: In the CRS of the map. Each edge goes the short way round the Earth.
        earth: Width of the map, as from `width_of_earth`. The middle of the map is at x = 0.
        poles: y of the South Pole and of the North Pole, shape (2,).
    """
    import shapely  # noqa: PLC0415 # zones alone need it

    at, index = shapely.get_coordinates(shapes, return_index=True)
    with np.errstate(invalid="ignore"):
        is_far = (np.abs(np.diff(at[:, 0])) > earth / 2) & (index[1:] == index[:-1])
    for number in np.unique(index[1:][is_far]):
        parts = []
        for polygon in shapely.get_parts(shapes[number]):
            rings = (polygon.exterior, *polygon.interiors)
            shell, *holes = (_lay_ring(shapely.get_coordinates(ring), earth, poles) for ring in rings)
            parts.append(shell.difference(shapely.union_all(holes)))
        shapes[number] = shapely.union_all(parts)


def _lay_ring(at: Floats, earth: float, poles: Floats) -> "BaseGeometry":
    """Return the area within a ring, cut at the ends of the map. ``at`` has the shape (point, 2)."""
    import shapely  # noqa: PLC0415 # as above

    xs, ys = np.unwrap(at[:, 0], period=earth), at[:, 1]
    if abs(xs[-1] - xs[0]) > earth / 2:  # the pole lies within
        pole = poles[int(ys.mean() > 0)]
        xs, ys = np.append(xs, [xs[-1], xs[0]]), np.append(ys, [pole, pole])
    area = shapely.make_valid(shapely.Polygon(np.stack([xs, ys], axis=1)))
    return union_of(sides_of_shape(area, first=-earth / 2, turn=earth))
