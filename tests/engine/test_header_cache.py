"""A header index: valid entries are used, stale ones are detected, and all go into the next index."""

import asyncio
from copy import replace
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.outcome import Lookup, Outcome, merge_outcomes
from pixel_gather.core.model.source import Cost, CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.read.read_shard import ignore, read_shard
from pixel_gather.core.read.shard_buffers import ShardBuffers
from pixel_gather.core.results.report import Report
from pixel_gather.engine import header_cache
from pixel_gather.engine.gather_shard import FilledShard
from support.fakes import FakeControl, FakeImage, FakeTable, access_to, packed_header_of, table_of
from support.in_loop import in_loop
from support.whole_gather import IMAGES, NAMES, Gather

GONE = SourceError("no such object", href=NAMES[1], status=Status.MISSING)


def without_costs(outcome: Outcome) -> Outcome:
    """Return an outcome without the values that differ between two readings of the same source."""
    cost = replace(outcome.cost, open_s=0, read_s=0, decode_s=0, nbytes=0, requests=0)
    return replace(outcome, lookup=Lookup.NONE, start_s=0, end_s=0, cost=cost)


def gather_after(first: Gather, table: FakeTable, **changes: Any) -> Gather:
    """Return the next gather, whose reader knows what the first one has packed."""
    gather = Gather(table=table, **changes)
    gather.reader.entries |= first.reader.entries
    return gather


def run(gather: Gather) -> tuple[Report, list[FilledShard]]:
    """Plan, gather every shard and finish. The sources that the plan has opened are forgotten."""
    plan, tasks = gather.plan()
    gather.reader.opened.clear()
    filled = [gather.fill_shard(task, plan) for task in tasks]
    return gather.finish(plan, tasks), filled


def indexed(**changes: Any) -> tuple[Gather, FakeTable]:
    """Return a finished gather, and a table with its index for the next one."""
    first = Gather(**changes)
    run(first)
    return first, replace(first.table, index=first.headers())


def test_gather_leaves_what_opens_its_sources_again() -> None:
    """All entries are used, even if the next list has another order."""
    gather = Gather()
    run(gather)

    headers = gather.headers()
    assert list(headers) == list(NAMES)
    assert all(packed_header in gather.reader.entries for packed_header in headers.values())


def test_gather_with_an_index_opens_nothing_and_makes_the_same_cube() -> None:
    """Half the requests are needed. The report counts the entries, and the next index has them."""
    first, table = indexed()
    second = gather_after(first, table)

    report, _ = run(second)

    assert second.reader.opened == []
    np.testing.assert_array_equal(second.array("band_1"), first.array("band_1"))
    assert (report.n_known, report.n_stale, report.n_unfit) == (len(NAMES), 0, 0)
    assert report.requests == len(NAMES)
    assert second.headers() == first.headers()


def test_gather_reads_a_replaced_source_anew_and_whole() -> None:
    """Its pixels, its header and its entry in the next index are the new ones."""
    first, table = indexed()
    replaced = FakeImage(pixels=IMAGES[NAMES[1]] + 1, header={"etag": '"2"', "nodata": 5})
    second = gather_after(first, table, images=IMAGES | {NAMES[1]: replaced})

    report, _ = run(second)

    np.testing.assert_array_equal(second.array("band_1")[1], replaced.pixels[0])
    np.testing.assert_array_equal(second.array("band_1")[2], IMAGES[NAMES[2]][0])
    assert second.array("etag").tolist()[:2] == ['"1"', '"2"']
    assert second.array("nodata")[1] == 5
    assert (report.n_known, report.n_stale, report.n_unfit) == (len(NAMES) - 1, 1, 0)
    assert report.n_failed == 0
    assert second.headers()[NAMES[1]] == packed_header_of(replaced.header_at(NAMES[1]))


def test_gather_believes_no_index_that_says_a_window_is_not_there() -> None:
    """The current header decides. The source was smaller before."""
    small = FakeImage(pixels=np.ones((1, 4, 4), "float32"), header={"etag": '"0"'})
    first, table = indexed(images=IMAGES | {NAMES[3]: small})
    index = first.headers() | _remembered(first, NAMES[3])
    second = gather_after(first, replace(table, index=index))

    report, _ = run(second)

    assert report.status_counts == {"ok": len(NAMES)}
    assert report.n_stale == 1
    np.testing.assert_array_equal(second.array("band_1")[3], IMAGES[NAMES[3]][0])


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
    second = gather_after(first, table, images=IMAGES | {NAMES[1]: now})

    runs = run(fresh), run(second)

    outcomes = [filled[0].result.rows[1][0] for _, filled in runs]
    assert outcomes[1].lookup is Lookup.STALE
    assert runs[0][0].nodata_differs == runs[1][0].nodata_differs
    assert repr(without_costs(outcomes[0])) == repr(without_costs(outcomes[1]))  # NaN is not itself
    assert second.headers() == fresh.headers()


def _remembered(gather: Gather, name: str) -> dict[str, bytes]:
    """Return the entry of an unlike source, as `pixel-gather index` makes it."""

    async def packed_headers() -> bytes:
        opened = await gather.reader.open_(name, overview=None, cost=Cost())
        assert opened.packed_header is not None
        return opened.packed_header

    return {name: asyncio.run(packed_headers())}


