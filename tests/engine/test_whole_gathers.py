"""Whole gathers with fakes: their result, how they resume after a crash, and what they refuse."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import replace
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import msgspec
import numpy as np
import obstore
import pytest

from pixel_gather.core.errors import ArrayExistsError, BudgetError, BusyError, SourceError, StoreError
from pixel_gather.core.model.source import Cost, CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.read.shard_buffers import ShardBuffers
from pixel_gather.core.request.request import parse_request
from pixel_gather.core.results import row_coordinates
from pixel_gather.core.results.report import Report
from pixel_gather.core.results.row_coordinates import Coordinate, Values
from pixel_gather.core.stores import RECEIPT_KEY, ROOT_KEY, FoundCube
from pixel_gather.engine import finish_gather as finish_module
from pixel_gather.engine.gather_shard import LoadedShard, gather_shard, give_up_shard, load_shard
from pixel_gather.engine.plan_gather import Planned, read_found_list
from pixel_gather.engine.row_claim import RowClaim, claim_key
from pixel_gather.engine.step_files import PLAN_KEY, encode_plan, find_committed, load_plan, load_tasks
from pixel_gather.io.cube.quicklook_file import QUICKLOOKS_KEY
from pixel_gather.io.cube.row_table import ROWS_KEY, read_table
from pixel_gather.io.cube.shard_codec import ShardEncoder, as_it_is
from pixel_gather.io.cube.staged_cube import StagedZarrCube
from pixel_gather.io.cube.zarr_cube import ZarrCube
from support.appends import GrownPlace, in_memory, paused
from support.fakes import (
    CODING,
    FakeControl,
    FakeImage,
    FakeOpened,
    FakeReader,
    FakeTable,
    stores_of,
    table_of,
)
from support.in_loop import in_loop
from support.whole_gather import IMAGES, NAMES, Gather


@cache
def whole_digest() -> str:
    """Return the digest of the undisturbed gather."""
    return Gather().run().digest


def test_gather_makes_a_cube_of_the_sources_pixels() -> None:
    """Rows have the order of the list, and the report counts them."""
    gather = Gather()

    report = gather.run()

    cube = gather.array("band_1")
    for row, name in enumerate(NAMES):
        np.testing.assert_array_equal(cube[row], IMAGES[name][0])
    assert report.status_counts == {"ok": 7}
    assert report.n_failed == 0
    assert report.is_aligned
    assert gather.array("href").tolist() == list(NAMES)
    np.testing.assert_array_equal(gather.array("max"), cube.max(axis=(1, 2)))


def test_gather_writes_in_an_order_that_leaves_nothing_half_done() -> None:
    """The order is: claim, shards, sidecars, coordinates, receipt, and last the mark of a complete cube."""
    gather = Gather()

    gather.plan()
    claimed = gather.keys_by_put()
    gather.run()

    keys = gather.keys_by_put()
    assert claimed == [ROOT_KEY, "band_1/zarr.json"]
    assert keys[:4] == [f"band_1/c/{index}/0/0" for index in range(4)]
    assert {"href/c/0", "href/zarr.json", QUICKLOOKS_KEY, RECEIPT_KEY} < set(keys[4:-1])
    assert keys[-1] == ROOT_KEY
    assert gather.is_complete()
    assert gather.control.keys_put[:3] == ["sources.msgpack", "tasks.json", "plan.msgpack"]
    assert [key.partition("-")[0] for key in gather.control.keys_put[3:]] == [
        each for index in range(4) for each in (f"headers/shards/{index:05d}.msgpack", f"shards/{index:05d}")
    ]


@pytest.mark.parametrize(("lines", "n_strips"), [(8, 3), (16, 2)])
def test_gather_in_strips_makes_the_same_cube(lines: int, n_strips: int) -> None:
    """A window that is too large for a worker is read in strips. Each strip opens the source once."""
    output = {"layout": {"chunk": [1, 8, 8], "shard_rows": 1}}
    whole, strips = Gather(), Gather(max_task_nbytes=lines * 16 * 2, request={"output": output})

    reports = whole.run(), strips.run()

    np.testing.assert_array_equal(strips.array("band_1"), whole.array("band_1"))
    for name in ("min", "max", "mean", "valid_fraction", "status"):
        np.testing.assert_array_equal(strips.array(name), whole.array(name))
    assert len(strips.control.keys_put) == 3 + 7 * n_strips * 2
    for gathered in (whole, strips):
        rows, pictures = gathered.quicklooks()
        assert rows == list(range(7))
        np.testing.assert_array_equal(pictures, whole.array("band_1"))
    assert reports[1].requests == n_strips * reports[0].requests


@pytest.mark.parametrize("shard_rows", [1, 2, 3, 7])
def test_digest_does_not_depend_on_the_rows_in_a_shard(shard_rows: int) -> None:
    """Equal pixels have equal digests, however many rows a shard has."""
    layout = {"chunk": [1, 20, 16], "shard_rows": shard_rows}

    assert Gather(request={"output": {"layout": layout}}).run().digest == whole_digest()


def test_digest_changes_with_one_pixel() -> None:
    """The digest changes with the order of the rows."""
    changed = IMAGES[NAMES[3]].copy()
    changed[0, 19, 15] += 1

    digests = {
        whole_digest(),
        Gather(images=IMAGES | {NAMES[3]: changed}).run().digest,
        Gather(table=table_of(*reversed(NAMES))).run().digest,
    }

    assert len(digests) == 3


@dataclass(frozen=True)
class Crash:
    """A file whose writing fails, and the sources that are read again afterwards."""

    fails_on: str
    rows_read_again: int


@pytest.mark.parametrize(
    "crash",
    [
        Crash("sources.msgpack", 7),
        Crash("tasks.json", 7),
        Crash("plan.msgpack", 7),
        Crash("shards/00000", 7),
        Crash("shards/00002", 3),
        Crash("shards/00003", 1),
    ],
    ids=lambda crash: crash.fails_on,
)
def test_gather_goes_on_after_a_crash(crash: Crash) -> None:
    """The second run repeats only uncommitted shards and makes the same cube."""
    gather = Gather(control=FakeControl(failing=[crash.fails_on]))
    with pytest.raises(OSError, match="switched off"):
        gather.run()
    gather.reader.windows.clear()

    report = gather.run()

    assert report.digest == whole_digest()
    assert len(gather.reader.windows) == crash.rows_read_again
    np.testing.assert_array_equal(gather.array("band_1"), np.concatenate(list(IMAGES.values())))


def test_plan_gather_keeps_the_plan_that_was_written_first() -> None:
    """A retry of the plan changes no file that workers may have read."""
    gather = Gather()
    first = gather.plan()
    gather.reader.opened.clear()

    assert gather.plan() == first
    assert gather.reader.opened == []
    assert asyncio.run(load_plan(gather.control.below(first[0].claim))) == first[0]
    assert asyncio.run(load_tasks(gather.control.below(first[0].claim))) == first[1]


def test_plan_gather_finds_nothing_to_do_where_the_cube_is_complete() -> None:
    """Nothing is read and nothing is written. A new cube is like an append of the same request."""
    gather = Gather()
    gather.run()
    keys, etags = list(gather.control.keys_put), gather.etags()
    gather.reader.opened.clear()

    assert gather.plan_if_needed() is None
    assert gather.reader.opened == []
    assert gather.control.keys_put == keys
    assert gather.etags() == etags


@pytest.mark.parametrize("is_same", [True, False])
def test_plan_gather_beside_another_leaves_what_that_has_made(is_same: bool) -> None:  # noqa: FBT001 # a case
    """The first claim wins. The other run continues with that plan or is refused."""
    first = Gather()
    made: list[Planned] = []

    class SeenAsFree(ZarrCube, frozen=True):
        """The first has claimed the place right after the look."""

        async def found(self) -> FoundCube | None:
            answer = await super().found()
            if not made:
                plan, tasks = await first.planned_first(first.table)
                await first.shard(tasks[0], plan)
                made.append((plan, tasks))
            return answer

    other = Gather(store=first.store, control=first.control, watch=lambda store: SeenAsFree(store, "place"))
    if not is_same:
        other.request = {"window": {"pixels": [0, 0, 3, 3]}}
    if is_same:
        assert other.plan() == made[0]
    else:
        with pytest.raises(ArrayExistsError):
            other.plan()

    report = first.run()
    assert report.status_counts == {"ok": 7}
    assert report.digest == whole_digest()


def test_plan_gather_continues_under_the_limits_of_the_present_request() -> None:
    """Workers and finish follow its limits, its signing and its report, and not those of the first run."""
    output = {"layout": {"chunk": [2, 8, 8], "shard_rows": 2}}
    first = {"limits": {"requests_per_s": {"s3://b": 5}, "usd": 3}, "output": output | {"report": False}}
    gather = Gather(request=first)
    plan, tasks = gather.plan()
    gather.fill_shard(tasks[0], plan)

    gather.request = {"limits": {"requests_per_s": {"s3://c": 7}}, "output": output}
    second, _ = gather.plan()
    gather.request = {"output": output}
    third = gather.plan()

    assert (plan.requests_per_s, plan.has_report) == ({"s3://b": 5}, False)
    assert (second.requests_per_s, second.has_report) == ({"s3://c": 7}, True)
    assert "usd" not in second.request["limits"]
    assert third[0].requests_per_s == {}
    assert plan.under_terms_of({"sources": {"sign": "planetary-computer"}}).sign == "planetary-computer"
    assert gather.plan_of_the_claim() == third
    assert gather.run().digest == whole_digest()


def test_plan_gather_continues_no_gather_that_costs_more_than_the_present_limit() -> None:
    """What was begun without a limit stays as it is, for a request that allows it."""
    gather = Gather()
    plan, tasks = gather.plan()
    gather.fill_shard(tasks[0], plan)
    etags = gather.etags()

    gather.request = {"limits": {"usd": plan.estimate.usd / 2}}
    with pytest.raises(BudgetError, match=r"limits\.usd: the plan takes"):
        gather.plan()

    assert gather.etags() == etags
    gather.request = {"limits": {"usd": plan.estimate.usd * 2}}
    assert gather.run().digest == whole_digest()


@pytest.mark.parametrize(
    ("limits", "is_refused"), [({}, True), ({"transfer_usd": 2}, True), ({"transfer_usd": 3}, False)]
)
def test_plan_gather_continues_no_gather_whose_transfer_is_not_allowed(
    limits: dict[str, Any], *, is_refused: bool
) -> None:
    """What the first run allowed is not allowed to others: a dollar is, if nothing is said."""
    gather = Gather()
    plan, _ = gather.plan()
    estimate = replace(plan.estimate, usd_by_service={**plan.estimate.usd_by_service, "transfer": 3.0})
    dear = encode_plan(replace(plan, estimate=estimate))
    asyncio.run(gather.control.below(plan.claim).put(PLAN_KEY, dear))

    gather.request = {"limits": limits}
    said = r"limits\.transfer_usd: \$3\.0000 would be paid for transfer"
    with pytest.raises(BudgetError, match=said) if is_refused else nullcontext():
        gather.plan()


def test_plan_gather_starts_anew_where_the_cube_is_gone() -> None:
    """Sidecars of a deleted cube do not commit shards of the next one."""
    gather = Gather()
    plan, tasks = gather.plan()
    gather.fill_shard(tasks[0], plan)
    gather.store = in_memory()

    report = gather.run()

    assert report.digest == whole_digest()
    np.testing.assert_array_equal(gather.array("band_1")[0], IMAGES[NAMES[0]][0])


def test_plan_gather_starts_anew_where_the_control_files_are_anothers() -> None:
    """The plan of another request is not used."""
    gather = Gather()
    gather.plan()
    gather.store, gather.request = in_memory(), {"window": {"pixels": [0, 0, 3, 3]}}

    plan, _ = gather.plan()

    assert plan.shape == (7, 3, 3)


def test_plan_gather_leaves_another_gathers_cube_alone() -> None:
    """Another request at the same place is refused, and nothing is written."""
    gather = Gather()
    gather.run()
    etags, keys = gather.etags(), list(gather.control.keys_put)
    other = Gather(store=gather.store, request={"window": {"pixels": [0, 0, 3, 3]}})

    with pytest.raises(ArrayExistsError):
        other.plan()

    assert gather.etags() == etags
    assert gather.control.keys_put == keys
    assert other.control.keys_put == []


def test_plan_gather_writes_nothing_where_the_plan_is_refused() -> None:
    """A gather over its limit writes nothing."""
    gather = Gather(request={"limits": {"files": 1}})

    with pytest.raises(BudgetError):
        gather.plan()

    assert gather.contents() == {}
    assert gather.control.files == {}


def test_gather_shard_is_the_same_when_it_is_run_twice() -> None:
    """A retry does not change a committed shard."""
    gather = Gather()
    plan, tasks = gather.plan()
    for task in (*tasks, tasks[1]):
        gather.fill_shard(task, plan)

    report = gather.finish(plan, tasks)

    assert report.digest == whole_digest()
    assert report.status_counts == {"ok": 7}


def test_gather_shard_of_a_late_worker_leaves_what_another_has_committed() -> None:
    """An abandoned worker, whose sources fail, does not overwrite a complete cube."""
    gather = Gather()
    report = gather.run()
    plan, tasks = gather.plan_of_the_claim()
    etags = gather.etags()
    gather.reader = FakeReader({})

    filled = gather.fill_shard(tasks[0], plan)

    assert not filled.is_new
    assert gather.etags() == etags
    assert report.status_counts == {"ok": 7}


def test_gather_shard_looks_again_before_it_writes() -> None:
    """A shard that was committed while it read its sources is not changed, either."""
    gather = Gather()
    plan, tasks = gather.plan()
    slow = Gather(images={}, store=gather.store, control=gather.control)
    reads = slow.reader.open_

    async def open_late(
        href: str, *, overview: int | None, cost: Cost, packed_header: bytes | None = None
    ) -> FakeOpened:
        await asyncio.to_thread(gather.fill_shard, tasks[0], plan)
        return await reads(href, overview=overview, cost=cost, packed_header=packed_header)

    slow.reader.open_ = open_late  # type: ignore[method-assign] # the moment at which the other is faster
    filled = slow.fill_shard(tasks[0], plan)

    assert not filled.is_new
    np.testing.assert_array_equal(gather.array("band_1")[0], IMAGES[NAMES[0]][0])


@pytest.mark.parametrize("missing", [0, 3])
def test_finish_gather_refuses_where_a_shard_is_missing(missing: int) -> None:
    """A cube with a missing shard is never marked as complete."""
    gather = Gather()
    plan, tasks = gather.plan()
    for task in tasks:
        if task.index != missing:
            gather.fill_shard(task, plan)

    with pytest.raises(
        StoreError,
        match=rf"1 of \d+ shards have not been gathered \(shard {missing}\): run the gather",
    ):
        gather.finish(plan, tasks)

    assert not gather.is_complete()


def test_finish_gather_takes_a_share_as_decimals_spell_it() -> None:
    """58 % of 50 shards are 29, despite the rounding of binary fractions."""
    names = [f"{index:02d}.tif" for index in range(50)]
    gather = Gather(
        table=table_of(*names),
        images=dict.fromkeys(names, IMAGES[NAMES[0]]),
        request={"output": {"layout": {"chunk": [1, 8, 8], "shard_rows": 1}}},
    )
    plan, tasks = gather.fill_from(29)

    assert 58.0 / 100 * 50 < 29
    assert gather.finish(plan, tasks, max_lost_share=58.0 / 100).n_lost_shards == 29


def test_load_plan_says_where_there_is_none() -> None:
    """A worker whose control files are gone stops with a clear error."""
    with pytest.raises(StoreError, match=r"plan\.msgpack is missing"):
        asyncio.run(load_plan(FakeControl()))


def test_gather_keeps_the_other_rows_when_one_source_fails() -> None:
    """Its row has the fill value, its status tells the reason, and the report names it."""
    broken = SourceError("its bytes cannot be decoded", href=NAMES[2], status=Status.CORRUPT)
    images = IMAGES | {NAMES[2]: FakeImage(pixels=IMAGES[NAMES[2]], read_error=broken)}
    gather = Gather(images=images, request={"nodata": 0})

    report = gather.run()

    cube = gather.array("band_1")
    assert (cube[2] == 0).all()
    for row in (0, 1, 3, 4, 5, 6):
        np.testing.assert_array_equal(cube[row], IMAGES[NAMES[row]][0])
    assert gather.array("status").tolist() == [0, 0, Status.CORRUPT, 0, 0, 0, 0]
    assert np.isnan(gather.array("mean")[2])
    assert gather.array("valid_fraction")[2] == 0
    assert gather.quicklooks()[0] == [0, 1, 3, 4, 5, 6]
    assert report.n_failed == 1
    (cause,) = report.causes
    assert (cause.status, cause.reason, cause.hrefs) == (
        "corrupt",
        "its bytes cannot be decoded",
        (NAMES[2],),
    )


def test_source_that_was_replaced_between_two_strips_has_no_picture() -> None:
    """Its halves were read, but they are of two files."""
    layout = {"chunk": [1, 12, 8], "shard_rows": 10}
    gather = Gather(request={"output": {"layout": layout}}, max_task_nbytes=7 * 12 * 16 * 2)
    plan, tasks = gather.plan()
    assert plan.n_strips == 2
    for task in tasks:
        gather.fill_shard(task, plan)
        gather.images[NAMES[3]] = FakeImage(pixels=IMAGES[NAMES[3]], header={"etag": '"other"'})

    report = gather.finish(plan, tasks)

    assert report.status_counts == {"ok": 6, "changed": 1}
    assert gather.quicklooks()[0] == [0, 1, 2, 4, 5, 6]


def test_gather_of_nothing_but_failures_still_finishes() -> None:
    """The cube has a status for each source."""
    gather = Gather()
    plan, tasks = gather.plan()
    gather.images.clear()
    for task in tasks:
        gather.fill_shard(task, plan)

    report = gather.finish(plan, tasks)

    assert report.status_counts == {"missing": 7}
    assert not report.is_aligned
    assert report.wall_s == 0


def test_gather_writes_nodata_of_rows_only_where_they_differ() -> None:
    """Most cubes have one nodata value, in their metadata."""
    plain = Gather(
        images={name: FakeImage(pixels=image, header={"nodata": 5}) for name, image in IMAGES.items()}
    )
    odd = Gather(images=plain.images | {NAMES[1]: IMAGES[NAMES[1]]})

    plain.run()
    report = odd.run()

    assert "nodata" not in plain.arrays()
    np.testing.assert_equal(odd.array("nodata").tolist(), [5, np.nan, 5, 5, 5, 5, 5])
    assert any("different nodata" in warning for warning in report.warnings)


def test_gather_of_scenes_has_a_measurement_for_each_band() -> None:
    """Bands of one scene share a row. A missing band has the fill value and the status absent."""
    rows = tuple(
        CubeRow(
            time_us=1000 + row,
            sources=(
                Source(href=NAMES[2 * row], band="red", time_us=1000 + row),
                None if row == 1 else Source(href=NAMES[2 * row + 1], band="nir", time_us=1000 + row),
            ),
        )
        for row in range(3)
    )
    gather = Gather(table=FakeTable(rows, bands=("red", "nir"), has_time=True))

    report = gather.run()

    np.testing.assert_array_equal(gather.array("red")[2], IMAGES[NAMES[4]][0])
    np.testing.assert_array_equal(gather.array("nir")[0], IMAGES[NAMES[1]][0])
    assert (gather.array("nir")[1] == 0).all()
    assert gather.open()["href"].dims == ("time", "measurement")
    assert gather.array("status").tolist() == [[0, 0], [0, 1], [0, 0]]
    assert gather.array("time").tolist() == [1000, 1001, 1002]
    assert report.status_counts == {"ok": 5, "absent": 1}
    assert report.n_failed == 0


@pytest.mark.parametrize("rows_at_once", [1, 2, 3, 4])
def test_finish_gather_writes_rows_in_batches(rows_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No row is left out if batches are not a whole number of shards, nor a chunk one of batches."""
    monkeypatch.setattr(row_coordinates, "CHUNK_ROWS", 3)
    monkeypatch.setattr(finish_module, "_ROWS_AT_ONCE", rows_at_once)
    gather = Gather()

    gather.run()

    assert gather.array("href").tolist() == list(NAMES)
    assert (gather.array("status") == 0).all()


