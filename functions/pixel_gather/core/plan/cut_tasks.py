"""Cut a plan into tasks, one per shard.

A shard is the unit of writing: one task writes one whole object per array. So two workers
never write the same object, and a retry repeats only its own work. Pure.
"""

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from pixel_gather.core.plan.cube_plan import CubePlan


class ShardTask(Struct, frozen=True, kw_only=True):
    """The work for one shard of every measurement."""

    index: int
    """Index from 0, ordered by rows, then by strips."""

    row_start: int
    row_stop: int
    """Rows [row_start, row_stop) of the cube. They are empty if the task only tries rows ``again``."""

    y_start: int
    y_stop: int
    """Lines [y_start, y_stop) of the window."""

    list_start: int
    list_stop: int
    """Bytes [list_start, list_stop) of the list file, with this task's rows."""

    headers_start: int = 0
    headers_stop: int = 0
    """Bytes [headers_start, headers_stop) of the packed headers' file. Empty if there are none."""

    again: tuple[int, ...] = ()
    """Rows of the cube before those, in the same shard, that are tried again. They come first."""

    @property
    def n_rows(self) -> int:
        """Rows of the cube that the task reads."""
        return len(self.again) + self.row_stop - self.row_start

    def places(self, plan: CubePlan) -> list[int]:
        """Return the places of the rows in the shard, ascending."""
        shard_rows = plan.layout.shard[0]
        return [row % shard_rows for row in (*self.again, *range(self.row_start, self.row_stop))]

    def shard_key(self, plan: CubePlan) -> tuple[int, int, int]:
        """Return the shard's position in the grid of shards."""
        return self.row_start // plan.layout.shard[0], self.y_start // plan.layout.shard[1], 0

    def object_keys(self, plan: CubePlan) -> list[str]:
        """Return the keys of the shard's objects in the cube, one for each array."""
        row, strip, _ = self.shard_key(plan)
        return plan.object_keys(row, strip)


def row_ranges(plan: CubePlan) -> Iterator[tuple[int, int]]:
    """Yield the rows [start, stop) to gather of each shard along the first axis.

    The first ones of an append may belong to a shard that has rows already.
    """
    shard_rows, start = plan.layout.shard[0], plan.first_row
    while start < plan.n_rows:
        stop = min((start // shard_rows + 1) * shard_rows, plan.n_rows)
        yield start, stop
        start = stop


class ShardRows(Struct, frozen=True):
    """The rows that a plan reads of one shard."""

    again: tuple[int, ...]
    """Rows that are tried again."""

    start: int
    stop: int
    """New rows [start, stop). If there are none, both are the first row of ``again``."""


def rows_by_shard(plan: CubePlan) -> Iterator[ShardRows]:
    """Yield the rows to read of each shard along the first axis: those tried again, and the new ones."""
    again: dict[int, list[int]] = defaultdict(list)
    for row in plan.append.again:
        again[row // plan.layout.shard[0]].append(row)
    ranges = {start // plan.layout.shard[0]: (start, stop) for start, stop in row_ranges(plan)}
    for place in sorted(again.keys() | ranges.keys()):
        rows = tuple(again.get(place, ()))
        start, stop = ranges.get(place) or (rows[0], rows[0])
        yield ShardRows(rows, start, stop)


def cut_tasks(
    plan: CubePlan, list_stops: list[int], header_stops: list[int] | None = None
) -> tuple[ShardTask, ...]:
    """Return every task of a plan.

    Args:
        plan: The cube.
        list_stops: For each of `rows_by_shard`, the end of its part of the list file.
        header_stops: The same for the file of packed headers, if there is one.
    """
    tasks: list[ShardTask] = []
    list_start = headers_start = 0
    header_stops = header_stops or [0] * len(list_stops)
    for rows, list_stop, headers_stop in zip(rows_by_shard(plan), list_stops, header_stops, strict=True):
        for y_start in range(0, plan.height, plan.layout.shard[1]):
            task = ShardTask(
                index=len(tasks),
                row_start=rows.start,
                row_stop=rows.stop,
                again=rows.again,
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