def test_gather_reads_the_header_where_an_entry_is_rubbish() -> None:
    """Invalid entries cost no more than missing ones, and are counted."""
    gather = Gather(table=table_of(*NAMES, index=dict.fromkeys(NAMES, b"rubbish")))

    report, _ = run(gather)

    assert report.status_counts == {"ok": len(NAMES)}
    assert (report.n_known, report.n_stale, report.n_unfit) == (0, 0, len(NAMES))


def test_rubbish_is_not_handed_on() -> None:
    """This also holds if the source cannot be opened: only valid entries go into the next index."""
    missing = FakeImage(pixels=IMAGES[NAMES[6]], open_error=GONE)
    rubbish = packed_header_of(missing.header_at("another"))  # valid, but the reader does not know it
    gather = Gather(
        table=table_of(*NAMES, index=dict.fromkeys(NAMES, rubbish)), images=IMAGES | {NAMES[6]: missing}
    )

    run(gather)

    headers = gather.headers()
    assert list(headers) == list(NAMES[:6])
    assert rubbish not in headers.values()


def test_sidecars_do_not_carry_what_opens_sources_again() -> None:
    """Packed headers are in a file of their own."""
    gather = Gather()

    _, filled = run(gather)

    assert all(
        outcome.packed_header is None for each in filled for row in each.result.rows for outcome in row
    )
    kept = [key for key in gather.control.keys_put if "shards/" in key]
    assert kept[::2] == [f"headers/shards/{shard:05d}.msgpack" for shard in range(len(kept) // 2)]
    assert kept[1::2] == [key for key in kept if key.startswith("shards/")]


def test_a_source_that_could_not_be_read_this_time_stays_in_the_index() -> None:
    """Its entry in the index stays valid."""
    first, table = indexed()
    late = FakeImage(pixels=IMAGES[NAMES[0]], delay_s=9.0)
    entries = {
        packed_header: entry | {"image": late} if entry["header"].href == NAMES[0] else entry
        for packed_header, entry in first.reader.entries.items()
    }
    second = Gather(table=table)
    second.reader.entries |= entries

    async def read() -> Outcome:
        plan, tasks = await second.planned_first(table)
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
    assert outcome.packed_header == first.headers()[NAMES[0]]


def test_strips_of_one_window_are_handed_on_as_one_entry() -> None:
    """A source that several tasks read has one entry."""
    output = {"layout": {"chunk": [1, 8, 8], "shard_rows": 1}}
    gather = Gather(max_task_nbytes=8 * 16 * 2, request={"output": output})

    _, filled = run(gather)

    assert len(filled) == 3 * len(NAMES)
    assert list(gather.headers()) == list(NAMES)


def test_what_is_too_much_for_a_shard_is_read_again() -> None:
    """The memory for packed headers is limited. Headers beyond the limit are read from the sources."""
    large = b"x" * (20 << 20)
    gather = Gather(table=table_of(*NAMES, index=dict.fromkeys(NAMES, large)))

    report, _ = run(gather)

    assert report.n_unfit == 4  # one of each shard of two sources, and the last one of all
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


@in_loop
async def test_headers_come_by_ranges_of_rows_in_the_order_of_the_tasks() -> None:
    """More shards than are read at one time, each of two strips. The longest header of a source counts."""
    control, names = FakeControl(), [str(n) for n in range(50)]
    tasks = [task_of(index, row=index // 2) for index in range(100)]

    for task in tasks:
        source = Source(href=names[task.row_start])
        packed = b"long" if task.index % 4 in (1, 2) else b"x"
        outcome = Outcome(status=Status.OK, packed_header=None if task.index in (6, 7) else packed)
        rows = [CubeRow(time_us=None, sources=(source,))]
        await header_cache.put_headers(task, header_cache.take_headers(rows, [[outcome]]), control)
    parts = [part async for part in header_cache.read_gathered_headers(tasks, control)]

    assert parts == [[(name, b"long")] for name in names if name != "3"]


@pytest.mark.parametrize(("nbytes", "n_kept"), [(32 << 20, 2), ((32 << 20) + 1, 1)])
@in_loop
async def test_headers_beyond_a_shards_limit_are_not_handed_on(nbytes: int, n_kept: int) -> None:
    """Exactly the limit is."""
    control, task = FakeControl(), task_of()
    rows = [CubeRow(time_us=None, sources=(Source(href=name),)) for name in "ab"]
    packed = (b"x", bytes(nbytes - 1))
    outcomes = [[Outcome(status=Status.OK, packed_header=each)] for each in packed]

    await header_cache.put_headers(task, header_cache.take_headers(rows, outcomes), control)
    (part,) = [part async for part in header_cache.read_gathered_headers([task], control)]

    assert [href for href, _ in part] == ["a", "b"][:n_kept]


@in_loop
async def test_damaged_headers_are_as_good_as_none() -> None:
    """The sources' own headers are read then."""
    control, task = FakeControl(), replace(task_of(), headers_start=1, headers_stop=4)

    await control.put(header_cache.PACKED_HEADERS_KEY, b"\xff\xff\xff\xff")
    assert await header_cache.load_packed_headers(task, control) == ()


def test_lookups_of_strips_are_merged_by_the_worst() -> None:
    """A source with one stale strip is stale."""
    parts = [Outcome(status=Status.OK, etag='"2"', lookup=each) for each in (Lookup.USED, Lookup.STALE)]

    assert merge_outcomes(parts, y_starts=[0, 8]).lookup is Lookup.STALE
