"""Moves longitudes to where a grid has them: it may count them from 0 to 360, or past 180 degrees.

Pure except for the projector.
"""

from copy import replace
from typing import Any, Final

import numpy as np

from pixel_gather.core.model.source import Header
from pixel_gather.core.model.window import WindowRule
from pixel_gather.core.plan.locate_window import Grid
from pixel_gather.core.ports import Projector

type Floats = np.ndarray[Any, np.dtype[np.float64]]

LONLAT: Final = "EPSG:4326"
TURN: Final = 360.0
"""Degrees of longitude around the Earth."""

HALF_TURN: Final = TURN / 2

MOST_DEGREES: Final = 720
"""A grid that reaches further from 0 is taken to have no longitudes. This spares asking PROJ about most grids
in metres."""


def turn_longitudes(xs: Floats, own: Grid, projector: Projector, *, ends_at_left: bool) -> Floats:
    """Shift longitudes by multiples of 360 degrees, so that they lie within 180 of a grid's middle.

    GDAL does so, too. The xs stay as they are if the grid has no longitudes, or if it goes around the Earth
    more than once.

    Args:
        xs: In the CRS of the grid, of any shape.
        own: The grid. It has a transform.
        projector: Tells whether the CRS has longitudes.
        ends_at_left: Whether a longitude 180 degrees east of the middle becomes that 180 degrees west of it.
            Of a grid around the Earth, this is the left edge, which has pixels. GDAL's warper leaves such a
            longitude at the right edge.

    Returns:
        Longitudes of the same shape.
    """
    west, east = ends_of(own)
    first, last = (west + east - TURN) / 2, (west + east + TURN) / 2
    with np.errstate(invalid="ignore"):
        below, above = xs < first, xs >= last if ends_at_left else xs > last
    if not (below.any() or above.any()) or first_longitude(own, projector) is None:
        return xs
    with np.errstate(invalid="ignore"):
        beyond = (xs - last) / TURN
        back = np.floor(beyond) + 1 if ends_at_left else np.ceil(beyond)
        turns = np.where(below, np.ceil((first - xs) / TURN), -back)
        return np.where((below | above) & np.isfinite(xs), xs + TURN * turns, xs)


def turn_point(rule: WindowRule, header: Header, projector: Projector) -> WindowRule:
    """Return a point's window in the source's CRS, with the longitude as the source counts it.

    Windows of other kinds stay as they are. So do all windows if the source has no CRS or no usable
    transform.

    Raises:
        RequestError: PROJ finds no way to the source's CRS.
    """
    transform, crs = header.transform, header.crs
    if rule.point is None or crs is None or transform is None or not transform.is_usable:
        return rule
    (x,), (y,) = projector.points(
        [rule.point[0]], [rule.point[1]], source_crs=rule.crs or crs, target_crs=crs
    )
    turned = turn_longitudes(np.array([x]), Grid.of(header), projector, ends_at_left=True)
    return replace(rule, point=(float(turned[0]), y), crs=crs)


def first_longitude(own: Grid, projector: Projector) -> float | None:
    """Return the longitude 180 degrees west of a grid's middle, where `turn_longitudes` begins to count.

    None if the grid has no longitudes, or if it goes around the Earth more than once.
    """
    west, east = ends_of(own)
    assert own.transform is not None  # noqa: S101 # checked before
    is_too_wide = east - west > TURN + max(abs(own.transform.a), abs(own.transform.b))
    if own.crs is None or is_too_wide or max(abs(west), abs(east)) > MOST_DEGREES:
        return None
    described = projector.describe(own.crs)
    return (west + east - TURN) / 2 if described is not None and described.is_geographic else None


def short_way_around(wests: Floats, easts: Floats) -> tuple[float, float]:
    """Return west and east of the narrowest box around places; west > east if it crosses 180 degrees.

    Args:
        wests: Longitude where each place begins, from -360 to 360. No place crosses 180 degrees.
        easts: Where it ends.
    """
    turns = TURN * ((wests < -HALF_TURN).astype(int) - (easts > HALF_TURN))
    wests, easts = wests + turns, easts + turns
    west, east = float(wests.min()), float(easts.max())
    is_east = wests + easts >= 0
    if is_east.all() or not is_east.any():
        return west, east
    start, stop = float(wests[is_east].min()), float(easts[~is_east].max())
    return (start, stop) if stop + TURN - start < east - west else (west, east)


def ends_of(own: Grid) -> tuple[float, float]:
    """Return the least and the largest x of a grid, in the unit of its CRS."""
    assert own.transform is not None  # noqa: S101 # checked before
    west, _, east, _ = own.transform.bounds(own.width, own.height)
    return west, east
