"""Tell which EPSG codes can be used without asking GDAL."""

from bisect import bisect_right
from functools import cache
from typing import Final

from pixel_gather.io.geotiff.epsg_codes import GEOGRAPHIC, METRIC_PROJECTED

_GEODETIC_CRS: Final = (
    (4326, range(32601, 32661)),
    (4326, range(32701, 32761)),
    (4326, range(3857, 3858)),
    (4269, range(26901, 26924)),
)
"""The geodetic CRS of some projected CRSs: UTM on WGS 84, Web Mercator, UTM on NAD83."""


def is_plain_projected(code: object, *, geodetic: object) -> bool:
    """Tell whether a code is a current projected CRS in metres.

    Args:
        code: EPSG code of the projected CRS.
        geodetic: EPSG code of the geodetic CRS that the file names beside it, if any. A geodetic CRS other
            than the projected CRS's own would override it, so the answer is then False.
    """
    if not isinstance(code, int) or not _holds(METRIC_PROJECTED, code):
        return False
    return geodetic is None or any(geodetic == own and code in codes for own, codes in _GEODETIC_CRS)


def is_plain_geographic(code: object) -> bool:
    """Tell whether a code is a current geographic CRS."""
    return isinstance(code, int) and _holds(GEOGRAPHIC, code)


def _holds(ranges: str, code: int) -> bool:
    starts, stops = _bounds(ranges)
    at = bisect_right(starts, code) - 1
    return at >= 0 and code < stops[at]


@cache
def _bounds(ranges: str) -> tuple[list[int], list[int]]:
    """Parse ``2000-2052 2058 ...`` into starts and stops."""
    pairs = [part.partition("-") for part in ranges.split()]
    return [int(first) for first, _, _ in pairs], [int(last or first) + 1 for first, _, last in pairs]
