"""Quicklooks: small pictures of some of a cube's windows, of means of blocks of pixels. Pure.

They show what was gathered without a read of the cube. Workers take them from the pixels that they have just
read. Finish joins the parts of windows that were read in strips.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.model.band_meaning import has_classes
from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.cube_plan import CubePlan, pixel_nbytes
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.core.read.valid_pixels import pixels_inside, valid_pixels

_MOST_ROWS: Final = 239
"""Most rows that have a picture. Odd, so that the middle row is one of them."""

_MOST_NBYTES: Final = 32 * 2**20
"""Largest total size of all measurements' pictures. If they are larger, fewer rows are shown."""

_LONGEST_SIDE: Final = 128
SHORTEST_SIDE: Final = 8
"""Windows with a shorter side than this have no picture."""

_AVERAGED: Final = 4
"""A pixel of a picture is the mean of at most so many pixels of its block along each side."""

_MOST_CLASSES: Final = 12
"""Integers with at most so many different values in a picture are classes, which have no mean."""


class Quicklooks(Struct, frozen=True, kw_only=True):
    """Pictures of one measurement."""

    measurement: str
    rows: np.ndarray[Any, np.dtype[np.int64]]
    """Rows of the cube that have a picture, ascending."""

    pictures: tuple[bytes, ...]
    """The picture of each row: pixels in C order."""

    shape: tuple[int, int]
    """Height and width of a picture."""

    dtype: str
    """The measurement's dtype."""

    step: int
    """Side of the block that a picture's pixel stands for, counted from the window's upper left pixel."""