def test_finish_gather_writes_each_chunk_once_in_the_second_pass_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk written shard by shard would be read and written again for each shard."""
    monkeypatch.setattr(row_coordinates, "CHUNK_ROWS", 3)
    monkeypatch.setattr(finish_module, "_ROWS_AT_ONCE", 2)
    runs: list[tuple[int, int, str]] = []

    class NotingRows(StagedZarrCube, frozen=True):
        """Notes each run of rows, [start, stop), and its first coordinate."""

        async def write_rows(
            self, plan: CubePlan, coordinates: Sequence[Coordinate], start: int, values: Mapping[str, Values]
        ) -> None:
            name = coordinates[0].name
            runs.append((start, start + len(values[name]), name))
            await super().write_rows(plan, coordinates, start, values)

    class Cube(ZarrCube, frozen=True):
        @contextmanager
        def stage(self) -> Iterator[StagedZarrCube]:
            with super().stage() as staged:
                assert isinstance(staged, StagedZarrCube)
                yield NotingRows(staged.store, self.place, shards_in=self.store)

    images: dict[str, Any] = {
        name: FakeImage(pixels=image, header={"nodata": row})
        for row, (name, image) in enumerate(IMAGES.items())
    }

    gather = Gather(images=images, watch=lambda store: Cube(store, "place"))

    gather.run()

    assert [run[:2] for run in runs] == [(0, 3), (3, 6), (6, 7)] * 2
    assert [run[2] for run in runs[3:]] == ["nodata"] * 3
    assert gather.array("nodata").tolist() == list(range(7))


@dataclass
class _MeetingControl(FakeControl):
    """Answers only when two files are requested at one time."""

    asked: asyncio.Barrier = field(default_factory=lambda: asyncio.Barrier(2))

    async def get(self, key: str) -> bytes | None:
        """Return a file."""
        async with asyncio.timeout(5):
            await self.asked.wait()
        return await super().get(key)

    async def get_range(self, key: str, start: int, stop: int) -> bytes:
        """Return a part of a file."""
        async with asyncio.timeout(5):
            await self.asked.wait()
        return await super().get_range(key, start, stop)


def load(gather: Gather, task: ShardTask, plan: CubePlan, control: Any) -> LoadedShard:
    """Load the control files of a task."""

    async def planned() -> CubePlan:
        return plan

    return asyncio.run(load_shard(task, plan=planned, stores=stores_of(gather.cube, control)))


def test_load_shard_asks_for_sidecar_and_list_at_one_time() -> None:
    """The requests run at one time, so a worker waits only once."""
    gather = Gather()
    plan, tasks = gather.plan()
    control = gather.control.below(plan.claim)
    obstore.put(gather.store, tasks[1].object_keys(plan)[0], b"stored, not committed")

    meeting = _MeetingControl(files=control.files, folder=control.folder)
    loaded = load(gather, tasks[1], plan, meeting)

    assert loaded.committed is None
    assert [source.href for row in loaded.rows for source in row.sources if source] == list(NAMES[2:4])


def test_load_shard_of_a_committed_task_needs_no_list() -> None:
    """A committed shard is not read again, even if the list is missing."""
    gather = Gather()
    gather.run()
    plan, tasks = gather.plan_of_the_claim()
    control = gather.control.below(plan.claim)
    del control.files[f"{control.folder}sources.msgpack"]

    loaded = load(gather, tasks[0], plan, control)

    assert loaded.committed is not None
    assert loaded.committed.index == 0
    assert loaded.rows == ()


def test_gather_shard_tells_of_each_source_as_it_is_done() -> None:
    """There is one call per source, also for absent ones."""
    gather = Gather()
    plan, tasks = gather.plan()
    seen: list[tuple[int, int]] = []

    filled = asyncio.run(
        gather_shard(
            tasks[0],
            plan=plan,
            context=gather.context_of(plan),
            buffers=ShardBuffers(plan),
            on_source=lambda row, slot, _: seen.append((row, slot)),
        )
    )

    assert sorted(seen) == [(0, 0), (1, 0)]
    assert filled.is_new
    assert filled.result.stored_nbytes == len(gather.contents()["band_1/c/0/0/0"])
    assert filled.result.peak_rss_mib > 10
    assert asyncio.run(find_committed(plan, tasks, stores=gather.context_of(plan))).keys() == {0}


def test_report_is_kept_in_the_cube_and_read_back() -> None:
    """The stored report of an earlier run can be read."""
    gather = Gather()
    report = gather.run()

    found = gather.found()

    assert found is not None
    assert found.report is not None
    again = msgspec.convert(msgspec.json.decode(msgspec.json.encode(found.report)), Report)
    assert again == report
    assert replace(again, digest="") != report


def test_finish_gather_leaves_a_cube_alone_that_was_planned_anew() -> None:
    """All shards of the removed cube are there, but the new cube has none yet."""
    gather = Gather()
    plan, tasks = gather.fill_from(0)
    gather.plan_anew()
    etags = gather.etags()

    with pytest.raises(ArrayExistsError, match="planned anew since: submit its request again"):
        gather.finish(plan, tasks)

    assert gather.etags() == etags


@pytest.mark.parametrize("key", ["href/c/0", ROOT_KEY])
def test_finish_gather_leaves_a_cube_alone_that_is_planned_anew_while_it_works(key: str) -> None:
    """The last PUT replaces only the metadata that the finish saw when it began."""
    gather = Gather()
    plan, tasks = gather.fill_from(0)

    async def meanwhile() -> None:
        gather.plan_anew()

    paused(gather, meanwhile, ("put", key))

    with pytest.raises(ArrayExistsError, match="planned anew since"):
        gather.finish(plan, tasks)

    assert not gather.is_complete()


def test_finish_gather_refuses_where_the_cube_was_removed() -> None:
    """Shards without their arrays are not a cube."""
    gather = Gather()
    plan, tasks = gather.fill_from(0)
    obstore.delete(gather.store, ROOT_KEY)

    with pytest.raises(ArrayExistsError, match="has been removed since it was planned"):
        gather.finish(plan, tasks)


def test_finish_gather_of_a_complete_cube_returns_its_report() -> None:
    """A second try writes nothing."""
    gather = Gather()
    report = gather.run()
    plan, tasks = gather.plan_of_the_claim()
    etags = gather.etags()

    assert gather.finish(plan, tasks) == report
    assert gather.etags() == etags


def test_gather_shard_writes_nothing_into_a_cube_that_was_planned_anew_while_it_read() -> None:
    """A worker of a cancelled gather runs on for a while. Its pixels do not belong to the new cube."""
    gather = Gather()
    plan, tasks = gather.plan()
    opens = gather.reader.open_

    async def open_late(
        href: str, *, overview: int | None, cost: Cost, packed_header: bytes | None = None
    ) -> FakeOpened:
        gather.plan_anew()
        return await opens(href, overview=overview, cost=cost, packed_header=packed_header)

    gather.reader.open_ = open_late  # type: ignore[method-assign] # the moment of it

    with pytest.raises(ArrayExistsError, match="planned anew since"):
        gather.fill_shard(tasks[0], plan)

    assert gather.etags().keys() == {ROOT_KEY, "band_1/zarr.json"}


def test_gather_shard_tells_measuring_from_writing() -> None:
    """The times to measure and to store are separate, and both count as the worker's time."""
    gather = Gather()
    plan, tasks = gather.plan()
    paused(gather, partial(asyncio.sleep, 0.2), ("put", tasks[0].object_keys(plan)[0]))
    result = gather.fill_shard(tasks[0], plan).result

    assert result.write_s >= 0.2
    assert 0 < result.measure_s < 0.2
    assert result.worker_s == result.read_s + result.measure_s + result.write_s


