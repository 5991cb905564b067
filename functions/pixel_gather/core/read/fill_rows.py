"""Turn the scenes that were read for a shard into its rows: values, masks, reductions, statistics."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise

import msgspec
import numpy as np

from pixel_gather.core.in_thread import in_thread
from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.model.source import CubeRow
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.read.harmonise_row import harmonise_row
from pixel_gather.core.read.hide_pixels import hide_in_row
from pixel_gather.core.read.measure_rows import measure_rows
from pixel_gather.core.read.reduce_row import (
    Scenes,
    may_replace,
    outcomes_of_row,
    reduce_lines,
    refuse_other_numbers,
)
from pixel_gather.core.read.scale_row import scale_row
from pixel_gather.core.read.shard_buffers import Buffer, Pixels
from pixel_gather.core.read.stored_tiles import StoredTiles
from pixel_gather.core.task_group import all_of


def scenes_of(plan: CubePlan, rows: Sequence[CubeRow]) -> Sequence[CubeRow]:
    """Return what is read for some rows of a cube: the rows themselves, or the scenes that become them."""
    return rows if plan.reduction is None else [each for row in rows for each in row.members]


class ShardFilling:
    """Fills the rows of one shard. It uses one thread per core."""

    def __init__(
        self,
        plan: CubePlan,
        rows: Sequence[CubeRow],
        scenes: Sequence[CubeRow],
        buffers: tuple[Sequence[Buffer], Sequence[Buffer], Sequence[Buffer]],
        *,
        step: int,
    ) -> None:
        """Start with no row filled.

        Args:
            plan: The cube.
            rows: All rows of the task.
            scenes: `scenes_of` them.
            buffers: Of each slot, shape (band, row, y, x): what was read, its values, and what is stored.
            step: Rows that are filled together.
        """
        self._plan, self._of_scenes = plan, plan.of_scenes
        self._rows, self._scenes = rows, scenes
        self._read, self._values, self._stored = buffers
        self._step = step
        stores_others = any(each.stored is not None for each in self._of_scenes.measurements)
        self._completes = self._of_scenes.values != "raw" or self._of_scenes.mask is not None or stores_others
        self._starts = [0, *accumulate(max(len(row.members), 1) for row in rows)]
        self.stops = [self._starts[min(stop, len(rows))] for stop in range(step, len(rows) + step, step)]
        """Where the scenes of rows that are filled together end."""

        self.outcomes: list[list[Outcome]] = [[] for _ in rows] if plan.reduction is not None else []
        """Of each row that several scenes are reduced to, one for each slot of the cube."""

        self.kept: list[int] = []
        """Rows that were to be reduced anew and stay as they are, as they would lack what they have."""

    async def fill(self, start: int, outcomes: Sequence[Sequence[Outcome]]) -> tuple[int, int]:
        """Fill the rows of some scenes that were read.

        Args:
            start: The first of the scenes.
            outcomes: For each scene from there on, one outcome per slot.

        Returns:
            The rows [first, stop).
        """
        reduces = self._plan.reduction is not None

        def complete_some(first: int, stop: int) -> None:
            for at, of_scene in enumerate(outcomes[first:stop], start=start + first):
                if self._completes:
                    plan, row = self._of_scenes, self._scenes[at]
                    harmonise_row(plan, self._read, at, of_scene, row)
                    scale_row(plan, self._read, self._values, at, of_scene, row)
                    hide_in_row(plan, self._values, at, of_scene, row, is_reduced=reduces)
                if reduces:
                    refuse_other_numbers(self._plan, of_scene)
            if not reduces:
                self._measure(start + first, outcomes[first:stop])

        await _in_parts(complete_some, len(outcomes))
        row = self._starts.index(start)
        stop = min(row + self._step, len(self._rows))
        if reduces:
            for at in range(row, stop):
                first, last = (self._starts[each] - start for each in (at, at + 1))
                await self._reduce(at, outcomes[first:last])
        return row, stop

    def _measure(self, first: int, outcomes: Sequence[Sequence[Outcome]]) -> None:
        """Measure neighbouring rows.

        Args:
            first: The first of them.
            outcomes: For each row from there on, one outcome per slot.
        """
        for slot, buffer in enumerate(self._stored):
            of_slot = [row[slot] for row in outcomes]
            if isinstance(buffer, StoredTiles):
                measured = [buffer.measure(first + index, each) for index, each in enumerate(of_slot)]
            else:
                measured = measure_rows(buffer[:, first : first + len(of_slot)], of_slot)
            for outcome, bands in zip(of_slot, measured, strict=True):
                outcome.bands = bands

    async def _reduce(self, at: int, outcomes: Sequence[Sequence[Outcome]]) -> None:
        """Reduce the scenes of one row. Each thread has some lines."""
        scenes = Scenes(self._starts[at], outcomes, self._rows[at].members)
        values, rows = _arrays(self._values), _arrays(self._stored)
        height = rows[0].shape[2]
        counts = await _in_parts(
            lambda top, bottom: reduce_lines(self._plan, values, rows, scenes, at, slice(top, bottom)), height
        )
        row = self._rows[at]
        if row.packed_outcomes is not None and not may_replace(row, outcomes):
            self.kept.append(at)
            self.outcomes[at] = msgspec.msgpack.decode(row.packed_outcomes, type=list[Outcome])
            return
        self.outcomes[at] = outcomes_of_row(self._plan, scenes, np.sum(counts, axis=0), height=height)
        await in_thread(partial(self._measure, at, [self.outcomes[at]]), goes_first=True)


async def _in_parts[T](work: Callable[[int, int], T], n: int) -> list[T]:
    """Call ``work(first, stop)`` for parts of the numbers below n, in one thread per core."""
    n_threads = os.process_cpu_count() or 1
    edges = [n * part // n_threads for part in range(n_threads + 1)]
    return await all_of(
        in_thread(partial(work, first, stop), goes_first=True)
        for first, stop in pairwise(edges)
        if first < stop
    )


def _arrays(buffers: Sequence[Buffer]) -> list[Pixels]:
    return [each for each in buffers if isinstance(each, np.ndarray)]
