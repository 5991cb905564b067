"""The GeoKeys of a GeoTIFF: values in three tags; and its CRS where they say no more than an EPSG code."""

import math
from bisect import bisect_right
from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from typing import Final

from pixel_gather.io.geotiff.epsg_codes import GEOGRAPHIC, METRIC_PROJECTED
from pixel_gather.io.geotiff.ifd import Ifd, Tag
from pixel_gather.io.geotiff.unsupported import UnknownCrsError, UnsupportedError

_MAX_KEYS: Final = 256
_MAX_DOUBLES: Final = 1024
"""libgeotiff's own limit."""
_MAX_TEXT_NBYTES: Final = 1 << 16
_PER_KEY: Final = 4
_SHORT: Final = 3
_REVISIONS: Final = ((1, 1, 0), (1, 1, 1))

type GeoKeys = dict[int, int | tuple[float, ...] | str]
type _Stored = Mapping[int, tuple[float, ...] | str | None]


def parse_geo_keys(ifd: Ifd) -> GeoKeys:
    """Return the GeoKeys, or an empty dictionary.

    Raises:
        UnsupportedError: libgeotiff may read the list differently, or not at all.
        NeedBytes: Values have not been fetched yet.
    """
    entry = ifd.entries.get(Tag.GEO_KEY_DIRECTORY)
    if entry is None:
        return {}
    values = ifd.integers(Tag.GEO_KEY_DIRECTORY, most=_PER_KEY * (_MAX_KEYS + 1)) or ()
    is_whole = len(values) >= _PER_KEY and len(values) >= _PER_KEY * (values[3] + 1)
    if entry.kind != _SHORT or not is_whole or values[:3] not in _REVISIONS:
        raise UnsupportedError("the list of GeoKeys is broken")
    doubles = ifd.doubles(Tag.GEO_DOUBLE_PARAMS, most=_MAX_DOUBLES)
    text = ifd.text(Tag.GEO_ASCII_PARAMS, most=_MAX_TEXT_NBYTES)
    stored: _Stored = {
        Tag.GEO_DOUBLE_PARAMS: doubles,
        Tag.GEO_ASCII_PARAMS: None if text is None else text.decode("latin-1"),
    }
    keys: GeoKeys = {}
    last = 0
    stop = _PER_KEY * (values[3] + 1)  # some writers leave a line of zeros after the list
    for first in range(_PER_KEY, stop, _PER_KEY):
        key, location, count, value = values[first : first + _PER_KEY]
        if key <= last:
            raise UnsupportedError("GeoKeys are out of order")
        is_here = location == 0 and count == 1
        keys[key] = value if is_here else _read_stored_key(stored.get(location), value, count)
        last = key
    return keys


def _read_stored_key(
    values: tuple[float, ...] | str | None, index: int, count: int
) -> tuple[float, ...] | str:
    """Return a value that is stored in another tag. Without that tag, GDAL takes no key at all."""
    if values is None or index + count > len(values):
        raise UnsupportedError("a GeoKey's value is missing")
    return values[index : index + count]


class Key(IntEnum):
    """The GeoKeys that may stand beside an EPSG code without changing the CRS."""

    MODEL_TYPE = 1024
    RASTER_TYPE = 1025
    CITATION = 1026
    GEODETIC_CRS = 2048
    GEODETIC_CITATION = 2049
    GEODETIC_LINEAR_UNITS = 2052
    ANGULAR_UNITS = 2054
    SEMI_MAJOR_AXIS = 2057
    INVERSE_FLATTENING = 2059
    TO_WGS84 = 2062
    PROJECTED_CRS = 3072
    PROJECTED_CITATION = 3073
    LINEAR_UNITS = 3076
    LINEAR_UNIT_SIZE = 3077


_FOR_GEODETIC: Final = frozenset(Key) - {Key.PROJECTED_CRS, Key.PROJECTED_CITATION, Key.TO_WGS84}
"""Keys of a geographic CRS. GDAL ignores linear units there."""
_FOR_PROJECTED: Final = frozenset(Key) - {
    Key.LINEAR_UNIT_SIZE,
    Key.SEMI_MAJOR_AXIS,
    Key.INVERSE_FLATTENING,
}
"""Keys of a projected CRS. GDAL ignores ``TO_WGS84`` there: it prefers the shift that EPSG defines."""
_METRE, _DEGREE = 9001, 9102
_WGS84, _GRS80, _CLARKE_1866 = (
    (6378137.0, 298.257223563),
    (6378137.0, 298.257222101),
    (6378206.4, 294.978698213898),
)
_ELLIPSOIDS: Final = {4326: _WGS84, 4979: _WGS84, 4267: _CLARKE_1866} | dict.fromkeys(
    (4167, 4258, 4269, 4283, 4490, 4612, 4617, 4674, 6318, 6668, 7844), _GRS80
)
"""Semi-major axis in metres and inverse flattening, by geographic CRS.

GDAL writes them beside the code. Where they differ from the code, GDAL uses them.
"""


_VERTICAL: Final = frozenset(range(4096, 4100))
"""The keys of heights: CRS, citation, datum and unit."""


def has_heights(keys: GeoKeys) -> bool:
    """Tell whether any key is about heights. GDAL gives their unit to bands without a unit of their own."""
    return not _VERTICAL.isdisjoint(keys)


def parse_crs(keys: GeoKeys) -> str | None:
    """Return ``EPSG:n``, or None where there are no keys.

    Raises:
        UnknownCrsError: The keys say more than an EPSG code. GDAL has to build this CRS.
    """
    if not keys:
        return None
    match keys.get(Key.MODEL_TYPE):
        case 1 if _FOR_PROJECTED.issuperset(keys) and _is_in_metres(keys):
            code = keys.get(Key.PROJECTED_CRS)
            if is_plain_projected(code, geodetic=keys.get(Key.GEODETIC_CRS)):
                return f"EPSG:{code}"
        case 2 if _FOR_GEODETIC.issuperset(keys) and keys.get(Key.ANGULAR_UNITS, _DEGREE) == _DEGREE:
            code = keys.get(Key.GEODETIC_CRS)
            if is_plain_geographic(code) and _has_own_ellipsoid(keys, code):
                return f"EPSG:{code}"
    raise UnknownCrsError("a CRS that is more than an EPSG code")


def _is_in_metres(keys: GeoKeys) -> bool:
    """Tell whether no key names a unit of length, or one names metres.

    A citation may name a unit, too: ``Units = feet`` by ERDAS Imagine, ``LUnits = feet`` by others. GDAL
    prefers that one to the unit that EPSG defines.
    """
    is_in_citation = "Units = " in str(keys.get(Key.CITATION, ""))
    return keys.get(Key.LINEAR_UNITS, _METRE) == _METRE and not is_in_citation


def _has_own_ellipsoid(keys: GeoKeys, code: object) -> bool:
    """Tell whether the axis and flattening in the keys, if any, are those of the code."""
    named = keys.get(Key.SEMI_MAJOR_AXIS), keys.get(Key.INVERSE_FLATTENING)
    if named == (None, None):
        return True
    own = _ELLIPSOIDS.get(code)  # type: ignore[call-overload] # any object may be looked up
    return own is not None and all(
        isinstance(value, tuple) and len(value) == 1 and math.isclose(value[0], expected, rel_tol=1e-10)
        for value, expected in zip(named, own, strict=True)
    )


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