def test_gather_opens_no_source_whose_header_the_index_has() -> None:
    """The workers get the packed headers. The index of the cube has those of all sources."""
    gather = Gather()

    async def packed(name: str) -> bytes | None:
        return (await gather.reader.open_(name, overview=None, cost=Cost())).packed_header

    known = {name: asyncio.run(packed(name)) or b"" for name in NAMES[:3]}
    gather.table = table_of(*NAMES, index=known)
    plan, tasks = gather.plan()
    gather.reader.opened.clear()
    for task in tasks:
        gather.fill_shard(task, plan)

    report = gather.finish(plan, tasks)

    assert sorted(gather.reader.opened) == list(NAMES[3:])
    assert [each.headers_stop > each.headers_start for each in tasks] == [True, True, False, False]
    assert gather.headers().keys() == set(NAMES)
    assert report.digest == whole_digest()


SEARCHED: dict[str, Any] = {"sources": {"catalog": {"file": "s3://c/x.parquet", "assets": ["red"]}}}


def found_list(gather: Gather, **changes: Any) -> bytes | None:
    """Return the list that a gather which goes on reads in place of a search."""
    request = parse_request(gather.given(gather.request | changes))
    return asyncio.run(read_found_list(request, gather.context()))


def test_gather_that_goes_on_reads_the_list_that_it_has_found() -> None:
    """It does not search again. Another request does, and so does one that is complete."""
    gather = Gather(table=table_of(*NAMES, found=b"the scenes"), request=SEARCHED)
    assert found_list(gather) is None
    unasked: Any = None
    assert found_list(Gather(watch=lambda _: unasked), sources="list") is None
    plan, tasks = gather.plan()

    assert found_list(gather) == b"the scenes"
    assert found_list(gather, window={"pixels": [0, 0, 3, 3]}) is None
    assert found_list(gather, sources="list") is None
    for task in tasks:
        gather.fill_shard(task, plan)
    gather.finish(plan, tasks)
    assert gather.contents()["sources.parquet"] == b"the scenes"
    obstore.put(gather.store, claim_key(2), RowClaim.of(plan).to_bytes())  # nobody looks there
    assert found_list(gather) is None


