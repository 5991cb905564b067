"""Chunks and shards of the cube. Pure.

A shard is one object and one worker's task. A chunk is what a reader fetches. The figures behind
the defaults are in ``docs/decisions/0003-plan-chunks-for-both-ways-of-reading.md``.
"""

import math
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pixel_gather.core.errors import BudgetError, RequestError
from pixel_gather.core.estimate.worker_limits import MOST_TASKS_PER_CHILD
from pixel_gather.core.model.plurals import counted

if TYPE_CHECKING:  # pydantic costs a worker 0.2 s of its start
    from pixel_gather.core.request.output import ExplicitLayout, LayoutName

CHUNK_NBYTES: Final = 512 * 1024
"""Target for the decoded size of a balanced chunk."""

CHUNK_SIDE: Final = 128
"""Target for the height and width of a balanced chunk, in pixels."""

SHARD_NBYTES: Final = 32 * 1024 * 1024
"""Target for the decoded size of one object: 64 tiles of 512 x 512 uint16."""

OBJECT_NBYTES: Final = 4 * 1024 * 1024
"""The same for an object that is one chunk, which readers fetch and decode as a whole."""

MAX_SHARD_ROWS: Final = 1024
"""Most rows in one shard, so that even windows of one pixel use many workers."""

MOST_CHILDREN: Final = 10_000
"""Most children that a Step Functions Distributed Map runs at one time."""

MAX_SHARDS: Final = MOST_CHILDREN * MOST_TASKS_PER_CHILD

FEW_SHARDS: Final = 10_000
"""Each shard costs requests. Shards grow beyond `SHARD_NBYTES` before there are more shards than this."""

LARGE_SHARD_NBYTES: Final = 128 * 1024 * 1024
"""Largest decoded size that shards grow to for that reason. The smallest workers can hold it."""


CHIP_SHARD_NBYTES: Final = 64 * 1024 * 1024
"""Target for the decoded size of one object of chips. A task opens each image once for all of its chips."""

_FEWEST_CHIP_SHARDS: Final = 8
"""Shards that chips are spread over, so that several are in progress."""

_SMALL_CHIP_SHARD_NBYTES: Final = 4 * 1024 * 1024
"""But chips of less than this stay together, as they may share tiles."""


