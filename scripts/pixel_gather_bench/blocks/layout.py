"""From a wanted block size to a cube's chunks and shards. Pure.

A block is the least that a reader decodes: the Zarr chunk inside a shard. Chunks of one size may have several
shapes. The one is taken that suits both ways of reading, as in the plan's own balanced layout.
"""

import math
from typing import Final

from pixel_gather.core.plan.layout import SHARD_NBYTES, Layout, plan_layout
from pixel_gather.core.request.output import ExplicitLayout

MB: Final = 1_000_000
"""Block sizes and speeds are given in units of so many bytes."""

_MAX_TASK_NBYTES: Final = 2**30
"""So large that it limits nothing."""

type Shape = tuple[int, int, int]


def default_layout(shape: Shape, *, itemsize: int) -> Layout:
    """Return the layout of a gather of (rows, y, x) pixels if the request names none."""
    return plan_layout(
        shape, itemsize=itemsize, n_measurements=1, wanted="balanced", max_task_nbytes=_MAX_TASK_NBYTES
    )


def layout_of(block_nbytes: int, shape: Shape, *, itemsize: int) -> Layout:
    """Return the layout whose chunks have about a size.

    The plan's rule makes the shards: whole windows of about 32 MiB, or one chunk where that is larger.

    Args:
        block_nbytes: Decoded, of one chunk; what comes out is within a factor of 2, and smaller only where
            the whole cube is.
        shape: Of the cube: (rows, y, x).
        itemsize: Bytes of a pixel.
    """
    chunk = min(_chunks(block_nbytes, shape, itemsize), key=lambda each: _worst_share(each, shape))
    return plan_layout(
        shape,
        itemsize=itemsize,
        n_measurements=1,
        wanted=ExplicitLayout(chunk=chunk),
        max_task_nbytes=_MAX_TASK_NBYTES,
    )


def chunk_nbytes(layout: Layout, *, itemsize: int) -> int:
    """Return the decoded size of one block."""
    return math.prod(layout.chunk) * itemsize


def _chunks(block_nbytes: int, shape: Shape, itemsize: int) -> list[Shape]:
    """Return the chunks of a size that cut the window evenly and need no shard beyond the plan's."""
    n_rows, height, width = shape
    window_nbytes = height * width * itemsize
    most_rows = max(math.ceil(max(SHARD_NBYTES, block_nbytes) / window_nbytes), 1)
    found: list[Shape] = []
    n_cuts = 1
    while True:
        y, x = -(-height // n_cuts), -(-width // n_cuts)
        rows = round(block_nbytes / (y * x * itemsize))
        if rows and (rows <= most_rows or not found):
            found.append((min(rows, n_rows), y, x))
        if rows > most_rows or y * x == 1:
            return found or [(1, y, x)]
        n_cuts *= 2


def _worst_share(chunk: Shape, shape: Shape) -> float:
    """Return the share of the cube that the worse of the two ways of reading decodes."""
    series = math.prod(chunk[1:]) / math.prod(shape[1:])
    return max(chunk[0] / shape[0], series)
