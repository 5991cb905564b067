"""GDAL_NODATA: the text tag with the value of missing pixels."""

import re
from typing import Any, Final

import numpy as np

from pixel_gather.io.geotiff.ifd import Ifd, Tag
from pixel_gather.io.geotiff.unsupported import UnsupportedError

_MAX_NBYTES: Final = 256
_INTEGER: Final = re.compile(r"[+-]?\d+")
NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[Nn][Aa][Nn]|[+-]?[Ii]nf", re.ASCII)
"""Numbers that Python and GDAL parse alike."""


_NEAR: Final = 1e-5
"""Values this close to nodata, relatively, count as near. GDAL's own bound is a few steps of float32."""

_MAX_FLOAT16: Final = float(np.finfo("f2").max)
_MAX_INT16: Final = (1 << 15) - 1
_MSVC_INFINITIES: Final = {"1.#INF": "inf", "-1.#INF": "-inf"}


def hides_another_value(ifd: Ifd, dtype: np.dtype[Any]) -> bool:
    """Tell whether GDAL masks an integer that differs from the nodata value: it truncates 0.5 to 0.

    Raises:
        NeedBytes: The text has not been fetched yet.
    """
    text = (ifd.text(Tag.GDAL_NODATA, most=_MAX_NBYTES) or b"").decode("latin-1").strip(" ")
    if dtype.kind not in "iu" or not NUMBER.fullmatch(text):
        return False
    value, limits = float(text), np.iinfo(dtype)
    return limits.min <= value <= limits.max and not value.is_integer()


def is_near_nodata(pixels: np.ndarray[Any, Any], nodata: float | None) -> bool:
    """Tell whether any pixel is close to the nodata value without being equal. GDAL may mask such a pixel.

    GDAL compares only the real part of complex numbers. GDAL's tolerance is a fraction of the sum of
    pixel and nodata. If the sum overflows, the tolerance is infinite. So nodata -3.4e38 may hide -1e38.
    """
    if nodata is None or pixels.dtype.kind not in "fc" or not np.isfinite(nodata):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        is_close = np.abs(pixels.real - nodata) <= _NEAR * abs(nodata)
        total = np.add(pixels.real, nodata, dtype=np.promote_types(pixels.real.dtype, np.float32))
        is_close |= np.isinf(total) & np.isfinite(pixels.real)
    return bool((is_close & (pixels != nodata)).any())


def parse_nodata(ifd: Ifd, dtype: np.dtype[Any]) -> float | int | None:
    """Return the nodata value, or None where there is none that the dtype can hold.

    It is exact for 64-bit integers. For float32 it is the nearest float32, as in GDAL.

    Raises:
        UnsupportedError: Only GDAL's number parser can read the text.
        NeedBytes: The text has not been fetched yet.
    """
    content = ifd.text(Tag.GDAL_NODATA, most=_MAX_NBYTES)
    if not content:
        return None
    text = content.decode("latin-1").strip(" ")
    text = _MSVC_INFINITIES.get(text, text)
    if dtype.kind in "iu":
        return _integer(text, np.iinfo(dtype))
    return _floating(text, dtype)


def as_rasterio_tells(nodata: float | None, dtype: np.dtype[Any]) -> float | None:
    """Return a nodata value as rasterio has it: rounded to float64, and None where that exceeds the dtype."""
    if nodata is None or dtype.kind not in "iu":
        return nodata
    rounded = int(float(nodata))
    return rounded if rounded <= np.iinfo(dtype).max else None


def _integer(text: str, limits: np.iinfo[Any]) -> int | None:
    """Return an integer within the limits, or None."""
    is_parsed_by_c = limits.bits == 64  # noqa: PLR2004 # GDAL parses narrower ones as float64
    if _INTEGER.fullmatch(text):
        value = int(text)
        if is_parsed_by_c:
            return _as_c_does(value, limits)
    else:
        if not NUMBER.fullmatch(text) or is_parsed_by_c:
            raise UnsupportedError("nodata")
        as_float = float(text)
        if not as_float.is_integer():
            return None
        value = int(as_float)
    return value if limits.min <= value <= limits.max else None


def _as_c_does(value: int, limits: np.iinfo[Any]) -> int:
    """Return what C's ``strtoll`` or ``strtoull`` makes of a number. The latter turns -1 into the largest."""
    if limits.kind == "u" and abs(value) <= limits.max:
        return value % (1 << limits.bits)
    if limits.kind == "u":
        return int(limits.max)
    return min(max(value, int(limits.min)), int(limits.max))


def _floating(text: str, dtype: np.dtype[Any]) -> float | None:
    """Return the number at the precision of the dtype, or None where float16 cannot hold it."""
    if not NUMBER.fullmatch(text):
        raise UnsupportedError("nodata")
    value = float(text)
    if dtype.kind == "c" and not abs(value) <= _MAX_INT16:  # complex integers look like complex64 here
        raise UnsupportedError("nodata")
    if dtype.itemsize == np.dtype("f4").itemsize:
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    if dtype.itemsize == np.dtype("f2").itemsize and np.isfinite(value) and abs(value) > _MAX_FLOAT16:
        return None
    return value
