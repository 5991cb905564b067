"""Quicklooks: small pictures of some of a cube's windows, made of every n-th pixel. Pure.

They show what was gathered without a read of the cube. Workers take them from the pixels that they have just
read. Finish joins the parts of windows that were read in strips.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.shards import ShardTask

_MOST_ROWS: Final = 239
"""Most rows that have a picture. Odd, so that the middle row is one of them."""

_MOST_NBYTES: Final = 32 * 2**20
"""Largest total size of all measurements' pictures. If they are larger, fewer rows are shown."""

_LONGEST_SIDE: Final = 128
_SHORTEST_SIDE: Final = 8
"""Windows with a shorter side than this have no picture."""

type _Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quicklooks:
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
    """Distance between the pixels taken, in both directions, from the window's upper left pixel on."""


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
    """Return the distance between the pixels taken, or None if the window is too small for a picture."""
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
    """Return a task's part of the pictures: for each measurement, bytes by row of the cube.

    Args:
        arrays: Pixels of each measurement, shape (row, y, x) of the task.
        plan: The cube.
        task: Which part of it.
        were_read: For each row of the task and each slot, whether the source was read.
    """
    step = quicklook_step(plan.height, plan.width)
    if step is None:
        return []
    first = -task.y_start % step  # count from the window's first line, so that strips fit together
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