def test_cube_of_a_list_keeps_no_found_list() -> None:
    """A cube of a search whose list has expired keeps none, either."""
    of_list = Gather(table=table_of(*NAMES, found=b"not of a search"))
    of_list.run()
    expired = Gather(table=table_of(*NAMES), request=SEARCHED)
    expired.run()

    assert "sources.parquet" not in of_list.contents()
    assert "sources.parquet" not in expired.contents()


def test_plan_gather_describes_the_crs_and_the_place_unless_the_caller_does() -> None:
    """Workers need no grids of the sample. A raster without a CRS has no place."""
    gather = Gather()
    plan, _ = gather.plan()
    unplaced, _ = Gather(
        images={name: FakeImage(pixels=image, header={"crs": None}) for name, image in IMAGES.items()}
    ).plan()

    assert plan.crs is not None
    assert plan.crs.code == "EPSG:32631"
    assert plan.footprints is not None
    assert plan.sampled_grids == ()
    assert (unplaced.crs, unplaced.footprints, unplaced.sampled_grids) == (None, None, ())


def test_gather_compresses_whole_chunks_of_rows() -> None:
    """At least sixteen rows together, as each hand-over to threads costs."""
    names = [f"{index:02d}.tif" for index in range(40)]
    gather = Gather(
        table=table_of(*names),
        images=dict.fromkeys(names, IMAGES[NAMES[0]]),
        request={"output": {"layout": {"chunk": [3, 20, 16], "shard_rows": 40}}},
    )
    plan, (task,) = gather.plan()
    spans: list[tuple[int, int]] = []

    class Noting(ShardEncoder):
        """Notes the rows."""

        async def encode_rows(self, start: int, stop: int) -> None:
            """Note them."""
            spans.append((start, stop))
            await super().encode_rows(start, stop)

    class Cube(ZarrCube, frozen=True):
        def encoder(self, *given: Any, **others: Any) -> ShardEncoder:
            plan, _, bands = given
            layout = plan.layout
            assert others["n_before"] == 0
            return Noting(bands, shard=layout.shard, chunk=layout.chunk, fill_value=0, encode=as_it_is)

    gather.watch = lambda store: Cube(store, "place")
    gather.fill_shard(task, plan)

    assert sorted(spans) == [(0, 18), (18, 36), (36, 40)]


