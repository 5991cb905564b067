"""Cut a plan into tasks, one per shard.

A shard is the unit of writing: one task writes one whole object per measurement, so two workers
never touch the same object and a retry repeats only its own work. Pure.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pixel_gather.cube import CubePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTask:
    """One worker's whole job: the windows that fill one shard of every measurement."""

    index: int
    """From 0, in the order of rows, then of strips."""

    row_start: int
    row_stop: int
    """Rows [row_start, row_stop) of the cube."""

    y_start: int
    y_stop: int
    """Lines [y_start, y_stop) of the window."""

    list_start: int
    list_stop: int
    """Bytes of the list in shard order that name this task's sources."""

    @property
    def n_rows(self) -> int:
        """Rows of the cube in this shard."""
        return self.row_stop - self.row_start

    def shard_key(self, plan: CubePlan) -> tuple[int, int, int]:
        """Return the shard's place in the chunk grid."""
        return self.row_start // plan.layout.shard[0], self.y_start // plan.layout.shard[1], 0


def row_ranges(plan: CubePlan) -> Iterator[tuple[int, int]]:
    """Yield the rows [start, stop) of each shard along the first axis."""
    for start in range(0, plan.n_rows, plan.layout.shard[0]):
        yield start, min(start + plan.layout.shard[0], plan.n_rows)


def cut_tasks(plan: CubePlan, list_stops: list[int]) -> tuple[ShardTask, ...]:
    """Return every task of a plan.

    Args:
        plan: The cube.
        list_stops: For each range of rows, the byte after its last line in the list in shard order.
    """
    tasks: list[ShardTask] = []
    list_start = 0
    for (row_start, row_stop), list_stop in zip(row_ranges(plan), list_stops, strict=True):
        for y_start in range(0, plan.height, plan.layout.shard[1]):
            task = ShardTask(
                index=len(tasks),
                row_start=row_start,
                row_stop=row_stop,
                y_start=y_start,
                y_stop=min(y_start + plan.layout.shard[1], plan.height),
                list_start=list_start,
                list_stop=list_stop,
            )
            tasks.append(task)
        list_start = list_stop
    return tuple(tasks)
