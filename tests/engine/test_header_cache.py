"""A header index: valid entries are used, stale ones are detected, and all go into the next index."""

import asyncio
from collections.abc import Sequence
from copy import replace
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.errors import SourceError
from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.model.outcome import Lookup, Outcome, merge_outcomes
from pixel_gather.core.model.source import Cost, CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.read.read_shard import ShardBuffers, ignore, read_shard
from pixel_gather.core.request.request import parse_request
from pixel_gather.core.results.report import Report
from pixel_gather.engine import header_cache
from pixel_gather.engine.finish_gather import finish_gather
from pixel_gather.engine.gather_shard import FilledShard, gather_shard
from pixel_gather.engine.plan_gather import plan_gather
from support.fakes import (
    FakeControl,
    FakeCube,
    FakeImage,
    FakeReader,
    FakeTable,
    access_to,
    context_of,
    stores_of,
    table_of,
)

NAMES = tuple(f"s3://b/{n}.tif" for n in range(5))
RNG = np.random.default_rng(7)
IMAGES = {name: RNG.integers(1, 999, (1, 20, 16), "uint16") for name in NAMES}
REQUEST = {
    "sources": "list",
    "window": {"pixels": [0, 0, 16, 20]},
    "output": {"layout": {"chunk": [2, 8, 8], "shard_rows": 2}},
}


GONE = SourceError("no such object", href=NAMES[1], status=Status.MISSING)


def without_costs(outcome: Outcome) -> Outcome:
    """Return an outcome without the values that differ between two readings of the same source."""
    cost = replace(outcome.cost, open_s=0, read_s=0, decode_s=0, nbytes=0, requests=0)
    return replace(outcome, lookup=Lookup.NONE, start_s=0, end_s=0, cost=cost)


@dataclass
class Gather:
    """A gather with fakes, with or without an index."""

    images: dict[str, Any] = field(default_factory=lambda: dict(IMAGES))
    table: FakeTable = field(default_factory=lambda: table_of(*NAMES))
    entries: dict[bytes, Any] = field(default_factory=dict)
    """Headers that the fake reader remembers from an earlier gather."""

    max_task_nbytes: int = 2**20
    request: dict[str, Any] = field(default_factory=dict)
    cube: FakeCube = field(default_factory=FakeCube)
    control: FakeControl = field(default_factory=FakeControl)

    def __post_init__(self) -> None:
        """Open no source yet."""
        self.reader = FakeReader(self.images, entries=dict(self.entries))

    def run(self) -> Report:
        """Plan, gather every shard and finish."""
        return asyncio.run(self._run())

    async def _run(self) -> Report:
        planned = await plan_gather(
            parse_request(REQUEST | self.request),
            table=self.table,
            context=context_of(self.cube, self.control, access_to(self.reader)),
            workers=WorkerPool(max_task_nbytes=self.max_task_nbytes),
        )
        assert planned is not None
        plan, tasks = planned
        self.reader.opened.clear()
        self.filled = [await self._shard(task, plan) for task in tasks]
        self.tasks = tasks
        stores = stores_of(self.cube, self.control.below(plan.claim))
        return await finish_gather(plan=plan, tasks=tasks, stores=stores)

    async def _shard(self, task: ShardTask, plan: CubePlan) -> FilledShard:
        return await gather_shard(
            task,
            plan=plan,
            context=context_of(self.cube, self.control.below(plan.claim), access_to(self.reader)),
            buffers=ShardBuffers(plan),
        )


def indexed(**changes: Any) -> tuple[Gather, FakeTable]:
    """Return a finished gather, and a table with its index for the next one."""
    first = Gather(**changes)
    first.run()
    return first, replace(first.table, index=first.cube.headers)


def test_gather_leaves_what_opens_its_sources_again() -> None:
    """All entries are used, even if the next list has another order."""
    gather = Gather()
    gather.run()

    assert list(gather.cube.headers) == list(NAMES)
    assert all(packed_header in gather.reader.entries for packed_header in gather.cube.headers.values())


def test_gather_with_an_index_opens_nothing_and_makes_the_same_cube() -> None:
    """Half the requests are needed. The report counts the entries, and the next index has them."""
    first, table = indexed()
    second = Gather(table=table, entries=first.reader.entries)

    report = second.run()

    assert second.reader.opened == []
    np.testing.assert_array_equal(second.cube.pixels["band_1"], first.cube.pixels["band_1"])
    assert (report.n_known, report.n_stale, report.n_unfit) == (len(NAMES), 0, 0)
    assert report.requests == len(NAMES) * len(second.tasks) // 3  # tasks of one window are strips
    assert second.cube.headers == first.cube.headers


