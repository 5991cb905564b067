"""Chunks and shards of the cube: how rows and pixels are cut into units of reading and of writing.

A shard is one object and one worker's task; a chunk is what a reader fetches. The figures behind
the defaults are in ``docs/decisions/0003-plan-chunks-for-both-ways-of-reading.md``. Pure.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pixel_gather.errors import BudgetError

if TYPE_CHECKING:  # pydantic costs a worker 0.2 s of its start
    from pixel_gather.request import ExplicitLayout, LayoutName

CHUNK_NBYTES: Final = 512 * 1024
"""Decoded size that a balanced chunk aims at."""

CHUNK_SIDE: Final = 128
"""Height and width in pixels that a balanced chunk aims at."""

SHARD_NBYTES: Final = 32 * 1024 * 1024
"""Decoded size that one object aims at: 64 tiles of 512 x 512 uint16."""

MAX_SHARD_ROWS: Final = 1024
"""Most sources in one shard, so that a window of one pixel still fans out."""

MAX_SHARDS: Final = 10_000
"""Most children that a Step Functions Distributed Map runs at one time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How every measurement of a cube is cut; shapes are (row, y, x) and may overhang its end."""

    chunk: tuple[int, int, int]
    shard: tuple[int, int, int]
    """A whole number of chunks along each axis; always as wide as the window."""

    def n_shards(self, shape: tuple[int, int, int]) -> tuple[int, int]:
        """Return the number of shards along rows and along y."""
        return -(-shape[0] // self.shard[0]), -(-shape[1] // self.shard[1])


def plan_layout(
    shape: tuple[int, int, int],
    *,
    itemsize: int,
    n_measurements: int,
    wanted: "LayoutName | ExplicitLayout",
    max_task_nbytes: int,
) -> Layout:
    """Cut a cube of (rows, y, x).

    Args:
        shape: Of each measurement.
        itemsize: Bytes of the widest measurement's pixel.
        n_measurements: One task holds this many arrays at a time.
        wanted: From the request.
        max_task_nbytes: What one task may hold decoded; a window that is larger by itself is split
            into strips along y.

    Raises:
        BudgetError: The cube cannot be cut into at most 10,000 tasks of this size.
    """
    n_rows, height, width = shape
    if isinstance(wanted, str):
        chunk = _planned_chunk(wanted, shape, itemsize)
    else:
        chunk = _explicit_chunk(wanted, shape)
    padded_width = _up_to(width, chunk[2])
    strip_height = _strip_height(chunk, height, padded_width * itemsize * n_measurements, max_task_nbytes)
    row_nbytes = strip_height * padded_width * itemsize
    n_strips = -(-height // strip_height)
    if not isinstance(wanted, str) and wanted.shard_rows is not None:
        shard_rows = min(wanted.shard_rows, n_rows)
    else:
        shard_rows = _shard_rows(n_rows, n_strips, row_nbytes, row_nbytes * n_measurements, max_task_nbytes)
    if not isinstance(wanted, str):
        shard_rows = _up_to(shard_rows, chunk[0])
    else:
        rows = min(chunk[0], shard_rows)
        n_chunks = max(round(shard_rows / rows), 1)
        rows = -(-shard_rows // n_chunks)  # even chunks, little padding
        if _up_to(shard_rows, rows) * row_nbytes * n_measurements > max_task_nbytes:
            rows = shard_rows // n_chunks
            shard_rows = rows * n_chunks
        chunk = (rows, chunk[1], chunk[2])
        shard_rows = _up_to(shard_rows, rows)
    layout = Layout(chunk=chunk, shard=(shard_rows, strip_height, padded_width))
    _check(layout, shape, row_nbytes * n_measurements, max_task_nbytes)
    return layout


def _check(layout: Layout, shape: tuple[int, int, int], task_row_nbytes: int, max_task_nbytes: int) -> None:
    n_tasks = math.prod(layout.n_shards(shape))
    task_nbytes = layout.shard[0] * task_row_nbytes
    if n_tasks > MAX_SHARDS or task_nbytes > max_task_nbytes:
        raise BudgetError(
            f"a cube of {shape[0]:,} x {shape[1]:,} x {shape[2]:,} pixels would take {n_tasks:,} tasks of "
            f"{task_nbytes / 2**20:,.0f} MiB; a gather has at most {MAX_SHARDS:,} tasks of "
            f"{max_task_nbytes / 2**20:,.0f} MiB: ask for a smaller window, fewer bands or fewer sources"
        )


def _explicit_chunk(wanted: "ExplicitLayout", shape: tuple[int, int, int]) -> tuple[int, int, int]:
    rows, y, x = (min(asked, there) for asked, there in zip(wanted.chunk, shape, strict=True))
    return rows, y, x


def _planned_chunk(wanted: "LayoutName", shape: tuple[int, int, int], itemsize: int) -> tuple[int, int, int]:
    n_rows, height, width = shape
    if wanted == "slice":
        side = math.isqrt(CHUNK_NBYTES // itemsize)
        return 1, _even(height, side), _even(width, side)
    side = CHUNK_SIDE // 2 if wanted == "series" else CHUNK_SIDE
    y, x = _even(height, side), _even(width, side)
    deepest = MAX_SHARD_ROWS if wanted == "series" else max(CHUNK_NBYTES // (y * x * itemsize), 1)
    return min(deepest, n_rows), y, x


def _strip_height(chunk: tuple[int, int, int], height: int, line_nbytes: int, max_task_nbytes: int) -> int:
    """Return how many lines of the window one shard holds: all of them unless they are too many."""
    whole = _up_to(height, chunk[1])
    if whole * line_nbytes <= max_task_nbytes:
        return whole
    return max(max_task_nbytes // line_nbytes // chunk[1], 1) * chunk[1]


def _shard_rows(
    n_rows: int, n_strips: int, object_row_nbytes: int, task_row_nbytes: int, max_task_nbytes: int
) -> int:
    rows = min(SHARD_NBYTES // object_row_nbytes, max_task_nbytes // task_row_nbytes, MAX_SHARD_ROWS)
    fewest = -(-n_rows * n_strips // MAX_SHARDS)
    rows = min(max(rows, fewest, 1), n_rows)
    return -(-n_rows // -(-n_rows // rows))  # the same number of shards, evenly filled


def _even(length: int, about: int) -> int:
    """Return the part of an equal division of ``length`` that comes nearest to ``about``."""
    return -(-length // max(round(length / about), 1))


def _up_to(length: int, step: int) -> int:
    return -(-length // step) * step
