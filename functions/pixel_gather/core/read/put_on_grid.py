"""Turn the pixels of a source into those of a grid, larger or smaller by a whole number. Pure."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from pixel_gather.core.model.grid_step import GridStep, Resampling
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.core.read.valid_pixels import keep_off_nodata, valid_pixels

_NARROW: Final = 2
"""Bytes of the largest integers whose sums over a block fit 32 bits."""


def put_on_grid(
    own: Pixels,
    out: Pixels,
    *,
    step: GridStep,
    offset: tuple[int, int],
    resampling: Resampling,
    nodata: float | None,
) -> None:
    """Fill pixels of the grid from those of a source.

    The value of a pixel depends only on the source's pixels that it covers or lies in.

    Args:
        own: The source's pixels, shape (band, y, x).
        out: Pixels of the grid, shape (band, y, x). They are overwritten.
        step: How the ones become the others.
        offset: (y, x) of the first pixel of ``out`` within the source's first pixel, in pixels of the grid.
        resampling: How several pixels become one.
        nodata: What missing pixels hold. They do not count, unless a whole block is missing.
    """
    if step.times > 1:
        _repeat(own, out, times=step.times, offset=offset)
    elif resampling == "nearest":
        out[...] = own[:, step.over // 2 :: step.over, step.over // 2 :: step.over]
    elif resampling == "mode":
        _take_modes(own, out, over=step.over, nodata=nodata)
    else:
        _average(own, out, over=step.over, nodata=nodata)


def _repeat(own: Pixels, out: Pixels, *, times: int, offset: tuple[int, int]) -> None:
    y_offset, x_offset = offset
    wide = np.repeat(own, times, axis=2)[:, :, x_offset : x_offset + out.shape[2]]
    for line in range(times):
        first = (line - y_offset) % times
        lines = out[:, first::times]
        at = (first + y_offset) // times
        lines[...] = wide[:, at : at + lines.shape[1]]


def _blocks(own: Pixels, over: int) -> Iterator[Pixels]:
    """Yield the first pixel of every block, then the second one, line by line."""
    for y in range(over):
        for x in range(over):
            yield own[:, y::over, x::over]


def _average(own: Pixels, out: Pixels, *, over: int, nodata: float | None) -> None:
    """Average the pixels of each block that are there. Integers are rounded, halves up.

    No mean equals nodata: see `keep_off_nodata`.
    """
    is_float = own.dtype.kind == "f"
    narrow = np.int32 if own.dtype.kind == "i" else np.uint32
    wide = np.float64 if is_float else narrow if own.dtype.itemsize <= _NARROW else np.int64
    total: Pixels = np.zeros(out.shape, dtype=wide)
    n: Pixels = np.zeros(out.shape, dtype=wide)
    for pixels in _blocks(own, over):
        is_valid = valid_pixels(pixels, nodata)
        if is_valid is None:
            total += pixels
            n += 1
        else:
            np.add(total, pixels, out=total, where=is_valid)
            n += is_valid
    is_empty, some = n == 0, np.maximum(n, 1)
    out[...] = total / some if is_float else _divide_rounded(total, some)
    keep_off_nodata(out, nodata)
    if is_empty.any():
        out[is_empty] = np.nan if nodata is None else nodata


def _divide_rounded(total: Pixels, n: Pixels) -> Pixels:
    """Return the quotients of integers, rounded to whole numbers, halves up."""
    quotient, rest = np.divmod(total, n)
    return quotient + (2 * rest >= n)


def _take_modes(own: Pixels, out: Pixels, *, over: int, nodata: float | None) -> None:
    """Take the most frequent value of each block, the least of several. Missing pixels do not count."""
    blocks = np.sort(np.stack([*_blocks(own, over)]), axis=0)
    is_valid = valid_pixels(blocks, nodata)
    out[...] = blocks[0] if is_valid is None or nodata is None else nodata
    most = np.zeros(out.shape, dtype=np.int32)
    n = np.zeros(out.shape, dtype=np.int32)
    for at, values in enumerate(blocks):
        n += 1
        if at:
            n[values != blocks[at - 1]] = 1
        if is_valid is not None:
            n[~is_valid[at]] = 0
        wins = n > most
        out[wins] = values[wins]
        most[wins] = n[wins]
