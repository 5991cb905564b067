"""Compares windows row by row. Pure."""

import numpy as np

from pixel_gather.core.read.read_shard import Pixels


def rows_are_same(then: Pixels, now: Pixels, *, tolerance: float | None) -> list[bool]:
    """Return for each row whether its pixels are the same.

    Args:
        then: Shape (row, y, x).
        now: As ``then``. No row is the same if the shapes or the dtypes differ.
        tolerance: Largest difference of pixels that were stored with loss. None if every bit has to be the
            same, those of NaN included.
    """
    if then.shape != now.shape or then.dtype != now.dtype:
        return [False] * len(then)
    if tolerance is not None:
        return [
            bool(np.allclose(one.astype("float64"), other, rtol=0, atol=tolerance, equal_nan=True))
            for one, other in zip(then, now, strict=True)
        ]
    return [bool(np.array_equal(_bits(one), _bits(other))) for one, other in zip(then, now, strict=True)]


def _bits(pixels: Pixels) -> Pixels:
    if pixels.dtype.kind == "c":
        pixels = np.ascontiguousarray(pixels).view(f"f{pixels.itemsize // 2}")
    return pixels.view(f"u{pixels.itemsize}") if pixels.dtype.kind == "f" else pixels
