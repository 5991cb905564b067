"""The transform of a GeoTIFF, from its pixel scale and tiepoint, or from its matrix."""

import math
from typing import Final

from pixel_gather.core.model.window import Transform
from pixel_gather.io.geotiff.geo_keys import GeoKeys, Key
from pixel_gather.io.geotiff.ifd import Ifd, Tag
from pixel_gather.io.geotiff.unsupported import UnsupportedError

_PER_TIEPOINT: Final = 6
"""Column, row, height, x, y, z."""
_MAX_TIEPOINT_VALUES: Final = _PER_TIEPOINT * 4096
_MATRIX_VALUES: Final = 16
_PIXEL_IS_POINT: Final = 2
_IDENTITY: Final = Transform(1.0, 0.0, 0.0, 0.0, 1.0, 0.0)


def has_only_control_points(ifd: Ifd) -> bool:
    """Tell whether the CRS belongs to ground control points, not to pixels.

    Raises:
        UnsupportedError: The tiepoints are broken, and GDAL may read them differently.
        NeedBytes: Values have not been fetched yet.
    """
    tiepoints = ifd.doubles(Tag.MODEL_TIEPOINT, most=_MAX_TIEPOINT_VALUES)
    if tiepoints is None or Tag.MODEL_PIXEL_SCALE in ifd.entries or Tag.MODEL_TRANSFORMATION in ifd.entries:
        return False
    if len(tiepoints) % _PER_TIEPOINT:
        raise UnsupportedError("half a tiepoint")
    return True


def parse_transform(ifd: Ifd, keys: GeoKeys) -> Transform | None:
    """Return the transform of pixel corners, or None where there is none or there are only control points.

    Raises:
        UnsupportedError: GDAL reads these tags in a way of its own.
        NeedBytes: Values have not been fetched yet.
    """
    if Tag.INTERGRAPH_MATRIX in ifd.entries:
        raise UnsupportedError("an Intergraph matrix")
    scale = ifd.doubles(Tag.MODEL_PIXEL_SCALE, most=3)
    matrix = ifd.doubles(Tag.MODEL_TRANSFORMATION, most=_MATRIX_VALUES)
    if scale is None and matrix is None:
        return None
    transform = _from_matrix(matrix) if scale is None else _from_scale(ifd, scale, matrix)
    if keys.get(Key.RASTER_TYPE) == _PIXEL_IS_POINT:
        transform = transform._replace(
            c=transform.c - (transform.a * 0.5 + transform.b * 0.5),
            f=transform.f - (transform.d * 0.5 + transform.e * 0.5),
        )
    if not all(map(math.isfinite, transform)):
        raise UnsupportedError("a transform that is not finite")
    return None if transform == _IDENTITY else transform


def _from_scale(ifd: Ifd, scale: tuple[float, ...], matrix: tuple[float, ...] | None) -> Transform:
    """Build it from the pixel scale and the first tiepoint.

    Rows always run south, whatever the sign of the scale, as in GDAL.
    """
    tiepoint = ifd.doubles(Tag.MODEL_TIEPOINT, most=_MAX_TIEPOINT_VALUES)
    is_plain = len(scale) > 1 and 0 not in scale[:2] and matrix is None
    if not is_plain or tiepoint is None or len(tiepoint) < _PER_TIEPOINT:
        raise UnsupportedError("pixel scale without a tiepoint, or with a matrix too")
    col, row, _, x, y, _ = tiepoint[:_PER_TIEPOINT]
    a, e = scale[0], -abs(scale[1])
    return Transform(a, 0.0, x - col * a, 0.0, e, y - row * e)


def _from_matrix(matrix: tuple[float, ...] | None) -> Transform:
    """Build it from the 4 x 4 matrix."""
    if matrix is None or len(matrix) != _MATRIX_VALUES:
        raise UnsupportedError("a transformation matrix of another size")
    return Transform(matrix[0], matrix[1], matrix[3], matrix[4], matrix[5], matrix[7])


def parse_heights(ifd: Ifd) -> tuple[tuple[float, ...], ...]:
    """Return the values of pixel scale, tiepoints and matrix that concern the third axis.

    Raises:
        UnsupportedError: The tags are broken.
        NeedBytes: Values have not been fetched yet.
    """
    scale = ifd.doubles(Tag.MODEL_PIXEL_SCALE, most=3) or ()
    tiepoints = ifd.doubles(Tag.MODEL_TIEPOINT, most=_MAX_TIEPOINT_VALUES) or ()
    matrix = ifd.doubles(Tag.MODEL_TRANSFORMATION, most=_MATRIX_VALUES) or ()
    return scale[2:], tiepoints[2::3], matrix[8:]