def test_sidecar_tells_how_long_its_worker_took_and_where() -> None:
    """It also has the size of all objects."""
    gather = Gather(images={name: np.concatenate([image, image]) for name, image in IMAGES.items()})
    plan, tasks = gather.plan()

    result = gather.fill_shard(tasks[1], plan).result

    assert result.index == 1
    assert min(result.read_s, result.measure_s, result.write_s) > 0
    assert result.worker_s < 60
    stored = gather.contents()
    assert result.stored_nbytes == sum(len(stored[key]) for key in tasks[1].object_keys(plan))
    assert result.machine
    assert [sorted(each) for each in result.pictures] == [[2, 3], [2, 3]]


def test_finish_gather_writes_scales_and_overhangs_of_rows_only_where_they_differ() -> None:
    """It decides that for each of the two by itself."""
    scaled = Gather(images=IMAGES | {NAMES[1]: FakeImage(pixels=IMAGES[NAMES[1]], header={"scales": (2.0,)})})
    short = Gather(images=IMAGES | {NAMES[2]: IMAGES[NAMES[2]][:, :12]})

    scaled.run()
    short.run()

    assert scaled.array("scale_factor").tolist() == [1, 2, 1, 1, 1, 1, 1]
    assert "inside_y_stop" not in scaled.arrays()
    assert short.array("inside_y_stop").tolist() == [20, 20, 12, 20, 20, 20, 20]
    assert "scale_factor" not in short.arrays()
    assert "nodata" not in short.arrays()


