"""The tasks cover the cube completely, without overlap."""

from copy import replace

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.core.plan.cube_plan import Append
from pixel_gather.core.plan.cut_tasks import ShardTask, cut_tasks, row_ranges
from support.fakes import FakeReader, table_of
from support.plans import planned
from support.strategies import layouts

PLAN = planned(FakeReader({"a": np.zeros((1, 8, 8), "uint8")}), table_of("a"))


@given(data=st.data(), shape=st.tuples(st.integers(1, 40), st.integers(1, 30), st.integers(1, 30)))
def test_cut_tasks_partitions_the_plan(data: st.DataObject, shape: tuple[int, int, int]) -> None:
    """Every row and line is in exactly one task, and every task has its own position in the grid."""
    layout = data.draw(layouts(shape))
    plan = replace(PLAN, n_rows=shape[0], height=shape[1], width=shape[2], layout=layout)
    stops = [10 * (n + 1) for n, _ in enumerate(row_ranges(plan))]

    tasks = cut_tasks(plan, stops)

    times_covered = np.zeros(shape[:2], int)
    for task in tasks:
        times_covered[task.row_start : task.row_stop, task.y_start : task.y_stop] += 1
        assert task.shard_key(plan) == (task.row_start // layout.shard[0], task.y_start // layout.shard[1], 0)
        assert task.n_rows <= layout.shard[0]
    assert (times_covered == 1).all()
    assert [task.index for task in tasks] == list(range(len(tasks)))
    assert len({task.shard_key(plan) for task in tasks}) == len(tasks)
    assert len(tasks) == np.prod(layout.n_shards(shape))


@given(data=st.data(), shape=st.tuples(st.integers(1, 40), st.integers(1, 30), st.integers(1, 30)))
def test_cut_tasks_gives_each_range_of_rows_its_bytes_of_the_list(
    data: st.DataObject, shape: tuple[int, int, int]
) -> None:
    """Strips of the same rows read the same bytes. The ranges follow each other without a gap."""
    layout = data.draw(layouts(shape))
    plan = replace(PLAN, n_rows=shape[0], height=shape[1], width=shape[2], layout=layout)
    ranges = list(row_ranges(plan))
    stops = [7 * (n + 1) for n, _ in enumerate(ranges)]

    tasks = cut_tasks(plan, stops)

    starts = dict(zip(ranges, [0, *stops[:-1]], strict=True))
    for task in tasks:
        rows = task.row_start, task.row_stop
        assert (task.list_start, task.list_stop) == (starts[rows], starts[rows] + 7)


def test_tasks_survive_json() -> None:
    """A task passes through the state machine as JSON and is the same."""
    tasks = cut_tasks(PLAN, [12])

    assert msgspec.json.decode(msgspec.json.encode(tasks), type=tuple[ShardTask, ...]) == tasks


def test_cut_tasks_gives_each_range_of_rows_its_packed_headers() -> None:
    """The list is cut in the same way. Without packed headers the part is empty."""
    plan = replace(PLAN, n_rows=3, layout=replace(PLAN.layout, chunk=(1, 8, 8), shard=(2, 8, 8)))

    tasks = cut_tasks(plan, [10, 20], [7, 9])
    without = cut_tasks(plan, [10, 20])

    assert [(each.headers_start, each.headers_stop) for each in tasks] == [(0, 7), (7, 9)]
    assert [(each.headers_start, each.headers_stop) for each in without] == [(0, 0), (0, 0)]


def test_first_rows_of_an_append_fill_the_shard_that_is_there() -> None:
    """The following shards begin where those of one gather would."""
    append = Append(version=2, first_row=3, chunk_rows=1, versions=())
    layout = replace(PLAN.layout, chunk=(1, 8, 8), shard=(2, 8, 8))
    plan = replace(PLAN, n_rows=7, layout=layout, append=append)

    tasks = cut_tasks(plan, [1, 2, 3])

    assert list(row_ranges(plan)) == [(3, 4), (4, 6), (6, 7)]
    assert [each.n_rows for each in tasks] == [1, 2, 1]
    assert [each.places(plan) for each in tasks] == [[1], [0, 1], [0]]
    assert [each.object_keys(plan) for each in tasks] == [
        ["band_1/c/1/0/0"],
        ["band_1/c/2/0/0"],
        ["band_1/c/3/0/0"],
    ]
