"""Cut a plan into tasks, one per shard.

A shard is the unit of writing: one task writes one whole object per measurement. So two workers
never write the same object, and a retry repeats only its own work. Pure.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pixel_gather.core.plan.cube_plan import CubePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTask:
    """The work for one shard of every measurement."""

    index: int
    """Index from 0, ordered by rows, then by strips."""

    row_start: int
    row_stop: int
    """Rows [row_start, row_stop) of the cube."""

    y_start: int
    y_stop: int
    """Lines [y_start, y_stop) of the window."""

    list_start: int
    list_stop: int
    """Bytes [list_start, list_stop) of the list file, with this task's rows."""

    headers_start: int = 0
    headers_stop: int = 0
    """Bytes [headers_start, headers_stop) of the packed headers' file. Empty if there are none."""

    @property
    def n_rows(self) -> int:
        """Rows of the cube in this shard."""
        return self.row_stop - self.row_start

    def shard_key(self, plan: CubePlan) -> tuple[int, int, int]:
        """Return the shard's position in the grid of shards."""
        return self.row_start // plan.layout.shard[0], self.y_start // plan.layout.shard[1], 0

    def object_keys(self, plan: CubePlan) -> list[str]:
        """Return the keys of the shard's objects in the cube, one for each measurement."""
        place = "/".join(map(str, self.shard_key(plan)))
        return [f"{measurement.name}/c/{place}" for measurement in plan.measurements]


def row_ranges(plan: CubePlan) -> Iterator[tuple[int, int]]:
    """Yield the rows [start, stop) to gather of each shard along the first axis.

    The first ones of an append may belong to a shard that has rows already.
    """
    shard_rows, start = plan.layout.shard[0], plan.first_row
    while start < plan.n_rows:
        stop = min((start // shard_rows + 1) * shard_rows, plan.n_rows)
        yield start, stop
        start = stop


def cut_tasks(
    plan: CubePlan, list_stops: list[int], header_stops: list[int] | None = None
) -> tuple[ShardTask, ...]:
    """Return every task of a plan.

    Args:
        plan: The cube.
        list_stops: For each range of rows, the end of its part of the list file.
        header_stops: The same for the file of packed headers, if there is one.
    """
    tasks: list[ShardTask] = []
    list_start = headers_start = 0
    header_stops = header_stops or [0] * len(list_stops)
    for (row_start, row_stop), list_stop, headers_stop in zip(
        row_ranges(plan), list_stops, header_stops, strict=True
    ):
        for y_start in range(0, plan.height, plan.layout.shard[1]):
            task = ShardTask(
                index=len(tasks),
                row_start=row_start,
                row_stop=row_stop,
                y_start=y_start,
                y_stop=min(y_start + plan.layout.shard[1], plan.height),
                list_start=list_start,
                list_stop=list_stop,
                headers_start=headers_start,
                headers_stop=headers_stop,
            )
            tasks.append(task)
        list_start, headers_start = list_stop, headers_stop
    return tuple(tasks)