class Layout(Struct, frozen=True, kw_only=True):
    """Shapes of chunks and shards: (row, y, x). The last ones may extend beyond the cube."""

    chunk: tuple[int, int, int]
    shard: tuple[int, int, int]
    """A whole number of chunks along each axis. Always as wide as the window."""

    is_sharded: bool = True
    """Whether objects are shards with an index. If not, each is one chunk, and both shapes are equal."""

    def n_shards(self, shape: tuple[int, int, int]) -> tuple[int, int]:
        """Return the number of shards along rows and along y."""
        return -(-shape[0] // self.shard[0]), -(-shape[1] // self.shard[1])


class _Sizes(Struct, frozen=True, kw_only=True):
    """What the pixels of a cube take, and what a task may hold, in bytes."""

    pixel: int
    """One pixel of all measurements. A task holds all of them."""

    object_pixel: int
    """One pixel of the measurements in one object."""

    task: int
    """Most of a task, decoded."""

    def strip_height(self, height: int, chunk_height: int, line_pixels: int) -> int:
        """Return the number of the window's lines in one shard: all of them if they fit."""
        whole, line_nbytes = _up_to(height, chunk_height), line_pixels * self.pixel
        if whole * line_nbytes <= self.task:
            return whole
        return max(self.task // line_nbytes // chunk_height, 1) * chunk_height

    def shard_rows(self, n_rows: int, row_pixels: int, *, target_nbytes: int = SHARD_NBYTES) -> int:
        """Return the number of rows in a shard. A window in strips has room for one row alone."""
        row_nbytes = row_pixels * self.pixel
        most = min(target_nbytes // (row_pixels * self.object_pixel), self.task // row_nbytes, MAX_SHARD_ROWS)
        larger = min(-(-n_rows // FEW_SHARDS), min(LARGE_SHARD_NBYTES, self.task) // row_nbytes)
        fewest = -(-n_rows // MAX_SHARDS)
        rows = min(max(most, larger, fewest, 1), n_rows)
        return -(-n_rows // -(-n_rows // rows))  # keep the number of shards, fill them evenly


def plan_layout(
    shape: tuple[int, int, int],
    *,
    itemsize: int,
    n_measurements: int,
    wanted: "LayoutName | ExplicitLayout",
    max_task_nbytes: int,
    n_in_object: int = 1,
    is_sharded: bool = True,
) -> Layout:
    """Cut a cube of (rows, y, x).

    Args:
        shape: Shape of each measurement.
        itemsize: Bytes per pixel of the measurement with the largest dtype.
        n_measurements: Number of measurements. A task holds all of them.
        wanted: The request's layout.
        max_task_nbytes: Largest decoded size of a task. Larger windows are split into strips along y.
        n_in_object: Measurements in one object. A chunk has one.
        is_sharded: Whether objects are shards. If not, each is one chunk.

    Raises:
        BudgetError: The cube cannot be cut into at most `MAX_SHARDS` tasks of this size.
        RequestError: The wanted chunk is narrower than the window, and there are no shards.
    """
    sizes = _Sizes(pixel=itemsize * n_measurements, object_pixel=itemsize * n_in_object, task=max_task_nbytes)
    if not is_sharded:
        layout = _cut_into_chunks(wanted, shape, sizes)
    elif isinstance(wanted, str):
        layout = _cut_as_named(wanted, shape, itemsize, sizes)
    else:
        layout = _explicit(wanted, shape, sizes)
    return _check_tasks(layout, shape, sizes, is_explicit=not isinstance(wanted, str))


def tile_layout(
    shape: tuple[int, int, int],
    *,
    tile: tuple[int, int],
    itemsize: int,
    n_measurements: int,
    max_task_nbytes: int,
) -> Layout:
    """Cut a cube of (rows, y, x) into chunks of one tile (height, width); see `plan_layout`.

    The last chunks may extend beyond the window.
    """
    n_rows, height, width = shape
    y, x = tile
    sizes = _Sizes(pixel=itemsize * n_measurements, object_pixel=itemsize, task=max_task_nbytes)
    padded_width = _up_to(width, x)
    strip = sizes.strip_height(height, y, padded_width)
    rows = sizes.shard_rows(n_rows, strip * padded_width)
    return _check_tasks(Layout(chunk=(1, y, x), shard=(rows, strip, padded_width)), shape, sizes)


def chip_layout(
    shape: tuple[int, int, int],
    *,
    n_images: int,
    itemsize: int,
    n_measurements: int,
    max_task_nbytes: int,
) -> Layout:
    """Cut a cube of chips, whose rows are the images of one chip after the other.

    A chunk is a chip with all of its images, so that one request reads it. A task has many neighbouring
    chips, whose tiles it reads once, and there are some tasks at least.

    Args:
        shape: (rows, y, x) of each measurement.
        n_images: Rows of each chip.
        itemsize: As for `plan_layout`, as are the others.
        n_measurements: Number of measurements.
        max_task_nbytes: Largest decoded size of a task.

    Raises:
        BudgetError: One chip does not fit a task.
    """
    n_rows, height, width = shape
    image_nbytes = height * width * itemsize
    chip_nbytes, all_chips = n_images * image_nbytes, n_rows // n_images
    task_chip_nbytes = chip_nbytes * n_measurements
    few = max(-(-all_chips // _FEWEST_CHIP_SHARDS), _SMALL_CHIP_SHARD_NBYTES // chip_nbytes)
    most = min(CHIP_SHARD_NBYTES // chip_nbytes, max_task_nbytes // task_chip_nbytes, all_chips)
    n_chips = max(min(few, most), 1)
    if task_chip_nbytes > max_task_nbytes:
        raise BudgetError(
            f"one chip with its {n_images:,} images takes {task_chip_nbytes / 2**20:,.0f} MiB, and a task "
            f"holds {max_task_nbytes / 2**20:,.0f} MiB: ask for fewer images or bands, or for smaller chips"
        )
    layout = Layout(chunk=(n_images, height, width), shard=(n_chips * n_images, height, width))
    sizes = _Sizes(pixel=itemsize * n_measurements, object_pixel=itemsize, task=max_task_nbytes)
    return _check_tasks(layout, shape, sizes)


def _check_tasks(
    layout: Layout, shape: tuple[int, int, int], sizes: _Sizes, *, is_explicit: bool = False
) -> Layout:
    """Return the layout, or raise a BudgetError if it has too many or too large tasks."""
    n_tasks = math.prod(layout.n_shards(shape))
    task_nbytes = math.prod(layout.shard) * sizes.pixel
    if n_tasks > MAX_SHARDS or task_nbytes > sizes.task:
        other_shards = "more rows in a shard" if n_tasks > MAX_SHARDS else "smaller chunks and shards"
        raise BudgetError(
            f"a cube of {shape[0]:,} x {shape[1]:,} x {shape[2]:,} pixels would take "
            f"{counted(n_tasks, 'task')} of {_mib(task_nbytes)}. A gather has at most {MAX_SHARDS:,} tasks "
            f"of {_mib(sizes.task)}. Ask for a smaller window, fewer bands or sources"
            + (f", or for {other_shards}" if is_explicit else "")
        )
    return layout


def _mib(nbytes: float) -> str:
    if nbytes < 1:
        return "less than a byte"
    size = nbytes / 2**20
    return f"{size:,.0f} MiB" if size >= 1 else f"{size:.2g} MiB"


def _cut_as_named(wanted: "LayoutName", shape: tuple[int, int, int], itemsize: int, sizes: _Sizes) -> Layout:
    n_rows, height, width = shape
    rows, y, x = _planned_chunk(wanted, shape, itemsize)
    padded_width = _up_to(width, x)
    strip = sizes.strip_height(height, y, padded_width)
    shard_rows = sizes.shard_rows(n_rows, strip * padded_width)
    n_chunks = max(round(shard_rows / min(rows, shard_rows)), 1)
    rows = -(-shard_rows // n_chunks)  # equal chunks need little padding
    if rows * n_chunks * strip * padded_width * sizes.pixel > sizes.task:
        rows = shard_rows // n_chunks
        n_chunks = shard_rows // rows
    n_chunks = min(n_chunks, -(-shard_rows // rows))
    return Layout(chunk=(rows, y, x), shard=(rows * n_chunks, strip, padded_width))


def _explicit(wanted: "ExplicitLayout", shape: tuple[int, int, int], sizes: _Sizes) -> Layout:
    n_rows, height, width = shape
    rows, y, x = (min(asked, there) for asked, there in zip(wanted.chunk, shape, strict=True))
    padded_width = _up_to(width, x)
    shard_rows = _up_to(min(wanted.shard_rows, n_rows), rows) if wanted.shard_rows else None
    strip = sizes.strip_height(height, y, (shard_rows or rows) * padded_width)
    if shard_rows is None:
        most = max(sizes.task // (strip * padded_width * sizes.pixel) // rows, 1) * rows
        shard_rows = min(_up_to(sizes.shard_rows(n_rows, strip * padded_width), rows), most)
    return Layout(chunk=(rows, y, x), shard=(shard_rows, strip, padded_width))


def _cut_into_chunks(
    wanted: "LayoutName | ExplicitLayout", shape: tuple[int, int, int], sizes: _Sizes
) -> Layout:
    """Cut a cube into objects that are one chunk each. They are as wide as the window, as shards are."""
    n_rows, height, width = shape
    if not isinstance(wanted, str):
        rows, y, x = wanted.chunk
        if x < width:
            raise RequestError(
                f"without shards, a chunk is as wide as the window: ask for chunks of {rows}, {y}, {width}, "
                "or leave sharding out",
                field="output.layout.chunk",
            )
        chunk = min(rows, n_rows), min(y, height), width
        return Layout(chunk=chunk, shard=chunk, is_sharded=False)
    # A row that is larger than an object becomes strips of about one height.
    most_lines = min(SHARD_NBYTES // (width * sizes.object_pixel), sizes.task // (width * sizes.pixel))
    n_strips = -(-height // max(most_lines, 1))
    y = -(-height // n_strips)
    target = {"slice": 1, "balanced": OBJECT_NBYTES, "series": SHARD_NBYTES}[wanted]
    rows = sizes.shard_rows(n_rows, y * width, target_nbytes=target)
    chunk = rows if wanted != "slice" else 1, y, width
    return Layout(chunk=chunk, shard=chunk, is_sharded=False)


def _planned_chunk(wanted: "LayoutName", shape: tuple[int, int, int], itemsize: int) -> tuple[int, int, int]:
    n_rows, height, width = shape
    if wanted == "slice":
        side = math.isqrt(CHUNK_NBYTES // itemsize)
        return 1, _even(height, side), _even(width, side)
    side = CHUNK_SIDE // 2 if wanted == "series" else CHUNK_SIDE
    y, x = _even(height, side), _even(width, side)
    deepest = MAX_SHARD_ROWS if wanted == "series" else max(CHUNK_NBYTES // (y * x * itemsize), 1)
    return min(deepest, n_rows), y, x


def _even(length: int, about: int) -> int:
    """Divide ``length`` into equal parts of about ``about`` and return the size of a part."""
    return -(-length // max(round(length / about), 1))


def _up_to(length: int, step: int) -> int:
    return -(-length // step) * step