def test_gather_reads_a_replaced_source_anew_and_whole() -> None:
    """Its pixels, its header and its entry in the next index are the new ones."""
    first, table = indexed()
    replaced = FakeImage(pixels=IMAGES[NAMES[1]] + 1, header={"etag": '"2"', "nodata": 5})
    second = Gather(table=table, entries=first.reader.entries, images=IMAGES | {NAMES[1]: replaced})

    report = second.run()

    np.testing.assert_array_equal(second.cube.pixels["band_1"][1], replaced.pixels[0])
    np.testing.assert_array_equal(second.cube.pixels["band_1"][2], IMAGES[NAMES[2]][0])
    assert second.cube.coordinates["etag"].tolist()[:2] == ['"1"', '"2"']
    assert second.cube.coordinates["nodata"][1] == 5
    assert (report.n_known, report.n_stale, report.n_unfit) == (len(NAMES) - 1, 1, 0)
    assert report.n_failed == 0
    assert second.cube.headers[NAMES[1]] == f'{NAMES[1]} "2"'.encode()


def test_gather_believes_no_index_that_says_a_window_is_not_there() -> None:
    """The current header decides. The source was smaller before."""
    small = FakeImage(pixels=np.ones((1, 4, 4), "float32"), header={"etag": '"0"'})
    first, table = indexed(images=IMAGES | {NAMES[3]: small})
    second = Gather(table=replace(table, index=first.cube.headers | _remembered(first, NAMES[3])))
    second.reader.entries |= first.reader.entries

    report = second.run()

    assert report.status_counts == {"ok": len(NAMES)}
    assert report.n_stale == 1
    np.testing.assert_array_equal(second.cube.pixels["band_1"][3], IMAGES[NAMES[3]][0])


@pytest.mark.parametrize(
    "now",
    [
        FakeImage(pixels=IMAGES[NAMES[1]].astype("float32"), header={"etag": '"2"'}),
        FakeImage(pixels=IMAGES[NAMES[1]], header={"etag": '"2"'}, read_error=GONE),
    ],
    ids=["unlike", "gone"],
)
def test_what_failed_keeps_nothing_of_the_version_before(now: FakeImage) -> None:
    """Its transform, nodata and ETag are the same as without an index. So is its entry in the next one."""
    before = FakeImage(pixels=IMAGES[NAMES[1]], header={"nodata": 7, "crs": "EPSG:32633"})
    first, table = indexed(images=IMAGES | {NAMES[1]: before})
    fresh = Gather(images=IMAGES | {NAMES[1]: now})
    second = Gather(table=table, entries=first.reader.entries, images=IMAGES | {NAMES[1]: now})

    reports = fresh.run(), second.run()

    assert second.filled[0].result.rows[1][0].lookup is Lookup.STALE
    assert reports[0].nodata_differs == reports[1].nodata_differs
    outcomes = [without_costs(each.filled[0].result.rows[1][0]) for each in (fresh, second)]
    assert repr(outcomes[0]) == repr(outcomes[1])  # NaN is not itself
    assert second.cube.headers == fresh.cube.headers


def _remembered(gather: Gather, name: str) -> dict[str, bytes]:
    """Return the entry of an unlike source, as `pixel-gather index` makes it."""

    async def packed_headers() -> bytes:
        opened = await gather.reader.open_(name, overview=None, cost=Cost())
        assert opened.packed_header is not None
        return opened.packed_header

    return {name: asyncio.run(packed_headers())}


def test_gather_reads_the_header_where_an_entry_is_rubbish() -> None:
    """Invalid entries cost no more than missing ones, and are counted."""
    gather = Gather(table=replace(table_of(*NAMES), index=dict.fromkeys(NAMES, b"rubbish")))

    report = gather.run()

    assert report.status_counts == {"ok": len(NAMES)}
    assert (report.n_known, report.n_stale, report.n_unfit) == (0, 0, len(NAMES))


def test_rubbish_is_not_handed_on() -> None:
    """This also holds if the source cannot be opened: only valid entries go into the next index."""
    missing = FakeImage(pixels=IMAGES[NAMES[4]], open_error=GONE)
    gather = Gather(
        table=replace(table_of(*NAMES), index=dict.fromkeys(NAMES, b"rubbish")),
        images=IMAGES | {NAMES[4]: missing},
    )

    gather.run()

    assert list(gather.cube.headers) == list(NAMES[:4])
    assert b"rubbish" not in gather.cube.headers.values()


