"""The CRS of a GeoTIFF whose GeoKeys say no more than an EPSG code."""

import math
from enum import IntEnum
from typing import Final

from pixel_gather.io.geotiff.epsg import is_plain_geographic, is_plain_projected
from pixel_gather.io.geotiff.geo_keys import GeoKeys
from pixel_gather.io.geotiff.unsupported import UnknownCrsError


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