def test_finish_gather_has_no_evidence_of_lost_shards() -> None:
    """If the request allows that many: neither pictures nor digests, though all else is there."""
    gather = Gather()
    plan, tasks = gather.fill_from(1)

    report = gather.finish(plan, tasks, max_lost_share=1 / len(tasks))

    assert report.status_counts == {"lost": 2, "ok": 5}
    assert (report.n_shards, report.n_lost_shards, report.n_failed) == (len(tasks), 1, 2)
    assert "1 of" in report.warnings[-1]
    assert report.causes[0].reason == "shard 0 was lost to a worker that failed"
    assert gather.is_complete()
    assert gather.quicklooks()[0] == [2, 3, 4, 5, 6]
    contents = gather.contents()
    assert RECEIPT_KEY in contents
    assert gather.headers().keys() == set(NAMES[2:])
    assert gather.array("status").tolist() == [Status.LOST] * 2 + [0] * 5
    _, table = read_table(contents[ROWS_KEY], ("failure",), place="place")
    assert table["failure"].tolist()[:3] == ["shard 0 was lost to a worker that failed"] * 2 + [""]


def test_finish_gather_allows_just_as_many_lost_shards_as_it_is_told() -> None:
    """One more is too many."""
    gather = Gather()
    plan, tasks = gather.fill_from(2)

    with pytest.raises(StoreError, match="2 of 4 shards have not been gathered \\(shard 0, "):
        gather.finish(plan, tasks, max_lost_share=0.49)
    assert gather.finish(plan, tasks, max_lost_share=0.5).n_lost_shards == 2


