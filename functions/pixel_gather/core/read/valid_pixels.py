"""Tell which pixels hold a value. Pure."""

from typing import Any

import numpy as np


def valid_pixels(
    part: np.ndarray[Any, np.dtype[Any]], nodata: float | None
) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """Return a mask of the valid pixels, or None if all are valid."""
    is_float = part.dtype.kind in "fc"
    if nodata is None or (is_float and np.isnan(nodata)):
        return ~np.isnan(part) if is_float else None
    valid: np.ndarray[Any, np.dtype[np.bool_]] = part != part.dtype.type(nodata)
    return valid & ~np.isnan(part) if is_float else valid
