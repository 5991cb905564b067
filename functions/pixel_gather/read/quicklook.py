"""Small pictures of some of a cube's windows: real pixels, every so many of them. Pure.

They show at a glance what was gathered, without the cube being read. Workers take them out of the pixels that
they have just read; the finish puts those of strips together.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from pixel_gather.plan.cube_plan import CubePlan
from pixel_gather.plan.shards import ShardTask

_MOST_ROWS: Final = 239
"""Odd, so that the middle row is one of them; shorter cubes show all of theirs."""

_LONGEST_SIDE: Final = 128
_SHORTEST_SIDE: Final = 8
"""Of a window that is a picture; a series of single pixels is none."""

type _Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quicklooks:
    """Pictures of a cube's first measurement."""

    rows: np.ndarray[Any, np.dtype[np.int64]]
    """Rows of the cube that have one, ascending."""

    pixels: _Array
    """Shape (row, y, x), in the measurement's dtype, raw."""

    step: int
    """Every so many pixels of the window were taken in both directions, its upper left one first."""


def quicklook_rows(n_rows: int) -> tuple[int, ...]:
    """Return which rows of a cube are shown, ascending: spread evenly, first, middle and last among them."""
    n_shown = min(n_rows, _MOST_ROWS)
    return tuple(index * (n_rows - 1) // max(n_shown - 1, 1) for index in range(n_shown))


def quicklook_step(height: int, width: int) -> int | None:
    """Return every how many pixels of a window are taken, or None of a window that is no picture."""
    if min(height, width) < _SHORTEST_SIDE:
        return None
    return -(-max(height, width) // _LONGEST_SIDE)


def take_quicklooks(
    pixels: _Array, *, plan: CubePlan, task: ShardTask, read: Collection[int]
) -> dict[int, bytes]:
    """Return a task's part of its rows' pictures, by row of the cube.

    Args:
        pixels: Of the first measurement, shape (row, y, x) of the task.
        plan: The cube.
        task: Which part of it.
        read: Rows of the cube whose source was read.
    """
    step = quicklook_step(plan.height, plan.width)
    if step is None:
        return {}
    first = -task.y_start % step  # lines are counted from the window's first, so that strips fit together
    shown = (row for row in quicklook_rows(plan.n_rows) if task.row_start <= row < task.row_stop)
    return {row: pixels[row - task.row_start, first::step, ::step].tobytes() for row in shown if row in read}


@dataclass(slots=True)
class QuicklookAlbum:
    """Collects pictures in the order of rows."""

    plan: CubePlan
    _n_rows: int = 0
    _pictures: dict[int, bytes] = field(default_factory=dict)

    def add(self, were_read: Sequence[bool], strips: Sequence[Mapping[int, bytes]]) -> None:
        """Take in the next rows.

        Args:
            were_read: Of each of them, whether its first source was read, in all strips.
            strips: What each task of these rows took, from the upper strip to the lowest.
        """
        for row, was_read in enumerate(were_read, start=self._n_rows):
            if was_read and all(row in strip for strip in strips):
                self._pictures[row] = b"".join(strip[row] for strip in strips)
        self._n_rows += len(were_read)

    def quicklooks(self) -> Quicklooks | None:
        """Return all of them; None where there are none."""
        step = quicklook_step(self.plan.height, self.plan.width)
        if step is None or not self._pictures:
            return None
        shape = (-(-self.plan.height // step), -(-self.plan.width // step))
        dtype = self.plan.measurements[0].dtype
        return Quicklooks(
            rows=np.array(list(self._pictures), dtype="int64"),
            pixels=np.frombuffer(b"".join(self._pictures.values()), dtype).reshape(-1, *shape),
            step=step,
        )