def test_shards_that_were_given_up_are_not_told_to_be_gathered_again() -> None:
    """A finish has died after it had given them up, and the same request allows fewer now."""
    gather = Gather()
    plan, tasks = gather.fill_from(1)
    asyncio.run(give_up_shard(tasks[0], plan=plan, stores=gather.context_of(plan)))

    with pytest.raises(
        StoreError, match=r"\(shard 0\): an earlier finish has given them up\. Allow that many"
    ):
        gather.finish(plan, tasks)
    assert gather.finish(plan, tasks, max_lost_share=0.25).n_lost_shards == 1


def test_finish_gather_is_to_run_again_where_a_late_worker_replaced_what_it_gave_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The shard in its place is of no commit, so its rows would be told as lost but hold pixels."""
    gather = Gather()
    plan, tasks = gather.fill_from(1)
    (key,) = tasks[0].object_keys(plan)

    async def beaten(task: ShardTask, **named: Any) -> None:
        await give_up_shard(task, **named)
        obstore.put(gather.store, key, b"late")

    with monkeypatch.context() as patch:
        patch.setattr(finish_module, "give_up_shard", beaten)
        with pytest.raises(BusyError, match="run again"):
            gather.finish(plan, tasks, max_lost_share=0.25)
    assert not gather.is_complete()

    assert gather.finish(plan, tasks, max_lost_share=0.25).n_lost_shards == 1


@in_loop
async def test_lost_shard_of_stored_tiles_has_none() -> None:
    """A cube whose chunks are the sources' tiles has no pixels to fill it with."""
    header = {"coding": CODING}
    stored = {name: FakeImage(pixels=each[:, :16], header=header) for name, each in IMAGES.items()}
    request = {"window": {"pixels": [0, 0, 16, 16]}, "nodata": 7, "output": {"codec": "source"}}
    grown = GrownPlace(images=stored, request=request)

    planned = await grown.planned_first(table_of(*NAMES))
    await grown.finished(*planned, max_lost_share=1)

    pixels, statuses = grown.values("band_1", "status")
    np.testing.assert_array_equal(pixels, np.full((7, 16, 16), 7))
    assert statuses.ravel().tolist() == [Status.LOST] * 7


def test_gather_of_windows_that_are_no_picture_has_no_quicklooks() -> None:
    """Nothing is written for them."""
    gather = Gather(request={"window": {"pixels": [0, 0, 5, 5]}})

    gather.run()

    assert QUICKLOOKS_KEY not in gather.contents()
