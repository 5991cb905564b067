"""Which EPSG codes need no second look by GDAL."""

from bisect import bisect_right
from functools import cache
from typing import Final

from pixel_gather.adapters.geotiff.epsg_codes import GEOGRAPHIC, METRIC_PROJECTED

_WGS84, _NAD83 = 4326, 4269
_ON_WGS84: Final = (range(32601, 32661), range(32701, 32761), range(3857, 3858))
_ON_NAD83: Final = (range(26901, 26924),)


def is_plain_projected(code: int | None, *, geodetic: int | None) -> bool:
    """Tell whether a code is a current projected CRS in metres.

    Args:
        code: Of the projected CRS.
        geodetic: Of the geodetic CRS that the file names beside it; any other than the projected CRS's
            own would override it.
    """
    if code is None:
        return False
    own = {None: (range(1, 1 << 16),), _WGS84: _ON_WGS84, _NAD83: _ON_NAD83}.get(geodetic, ())
    return any(code in codes for codes in own) and _holds(METRIC_PROJECTED, code)


def is_plain_geographic(code: int | None) -> bool:
    """Tell whether a code is a current geographic CRS."""
    return code is not None and _holds(GEOGRAPHIC, code)


def _holds(ranges: str, code: int) -> bool:
    starts, stops = _bounds(ranges)
    at = bisect_right(starts, code) - 1
    return at >= 0 and code < stops[at]


@cache
def _bounds(ranges: str) -> tuple[list[int], list[int]]:
    """Parse ``2000-2052 2058 ...`` into starts and stops."""
    pairs = [part.partition("-") for part in ranges.split()]
    return [int(first) for first, _, _ in pairs], [int(last or first) + 1 for first, _, last in pairs]