def quicklook_rows(n_rows: int, *, nbytes: int) -> tuple[int, ...]:
    """Return the rows that have a picture, ascending. They are spread evenly from the first to the last row.

    Args:
        n_rows: Rows of the cube.
        nbytes: Size of all pictures of one row, in bytes.
    """
    most = min(_MOST_ROWS, max((_MOST_NBYTES // nbytes - 1) | 1, 3))
    n_shown = min(n_rows, most)
    return tuple(index * (n_rows - 1) // max(n_shown - 1, 1) for index in range(n_shown))


def quicklook_step(height: int, width: int) -> int | None:
    """Return the side of a picture's blocks in pixels, or None if the window is too small for a picture."""
    if min(height, width) < SHORTEST_SIDE:
        return None
    return -(-max(height, width) // _LONGEST_SIDE)


def _shape(plan: CubePlan, step: int) -> tuple[int, int]:
    """Return (height, width) of one picture."""
    return -(-plan.height // step), -(-plan.width // step)


def _rows_shown(plan: CubePlan, step: int) -> tuple[int, ...]:
    height, width = _shape(plan, step)
    return quicklook_rows(plan.n_rows, nbytes=height * width * pixel_nbytes(plan.measurements))


def take_quicklooks(
    arrays: Sequence[Pixels], *, plan: CubePlan, task: ShardTask, outcomes: Sequence[Sequence[Outcome]]
) -> list[dict[int, bytes]]:
    """Return a task's part of the pictures: for each measurement, bytes by row of the cube.

    A block of pixels that a strip's edge divides is averaged over the strip that has its first line.

    Args:
        arrays: Pixels of each measurement, shape (row, y, x) of the task.
        plan: The cube.
        task: Which part of it.
        outcomes: For each row of the task and each slot, the source's result.
    """
    step = quicklook_step(plan.height, plan.width)
    if step is None:
        return []
    first = -task.y_start % step  # count from the window's first line, so that strips fit together
    shown = [row - task.row_start for row in _rows_shown(plan, step) if task.row_start <= row < task.row_stop]
    return [
        {
            task.row_start + row: _picture(
                pixels[row],
                outcome,
                first,
                step,
                is_of_classes=has_classes(measurement.name, measurement.meaning),
            ).tobytes()
            for row in shown
            if (outcome := outcomes[row][measurement.slot]).status is Status.OK
        }
        for measurement, pixels in zip(plan.measurements, arrays, strict=True)
    ]


def _picture(pixels: Pixels, outcome: Outcome, first: int, step: int, *, is_of_classes: bool) -> Pixels:
    """Return means of the valid pixels of blocks; of classes and complex numbers every ``step``-th pixel.

    A block without a valid pixel keeps its first one.
    """
    sampled = pixels[first::step, ::step]
    if step == 1 or is_of_classes or pixels.dtype.kind not in "iuf" or _has_few_values(sampled):
        return sampled
    total, n_valid = np.zeros(sampled.shape, _sum_dtype(pixels.dtype)), np.zeros(sampled.shape, "uint8")
    offsets = sorted({index * step // _AVERAGED for index in range(_AVERAGED)})
    x_start, y_start, x_stop, y_stop = outcome.extent
    inside = pixels_inside(outcome, width=pixels.shape[1])
    for y, x in product(offsets, offsets):
        row, column = max(-((first + y - y_start) // step), 0), max(-((x - x_start) // step), 0)
        chosen = slice(first + y + row * step, y_stop, step), slice(x + column * step, x_stop, step)
        part = pixels[chosen]
        found = valid_pixels(part, outcome.nodata)
        valid = True if found is None else found
        is_valid = valid if inside is None else valid & inside[chosen]
        blocks = slice(row, row + part.shape[0]), slice(column, column + part.shape[1])
        np.add(total[blocks], part, out=total[blocks], where=is_valid)
        n_valid[blocks] += is_valid
    means = total / np.maximum(n_valid, 1)
    averaged = np.rint(means) if pixels.dtype.kind in "iu" else means
    return np.where(n_valid > 0, averaged, sampled).astype(pixels.dtype)


def _has_few_values(sampled: Pixels) -> bool:
    """Return whether integers are likely to be classes. Some of the pixels are mostly enough to tell."""
    return sampled.dtype.kind in "iu" and all(
        len(np.unique(sampled[::every, ::every])) <= _MOST_CLASSES for every in (8, 1)
    )


def _sum_dtype(dtype: np.dtype[Any]) -> str:
    """Return a dtype that holds the sum of 16 such pixels. It is exact for integers of at most 32 bits."""
    return "int32" if dtype in (np.uint8, np.int8, np.uint16, np.int16) else "float64"


@dataclass(slots=True)
class QuicklookAlbum:
    """Collects pictures in the order of the rows."""

    plan: CubePlan
    _n_rows: int = 0
    _pictures: list[dict[int, bytes]] = field(default_factory=list)
    """For each measurement, bytes by row."""

    def __post_init__(self) -> None:
        """Start without pictures."""
        self._pictures = [{} for _ in self.plan.measurements]

    def add(
        self, were_read: Sequence[Sequence[bool]], strips: Sequence[Sequence[Mapping[int, bytes]]]
    ) -> None:
        """Add the pictures of the next rows.

        Args:
            were_read: For each row and slot, whether the source was read in all strips.
            strips: The parts that each task took, from the top strip to the bottom one. Empty for a task
                that was lost or took no pictures.
        """
        if all(strips):
            for index, measurement in enumerate(self.plan.measurements):
                for row, slots in enumerate(were_read, start=self._n_rows):
                    if slots[measurement.slot] and all(row in strip[index] for strip in strips):
                        self._pictures[index][row] = b"".join(strip[index][row] for strip in strips)
        self._n_rows += len(were_read)

    def quicklooks(self) -> tuple[Quicklooks, ...]:
        """Return the pictures of each measurement that has any."""
        step = quicklook_step(self.plan.height, self.plan.width)
        if step is None:
            return ()
        return tuple(
            Quicklooks(
                measurement=measurement.name,
                rows=np.array(list(pictures), dtype="int64"),
                pictures=tuple(pictures.values()),
                shape=_shape(self.plan, step),
                dtype=measurement.dtype,
                step=step,
            )
            for measurement, pictures in zip(self.plan.measurements, self._pictures, strict=True)
            if pictures
        )
