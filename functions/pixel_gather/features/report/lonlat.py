"""From the map coordinates of common CRSs to longitude and latitude. Pure.

The finish function has no PROJ. UTM is computed as in Karney, "Transverse Mercator with an accuracy of a few
nanometers" (2011). The series in the third flattening is taken up to its third power. A test compares it with
PROJ. The datums are treated as one. They differ by a few metres, which a map of footprints cannot show.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

type Points = np.ndarray[Any, np.dtype[np.float64]]
"""Shape (..., 2): x and y, or longitude and latitude in degrees."""

_EPSG: Final = re.compile(r"EPSG:(\d{1,9})", re.ASCII | re.IGNORECASE)
_GEOGRAPHIC: Final = frozenset({4326, 4258, 4269, 4979})
_MERCATOR: Final = 3857
_UTM: Final = ((32600, 60, False), (32700, 60, True), (25800, 60, False), (26900, 23, False))
"""First code, number of zones, and whether south of the equator: WGS 84, ETRS89 and NAD83."""

_RADIUS: Final = 6_378_137.0
_FLATTENING: Final = 1 / 298.257223563
_N: Final = _FLATTENING / (2 - _FLATTENING)
_MERIDIAN: Final = 0.9996 * _RADIUS / (1 + _N) * (1 + _N**2 / 4 + _N**4 / 64)
_BETA: Final = (
    _N / 2 - 2 * _N**2 / 3 + 37 * _N**3 / 96,
    _N**2 / 48 + _N**3 / 15,
    17 * _N**3 / 480,
)
_DELTA: Final = (2 * _N - 2 * _N**2 / 3 - 2 * _N**3, 7 * _N**2 / 3 - 8 * _N**3 / 5, 56 * _N**3 / 15)


def to_lonlat(crs: str) -> Callable[[Points], Points] | None:
    """Return the function that turns a CRS's points into longitudes and latitudes; None for other CRSs."""
    code = epsg_code(crs)
    if code in _GEOGRAPHIC:
        return lambda points: points
    if code == _MERCATOR:
        return _from_mercator
    zone, is_south = utm_zone(code)
    return (lambda points: _from_utm(points, zone=zone, is_south=is_south)) if zone else None


def epsg_code(crs: str) -> int:
    """Return the code of a CRS that is given by one, such as ``EPSG:32632``, or else 0."""
    found = _EPSG.fullmatch(crs)
    return int(found[1]) if found else 0


def utm_zone(code: int) -> tuple[int, bool]:
    """Return the zone of UTM that a code means, and whether it is south of the equator; 0 for other CRSs."""
    zones = ((code - first, is_south) for first, n, is_south in _UTM if 0 < code - first <= n)
    return next(zones, (0, False))


def _from_mercator(points: Points) -> Points:
    x, y = points[..., 0] / _RADIUS, points[..., 1] / _RADIUS
    return np.degrees(np.stack([x, np.arctan(np.sinh(y))], axis=-1))


def _from_utm(points: Points, *, zone: int, is_south: bool) -> Points:
    xi = (points[..., 1] - (10_000_000 if is_south else 0)) / _MERIDIAN
    eta = (points[..., 0] - 500_000) / _MERIDIAN
    north, east = xi, eta
    for j, beta in enumerate(_BETA, start=1):
        north = north - beta * np.sin(2 * j * xi) * np.cosh(2 * j * eta)
        east = east - beta * np.cos(2 * j * xi) * np.sinh(2 * j * eta)
    conformal = np.arcsin(np.sin(north) / np.cosh(east))
    latitude = conformal + sum(delta * np.sin(2 * j * conformal) for j, delta in enumerate(_DELTA, start=1))
    longitude = np.arctan2(np.sinh(east), np.cos(north))
    return np.stack([np.degrees(longitude) + 6 * zone - 183, np.degrees(latitude)], axis=-1)
