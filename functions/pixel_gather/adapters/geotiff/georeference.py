"""Where a GeoTIFF's pixels lie on the map, as far as its tags say it plainly."""

import math
from enum import IntEnum
from typing import Final

from pixel_gather.adapters.geotiff.epsg import is_plain_geographic, is_plain_projected
from pixel_gather.adapters.geotiff.ifd import Ifd, Tag
from pixel_gather.adapters.geotiff.not_fast import NotFast
from pixel_gather.window import Transform

_MAX_KEYS: Final = 256
_MAX_TIEPOINT_VALUES: Final = 6 * 4096
_MATRIX_VALUES: Final = 16
_PIXEL_IS_POINT: Final = 2
_IDENTITY: Final = Transform(1.0, 0.0, 0.0, 0.0, 1.0, 0.0)


class _Key(IntEnum):
    """The GeoKeys that a plain EPSG code may come with."""

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


_FOR_GEODETIC: Final = frozenset(_Key) - {_Key.PROJECTED_CRS, _Key.TO_WGS84}
"""GDAL ignores linear units here."""
_FOR_PROJECTED: Final = frozenset(_Key) - {_Key.LINEAR_UNIT_SIZE}
"""GDAL prefers EPSG's own shift to WGS 84, which it then leaves out."""
_METRE: Final = 9001
_VALUE_TAGS: Final = (Tag.GEO_DOUBLE_PARAMS, Tag.GEO_ASCII_PARAMS)


def geo_keys(ifd: Ifd) -> dict[int, int | None]:
    """Return the GeoKeys: numbers as they are, None for texts and doubles; empty where there are none."""
    entry = ifd.entries.get(Tag.GEO_KEY_DIRECTORY)
    if entry is None:
        return {}
    values = ifd.integers(Tag.GEO_KEY_DIRECTORY, most=4 * (_MAX_KEYS + 1)) or ()
    if len(values) < 4 or values[0] != 1 or len(values) < 4 * (values[3] + 1):  # noqa: PLR2004 # four per key
        raise NotFast("the list of GeoKeys is broken")
    keys: dict[int, int | None] = {}
    for first in range(4, 4 * (values[3] + 1), 4):
        key, location, count, value = values[first : first + 4]
        if key in keys or not _is_stored(ifd, location, count, value):
            raise NotFast("the list of GeoKeys is broken")
        keys[key] = value if location == 0 else None
    return keys


def _is_stored(ifd: Ifd, location: int, count: int, index: int) -> bool:
    """Tell whether a key's value is where the key says."""
    if location == 0:
        return count == 1
    entry = ifd.entries.get(location)
    return location in _VALUE_TAGS and entry is not None and index + count <= entry.n_values


def crs_of(ifd: Ifd, keys: dict[int, int | None]) -> str | None:
    """Return ``EPSG:n`` where the keys say just that, or None where they are absent.

    Also None where only control points place the image: then the CRS is theirs, not the pixels'.

    Raises:
        NotFast: GDAL builds this CRS from more than a code.
    """
    if not keys or _has_only_control_points(ifd):
        return None
    match keys.get(_Key.MODEL_TYPE):
        case 1 if _FOR_PROJECTED.issuperset(keys) and keys.get(_Key.LINEAR_UNITS, _METRE) == _METRE:
            code = keys.get(_Key.PROJECTED_CRS)
            if is_plain_projected(code, geodetic=keys.get(_Key.GEODETIC_CRS)):
                return f"EPSG:{code}"
        case 2 if _FOR_GEODETIC.issuperset(keys):
            code = keys.get(_Key.GEODETIC_CRS)
            if is_plain_geographic(code):
                return f"EPSG:{code}"
    raise NotFast("a CRS that is more than an EPSG code")


def _has_only_control_points(ifd: Ifd) -> bool:
    return Tag.MODEL_TIEPOINT in ifd.entries and not (
        Tag.MODEL_PIXEL_SCALE in ifd.entries or Tag.MODEL_TRANSFORMATION in ifd.entries
    )


def transform_of(ifd: Ifd, keys: dict[int, int | None]) -> Transform | None:
    """Return the transform of the pixels' corners, or None where there is none, or only control points.

    Raises:
        NotFast: Tags that GDAL reads in its own way.
        NeedBytes: Values were not fetched yet.
    """
    if Tag.INTERGRAPH_MATRIX in ifd.entries:
        raise NotFast("an Intergraph matrix")
    scale = ifd.doubles(Tag.MODEL_PIXEL_SCALE, most=3)
    matrix = ifd.doubles(Tag.MODEL_TRANSFORMATION, most=_MATRIX_VALUES)
    if scale is None and matrix is None:
        return None
    transform = _from_matrix(matrix) if scale is None else _from_scale(ifd, scale, matrix)
    if keys.get(_Key.RASTER_TYPE) == _PIXEL_IS_POINT:
        transform = transform._replace(
            c=transform.c - (transform.a * 0.5 + transform.b * 0.5),
            f=transform.f - (transform.d * 0.5 + transform.e * 0.5),
        )
    if not all(map(math.isfinite, transform)):
        raise NotFast("a transform that is not finite")
    return None if transform == _IDENTITY else transform


def _from_scale(ifd: Ifd, scale: tuple[float, ...], matrix: tuple[float, ...] | None) -> Transform:
    """Build from pixel scale and the first tiepoint; GDAL takes rows to run south whatever the sign."""
    tiepoint = ifd.doubles(Tag.MODEL_TIEPOINT, most=_MAX_TIEPOINT_VALUES)
    if len(scale) == 1 or 0 in scale[:2] or matrix is not None or tiepoint is None or len(tiepoint) < 6:  # noqa: PLR2004 # (i, j, k, x, y, z)
        raise NotFast("pixel scale without a tiepoint, or with a matrix too")
    col, row, _, x, y, _ = tiepoint[:6]
    a, e = scale[0], -abs(scale[1])
    return Transform(a, 0.0, x - col * a, 0.0, e, y - row * e)


def _from_matrix(matrix: tuple[float, ...] | None) -> Transform:
    """Build from the 4 x 4 matrix."""
    if matrix is None or len(matrix) != _MATRIX_VALUES:
        raise NotFast("a transformation matrix of another size")
    return Transform(matrix[0], matrix[1], matrix[3], matrix[4], matrix[5], matrix[7])
