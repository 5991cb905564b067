"""Small pictures of some of a cube's windows: real pixels, every so many of them. Pure.

They show at a glance what was gathered, without the cube being read. Workers take them out of the pixels that
they have just read; the finish puts those of strips together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from pixel_gather.plan.cube_plan import CubePlan
from pixel_gather.plan.shards import ShardTask

_MOST_ROWS: Final = 239
"""Odd, so that the middle row is one of them; shorter cubes show all of theirs."""

_MOST_NBYTES: Final = 32 * 2**20
"""Of all measurements' pictures together: where they are many, fewer rows are shown."""

_LONGEST_SIDE: Final = 128
_SHORTEST_SIDE: Final = 8
"""Of a window that is a picture; a series of single pixels is none."""

type _Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quicklooks:
    """Pictures of one of a cube's measurements."""

    measurement: str
    rows: np.ndarray[Any, np.dtype[np.int64]]
    """Rows of the cube that have one, ascending."""

    pixels: _Array
    """Shape (row, y, x), in the measurement's dtype, raw."""

    step: int
    """Every so many pixels of the window were taken in both directions, its upper left one first."""


def quicklook_rows(n_rows: int, *, nbytes: int) -> tuple[int, ...]:
    """Return which rows of a cube are shown, ascending: spread evenly, first, middle and last among them.

    Args:
        n_rows: Of the cube.
        nbytes: Of all pictures of one row.
    """
    most = min(_MOST_ROWS, max((_MOST_NBYTES // nbytes - 1) | 1, 3))
    n_shown = min(n_rows, most)
    return tuple(index * (n_rows - 1) // max(n_shown - 1, 1) for index in range(n_shown))


def quicklook_step(height: int, width: int) -> int | None:
    """Return every how many pixels of a window are taken, or None of a window that is no picture."""
    if min(height, width) < _SHORTEST_SIDE:
        return None
    return -(-max(height, width) // _LONGEST_SIDE)


def _shape(plan: CubePlan, step: int) -> tuple[int, int]:
    """Return (height, width) of one picture."""
    return -(-plan.height // step), -(-plan.width // step)


def _rows_shown(plan: CubePlan, step: int) -> tuple[int, ...]:
    height, width = _shape(plan, step)
    n_bytes_per_pixel = sum(np.dtype(each.dtype).itemsize for each in plan.measurements)
    return quicklook_rows(plan.n_rows, nbytes=height * width * n_bytes_per_pixel)


def take_quicklooks(
    arrays: Sequence[_Array], *, plan: CubePlan, task: ShardTask, were_read: Sequence[Sequence[bool]]
) -> list[dict[int, bytes]]:
    """Return a task's part of its rows' pictures: for each measurement, by row of the cube.

    Args:
        arrays: Of each measurement its pixels, shape (row, y, x) of the task.
        plan: The cube.
        task: Which part of it.
        were_read: For each row of the task, whether its source in each slot was read.
    """
    step = quicklook_step(plan.height, plan.width)
    if step is None:
        return []
    first = -task.y_start % step  # lines are counted from the window's first, so that strips fit together
    shown = [row - task.row_start for row in _rows_shown(plan, step) if task.row_start <= row < task.row_stop]
    return [
        {
            task.row_start + row: pixels[row, first::step, ::step].tobytes()
            for row in shown
            if were_read[row][measurement.slot]
        }
        for measurement, pixels in zip(plan.measurements, arrays, strict=True)
    ]


@dataclass(slots=True)
class QuicklookAlbum:
    """Collects pictures in the order of rows."""

    plan: CubePlan
    _n_rows: int = 0
    _pictures: list[dict[int, bytes]] = field(default_factory=list)
    """Of each measurement, by row."""

    def __post_init__(self) -> None:
        """Begin with none."""
        self._pictures = [{} for _ in self.plan.measurements]

    def add(
        self, were_read: Sequence[Sequence[bool]], strips: Sequence[Sequence[Mapping[int, bytes]]]
    ) -> None:
        """Take in the next rows.

        Args:
            were_read: For each of them, whether its source in each slot was read, in all strips.
            strips: What each task of these rows took, from the upper strip to the lowest; empty where it
                was lost, or took nothing.
        """
        if all(strips):
            for index, measurement in enumerate(self.plan.measurements):
                for row, slots in enumerate(were_read, start=self._n_rows):
                    if slots[measurement.slot] and all(row in strip[index] for strip in strips):
                        self._pictures[index][row] = b"".join(strip[index][row] for strip in strips)
        self._n_rows += len(were_read)

    def quicklooks(self) -> tuple[Quicklooks, ...]:
        """Return all of them, for each measurement that has any."""
        step = quicklook_step(self.plan.height, self.plan.width)
        if step is None:
            return ()
        shape = _shape(self.plan, step)
        return tuple(
            Quicklooks(
                measurement=measurement.name,
                rows=np.array(list(pictures), dtype="int64"),
                pixels=np.frombuffer(b"".join(pictures.values()), measurement.dtype).reshape(-1, *shape),
                step=step,
            )
            for measurement, pictures in zip(self.plan.measurements, self._pictures, strict=True)
            if pictures
        )
