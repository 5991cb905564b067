"""The arrays that the windows of a shard are read into, and what they become. They are reused."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from pixel_gather.core.plan.cube_plan import CubePlan, pixel_nbytes
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.read.stored_tiles import StoredTiles

type Pixels = np.ndarray[Any, np.dtype[Any]]
type Buffer = Pixels | StoredTiles
"""What the sources of one slot are read into."""


class ShardBuffers:
    """The arrays that shards are read into, one per source slot. They are reused for every shard.

    In a virtual machine, fresh memory costs up to 1 ms of CPU for each tile, as much as decoding the tile.
    """

    def __init__(self, plan: CubePlan) -> None:
        self._cube, self._plan = plan, plan.of_scenes
        self._free: dict[str, list[list[Pixels]]] = {"read": [], "values": [], "rows": []}

    @contextmanager
    def borrow(self, task: ShardTask, n_scenes: int | None = None) -> Iterator[Sequence[Buffer]]:
        """Lend arrays of shape (band, row, y, x). They have arbitrary content until they are written to.

        If compressed tiles are kept as they are, the buffers hold these, and are new.

        Args:
            task: The shard.
            n_scenes: Number of scenes to read; None if it is the shard's number of rows.
        """
        plan = self._plan
        if plan.passes_through:
            yield [StoredTiles(task.n_rows, n_bands=len(slot.bands)) for slot in plan.slots]
            return
        kinds = [(len(slot.bands), slot.dtype) for slot in plan.slots]
        n_rows = task.n_rows if n_scenes is None else n_scenes
        with self._lent("read", kinds, task, n_rows=n_rows) as lent:
            yield lent

    @contextmanager
    def borrowed_values(self, task: ShardTask, read: Sequence[Buffer]) -> Iterator[Sequence[Buffer]]:
        """Lend arrays for the values that are made of the pixels read. Their shapes are those of `borrow`.

        A slot whose pixels do not change gets the array that it was read into.
        """
        plan = self._plan
        made = [slot for slot in range(len(read)) if plan.of_slot(slot)[0].stored is not None]
        kinds = [(len(plan.slots[slot].bands), plan.of_slot(slot)[0].dtype) for slot in made]
        with self._lent("values", kinds, task, n_rows=_n_rows(read)) as lent:
            there = dict(zip(made, lent, strict=True))
            yield [there.get(slot, each) for slot, each in enumerate(read)]

    @contextmanager
    def borrowed_rows(self, task: ShardTask, values: Sequence[Buffer]) -> Iterator[Sequence[Buffer]]:
        """Lend what the cube stores: the values of scenes, or arrays for what these are reduced to."""
        plan = self._cube
        if plan.reduction is None:
            yield values
            return
        kinds = [(len(of_slot), of_slot[0].dtype) for of_slot in map(plan.of_slot, range(len(plan.slots)))]
        with self._lent("rows", kinds, task, n_rows=task.n_rows) as lent:
            yield lent

    @contextmanager
    def _lent(
        self, what: str, kinds: Sequence[tuple[int, str]], task: ShardTask, *, n_rows: int
    ) -> Iterator[Sequence[Pixels]]:
        """Lend an array for each (number of bands, dtype). They are kept for the next shard."""
        free, height = self._free[what], task.y_stop - task.y_start
        most = self._n_rows if what == "rows" else self._n_scenes
        whole = free.pop() if free else [np.empty((n, most, *self._shape), dtype) for n, dtype in kinds]
        try:
            yield [buffer[:, :n_rows, :height] for buffer in whole]
        finally:
            free.append(whole)

    @property
    def decoded_nbytes(self) -> int:
        """Bytes of a shard's decoded pixels, as they are read and as they are stored in the cube.

        Tiles that are kept compressed take less.
        """
        read = sum(len(slot.bands) * np.dtype(slot.dtype).itemsize for slot in self._plan.slots)
        values = pixel_nbytes(each for each in self._plan.measurements if each.stored is not None)
        rows = 0 if self._cube.reduction is None else pixel_nbytes(self._cube.measurements)
        return prod(self._shape) * (self._n_scenes * (read + values) + self._n_rows * rows)

    @property
    def _shape(self) -> tuple[int, int]:
        return min(self._plan.layout.shard[1], self._plan.height), self._plan.width

    @property
    def _n_rows(self) -> int:
        return min(self._cube.layout.shard[0], self._cube.n_rows)

    @property
    def _n_scenes(self) -> int:
        """Rows that are read for one shard at most."""
        reduction = self._cube.reduction
        return self._n_rows if reduction is None else reduction.most_scenes


def _n_rows(read: Sequence[Buffer]) -> int:
    return next((each.shape[1] for each in read if isinstance(each, np.ndarray)), 0)