def test_sidecars_do_not_carry_what_opens_sources_again() -> None:
    """Packed headers are in a file of their own."""
    gather = Gather()
    gather.run()

    assert all(
        outcome.packed_header is None
        for filled in gather.filled
        for row in filled.result.rows
        for outcome in row
    )
    kept = [key for key in gather.control.keys_put if "shards/" in key]
    assert kept[::2] == [f"headers/shards/{shard:05d}.msgpack" for shard in range(len(kept) // 2)]
    assert kept[1::2] == [key for key in kept if key.startswith("shards/")]


def test_a_source_that_could_not_be_read_this_time_stays_in_the_index() -> None:
    """Its entry in the index stays valid."""
    first, table = indexed()
    late = FakeImage(pixels=IMAGES[NAMES[0]], delay_s=9.0)
    entries = {
        packed_header: entry | {"image": late} if packed_header.startswith(NAMES[0].encode()) else entry
        for packed_header, entry in first.reader.entries.items()
    }
    second = Gather(table=table, entries=entries)

    async def read() -> Outcome:
        planned = await plan_gather(
            parse_request(REQUEST),
            table=table,
            context=context_of(second.cube, second.control, access_to(second.reader)),
            workers=WorkerPool(max_task_nbytes=2**20),
        )
        assert planned is not None
        plan, tasks = planned
        with ShardBuffers(plan).borrow(tasks[0]) as buffers:
            rows = await read_shard(
                list(table.rows(0, 2)),
                buffers,
                plan=plan,
                task=tasks[0],
                sources=access_to(second.reader, timeout_s=0.05),
                on_source=ignore,
                packed_headers=list(table.packed_headers(0, 2)),
            )
        return rows[0][0]

    outcome = asyncio.run(read())

    assert outcome.status is Status.TIMED_OUT
    assert outcome.packed_header == first.cube.headers[NAMES[0]]


def test_strips_of_one_window_are_handed_on_as_one_entry() -> None:
    """A source that several tasks read has one entry."""
    output = {"layout": {"chunk": [1, 8, 8], "shard_rows": 1}}
    gather = Gather(max_task_nbytes=8 * 16 * 2, request={"output": output})

    gather.run()

    assert len(gather.tasks) == 3 * len(NAMES)
    assert list(gather.cube.headers) == list(NAMES)


def test_what_is_too_much_for_a_shard_is_read_again() -> None:
    """The memory for packed headers is limited. Headers beyond the limit are read from the sources."""
    large = b"x" * (20 << 20)
    gather = Gather(table=replace(table_of(*NAMES), index=dict.fromkeys(NAMES, large)))

    report = gather.run()

    assert report.n_unfit == 3  # one of each shard of two sources, and the last one of all
    assert report.status_counts == {"ok": len(NAMES)}


def task_of(index: int = 0, *, row: int = 0) -> ShardTask:
    """Return a task of one row and one line."""
    return ShardTask(
        index=index, row_start=row, row_stop=row + 1, y_start=0, y_stop=1, list_start=0, list_stop=0
    )


def test_rows_without_a_source_have_nothing_known() -> None:
    """Absent sources have no packed headers."""
    task, row = task_of(), CubeRow(time_us=None, sources=(None,))
    control = FakeControl()

    asyncio.run(
        header_cache.put_headers(
            task, header_cache.take_headers([row], [[Outcome(status=Status.ABSENT)]]), control
        )
    )

    assert control.files == {}
    assert asyncio.run(header_cache.load_packed_headers(task, control)) == ()


def test_headers_come_by_ranges_of_rows_in_the_order_of_the_tasks() -> None:
    """More shards than are read at one time, each of two strips. The longest header of a source counts."""
    control, names = FakeControl(), [str(n) for n in range(50)]
    tasks = [task_of(index, row=index // 2) for index in range(100)]

    async def run() -> list[list[tuple[str, bytes]]]:
        for task in tasks:
            source = Source(href=names[task.row_start])
            packed = b"long" if task.index % 4 in (1, 2) else b"x"
            outcome = Outcome(status=Status.OK, packed_header=None if task.index in (6, 7) else packed)
            rows = [CubeRow(time_us=None, sources=(source,))]
            await header_cache.put_headers(task, header_cache.take_headers(rows, [[outcome]]), control)
        return [part async for part in header_cache.read_gathered_headers(tasks, control)]

    parts = asyncio.run(run())

    assert parts == [[(name, b"long")] for name in names if name != "3"]


@pytest.mark.parametrize(("nbytes", "n_kept"), [(32 << 20, 2), ((32 << 20) + 1, 1)])
def test_headers_beyond_a_shards_limit_are_not_handed_on(nbytes: int, n_kept: int) -> None:
    """Exactly the limit is."""
    control, task = FakeControl(), task_of()
    rows = [CubeRow(time_us=None, sources=(Source(href=name),)) for name in "ab"]
    packed = (b"x", bytes(nbytes - 1))
    outcomes = [[Outcome(status=Status.OK, packed_header=each)] for each in packed]

    async def run() -> list[list[tuple[str, bytes]]]:
        await header_cache.put_headers(task, header_cache.take_headers(rows, outcomes), control)
        return [part async for part in header_cache.read_gathered_headers([task], control)]

    (part,) = asyncio.run(run())

    assert [href for href, _ in part] == ["a", "b"][:n_kept]


def test_damaged_headers_are_as_good_as_none() -> None:
    """The sources' own headers are read then."""
    control, task = FakeControl(), replace(task_of(), headers_start=1, headers_stop=4)

    async def run() -> Sequence[Sequence[bytes | None]]:
        await control.put(header_cache.PACKED_HEADERS_KEY, b"\xff\xff\xff\xff")
        return await header_cache.load_packed_headers(task, control)

    assert asyncio.run(run()) == ()


def test_lookups_of_strips_are_merged_by_the_worst() -> None:
    """A source with one stale strip is stale."""
    parts = [Outcome(status=Status.OK, etag='"2"', lookup=each) for each in (Lookup.USED, Lookup.STALE)]

    assert merge_outcomes(parts, y_starts=[0, 8]).lookup is Lookup.STALE
