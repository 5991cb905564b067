"""Whole gathers with fakes: their result, how they resume after a crash, and what they refuse."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from copy import replace
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pytest

from pixel_gather.core.errors import ArrayExistsError, BudgetError, BusyError, SourceError, StoreError
from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.model.source import Cost, CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.read.read_shard import ShardBuffers
from pixel_gather.core.request.request import parse_request
from pixel_gather.core.results import row_coordinates
from pixel_gather.core.results.receipt import Receipt
from pixel_gather.core.results.report import Report
from pixel_gather.core.results.row_coordinates import Coordinate, Values
from pixel_gather.core.stores import FoundCube, StoredShard
from pixel_gather.engine import finish_gather as finish_module
from pixel_gather.engine.finish_gather import finish_gather
from pixel_gather.engine.gather_shard import FilledShard, LoadedShard, gather_shard, give_up_shard, load_shard
from pixel_gather.engine.plan_gather import Planned, plan_gather, read_found_list
from pixel_gather.engine.step_files import find_committed, load_plan, load_tasks
from support.appends import GrownPlace
from support.fakes import (
    CODING,
    FakeControl,
    FakeCube,
    FakeEncoder,
    FakeImage,
    FakeOpened,
    FakeReader,
    FakeTable,
    access_to,
    context_of,
    stores_of,
    table_of,
)

NAMES = tuple(f"s3://b/{n}.tif" for n in range(7))
RNG = np.random.default_rng(7)
IMAGES = {name: RNG.integers(1, 999, (1, 20, 16), "uint16") for name in NAMES}


@dataclass
class Gather:
    """A gather with fakes. Its control files and its cube survive a crash."""

    images: dict[str, Any] = field(default_factory=lambda: dict(IMAGES))
    table: FakeTable = field(default_factory=lambda: table_of(*NAMES))
    request: dict[str, Any] = field(default_factory=dict)
    cube: FakeCube = field(default_factory=FakeCube)
    control: FakeControl = field(default_factory=FakeControl)
    max_task_nbytes: int = 2**20

    def __post_init__(self) -> None:
        """Start without opened sources."""
        self.reader = FakeReader(self.images)

    def plan(self) -> Planned:
        """Plan the gather. The default is shards of two rows and strips of eight lines."""
        planned = self.plan_if_needed()
        assert planned is not None, "the cube is complete"
        return planned

    def plan_if_needed(self) -> Planned | None:
        """Plan the gather; None if there is nothing to gather."""
        output = {"layout": {"chunk": [2, 8, 8], "shard_rows": 2}}
        request = {"sources": "list", "window": {"pixels": [0, 0, 16, 20]}, "output": output} | self.request
        return asyncio.run(
            plan_gather(
                parse_request(request),
                table=self.table,
                context=context_of(self.cube, self.control, access_to(self.reader)),
                workers=WorkerPool(max_task_nbytes=self.max_task_nbytes),
            )
        )

    def plan_of_the_claim(self) -> tuple[CubePlan, tuple[ShardTask, ...]]:
        """Return the plan as a worker finds it."""
        assert self.cube.claimed is not None
        control = self.control.below(self.cube.claimed.claim)
        return asyncio.run(load_plan(control)), asyncio.run(load_tasks(control))

    def shard(self, task: ShardTask, plan: CubePlan) -> FilledShard:
        """Gather one shard."""
        return asyncio.run(
            gather_shard(
                task,
                plan=plan,
                context=context_of(self.cube, self.control.below(plan.claim), access_to(self.reader)),
                buffers=ShardBuffers(plan),
            )
        )

    def filled(self, first: int = 0) -> Planned:
        """Plan the gather, and gather its shards from one of them on."""
        plan, tasks = self.plan()
        for task in tasks[first:]:
            self.shard(task, plan)
        return plan, tasks

    def finish(self, plan: CubePlan, tasks: tuple[ShardTask, ...], *, max_lost_share: float = 0.0) -> Report:
        """Finish."""
        return asyncio.run(
            finish_gather(
                plan=plan,
                tasks=tasks,
                stores=stores_of(self.cube, self.control.below(plan.claim)),
                max_lost_share=max_lost_share,
            )
        )

    def committed(self, plan: CubePlan, tasks: tuple[ShardTask, ...]) -> dict[int, str]:
        """Return the keys of the committed tasks' sidecars."""
        control = self.control.below(plan.claim)
        return asyncio.run(find_committed(plan, tasks, stores=stores_of(self.cube, control)))

    def load(self, task: ShardTask, plan: CubePlan, control: FakeControl | None = None) -> LoadedShard:
        """Load the control files of a task."""

        async def planned() -> CubePlan:
            return plan

        async def work() -> LoadedShard:
            own = control or self.control.below(plan.claim)
            return await load_shard(task, plan=planned, stores=stores_of(self.cube, own))

        return asyncio.run(work())

    def run(self) -> Report:
        """Do all steps that are not done yet."""
        plan, tasks = self.plan()
        done = self.committed(plan, tasks)
        for task in tasks:
            if task.index not in done:
                self.shard(task, plan)
        return self.finish(plan, tasks)


def test_gather_makes_a_cube_of_the_sources_pixels() -> None:
    """Rows have the order of the list, and the report counts them."""
    gather = Gather()

    report = gather.run()

    cube = gather.cube.pixels["band_1"]
    for row, name in enumerate(NAMES):
        np.testing.assert_array_equal(cube[row], IMAGES[name][0])
    assert report.status_counts == {"ok": 7}
    assert report.n_failed == 0
    assert report.is_aligned
    assert gather.cube.coordinates["href"].tolist() == list(NAMES)
    np.testing.assert_array_equal(gather.cube.coordinates["max"], cube.max(axis=(1, 2)))


def test_gather_writes_in_an_order_that_leaves_nothing_half_done() -> None:
    """The order is: claim, shards, sidecars, coordinates, receipt, and last the mark of a complete cube."""
    gather = Gather()

    gather.run()

    assert gather.cube.calls[0] == "create"
    assert [call.partition(" ")[0] for call in gather.cube.calls[1:-4]] == ["shard"] * 4
    assert gather.cube.calls[-4:] == ["coordinates", "quicklooks", "receipt", "complete"]
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

    np.testing.assert_array_equal(strips.cube.pixels["band_1"], whole.cube.pixels["band_1"])
    for name in ("min", "max", "mean", "valid_fraction", "status"):
        np.testing.assert_array_equal(strips.cube.coordinates[name], whole.cube.coordinates[name])
    assert len(strips.control.keys_put) == 3 + 7 * n_strips * 2
    for gathered in (whole, strips):
        (quicklooks,) = gathered.cube.quicklooks
        assert quicklooks.rows.tolist() == list(range(7))
        assert quicklooks.pictures == tuple(map(bytes, whole.cube.pixels["band_1"]))
    assert reports[1].requests == n_strips * reports[0].requests


@pytest.mark.parametrize("shard_rows", [1, 2, 3, 7])
def test_digest_does_not_depend_on_the_rows_in_a_shard(shard_rows: int) -> None:
    """Equal pixels have equal digests, however many rows a shard has."""
    layout = {"chunk": [1, 20, 16], "shard_rows": shard_rows}

    assert Gather(request={"output": {"layout": layout}}).run().digest == Gather().run().digest


def test_digest_changes_with_one_pixel() -> None:
    """The digest changes with the order of the rows."""
    changed = IMAGES[NAMES[3]].copy()
    changed[0, 19, 15] += 1

    digests = {
        Gather().run().digest,
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

    undisturbed = Gather()
    assert report.digest == undisturbed.run().digest
    assert len(gather.reader.windows) == crash.rows_read_again
    np.testing.assert_array_equal(gather.cube.pixels["band_1"], undisturbed.cube.pixels["band_1"])


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
    keys, calls = list(gather.control.keys_put), list(gather.cube.calls)
    gather.reader.opened.clear()

    assert gather.plan_if_needed() is None
    assert gather.reader.opened == []
    assert gather.control.keys_put == keys
    assert gather.cube.calls == calls


@pytest.mark.parametrize("is_same", [True, False])
def test_plan_gather_beside_another_leaves_what_that_has_made(is_same: bool) -> None:  # noqa: FBT001 # a case
    """The first claim wins. The other run continues with that plan or is refused."""
    first = Gather()
    other = Gather(cube=first.cube, control=first.control)
    if not is_same:
        other.request = {"window": {"pixels": [0, 0, 3, 3]}}
    seen_as_free = first.cube.found
    made: list[tuple[CubePlan, tuple[ShardTask, ...]]] = []

    async def found_before_the_first_has_claimed() -> FoundCube | None:
        answer = await seen_as_free()
        plan, tasks = await asyncio.to_thread(first.plan)
        await asyncio.to_thread(first.shard, tasks[0], plan)
        made.append((plan, tasks))
        return answer

    other.cube = replace(first.cube)
    other.cube.found = found_before_the_first_has_claimed  # type: ignore[method-assign] # the moment between
    other.cube.create = first.cube.create  # type: ignore[method-assign] # both at one place
    if is_same:
        assert other.plan() == made[0]
    else:
        with pytest.raises(ArrayExistsError):
            other.plan()

    report = first.run()
    assert report.status_counts == {"ok": 7}
    assert report.digest == Gather().run().digest


def test_plan_gather_starts_anew_where_the_cube_is_gone() -> None:
    """Sidecars of a deleted cube do not commit shards of the next one."""
    gather = Gather()
    plan, tasks = gather.plan()
    gather.shard(tasks[0], plan)
    gather.cube = FakeCube()

    report = gather.run()

    assert report.digest == Gather().run().digest
    np.testing.assert_array_equal(gather.cube.pixels["band_1"][0], IMAGES[NAMES[0]][0])


def test_plan_gather_starts_anew_where_the_control_files_are_anothers() -> None:
    """The plan of another request is not used."""
    gather = Gather()
    gather.plan()
    gather.cube, gather.request = FakeCube(), {"window": {"pixels": [0, 0, 3, 3]}}

    plan, _ = gather.plan()

    assert plan.shape == (7, 3, 3)


def test_plan_gather_leaves_another_gathers_cube_alone() -> None:
    """Another request at the same place is refused, and nothing is written."""
    gather = Gather()
    gather.run()
    calls, keys = list(gather.cube.calls), list(gather.control.keys_put)
    other = Gather(cube=gather.cube, request={"window": {"pixels": [0, 0, 3, 3]}})

    with pytest.raises(ArrayExistsError):
        other.plan()

    assert gather.cube.calls == calls
    assert gather.control.keys_put == keys
    assert other.control.keys_put == []


def test_plan_gather_writes_nothing_where_the_plan_is_refused() -> None:
    """A gather over its limit writes nothing."""
    gather = Gather(request={"limits": {"files": 1}})

    with pytest.raises(BudgetError):
        gather.plan()

    assert gather.cube.calls == []
    assert gather.control.files == {}


def test_gather_shard_is_the_same_when_it_is_run_twice() -> None:
    """A retry does not change a committed shard."""
    gather = Gather()
    plan, tasks = gather.plan()
    for task in (*tasks, tasks[1]):
        gather.shard(task, plan)

    report = gather.finish(plan, tasks)

    assert report.digest == Gather().run().digest
    assert report.status_counts == {"ok": 7}


def test_gather_shard_of_a_late_worker_leaves_what_another_has_committed() -> None:
    """An abandoned worker, whose sources fail, does not overwrite a complete cube."""
    gather = Gather()
    report = gather.run()
    plan, tasks = gather.plan_of_the_claim()
    before = gather.cube.pixels["band_1"].copy()
    gather.reader = FakeReader({})

    filled = gather.shard(tasks[0], plan)

    assert not filled.is_new
    np.testing.assert_array_equal(gather.cube.pixels["band_1"], before)
    assert report.status_counts == {"ok": 7}


def test_gather_shard_looks_again_before_it_writes() -> None:
    """A shard that was committed while it read its sources is not changed, either."""
    gather = Gather()
    plan, tasks = gather.plan()
    slow = Gather(images={}, cube=gather.cube, control=gather.control)
    reads = slow.reader.open_

    async def open_late(
        href: str, *, overview: int | None, cost: Cost, packed_header: bytes | None = None
    ) -> FakeOpened:
        await asyncio.to_thread(gather.shard, tasks[0], plan)
        return await reads(href, overview=overview, cost=cost, packed_header=packed_header)

    slow.reader.open_ = open_late  # type: ignore[method-assign] # the moment at which the other is faster
    filled = slow.shard(tasks[0], plan)

    assert not filled.is_new
    np.testing.assert_array_equal(gather.cube.pixels["band_1"][0], IMAGES[NAMES[0]][0])


@pytest.mark.parametrize("missing", [0, 3])
def test_finish_gather_refuses_where_a_shard_is_missing(missing: int) -> None:
    """A cube with a missing shard is never marked as complete."""
    gather = Gather()
    plan, tasks = gather.plan()
    for task in tasks:
        if task.index != missing:
            gather.shard(task, plan)

    with pytest.raises(
        StoreError,
        match=rf"1 of \d+ shards have not been gathered \(shard {missing}\): run the gather",
    ):
        gather.finish(plan, tasks)

    assert "complete" not in gather.cube.calls


def test_finish_gather_marks_the_rows_of_lost_shards() -> None:
    """If the request allows that many, the cube is complete and their sources have the status lost."""
    gather = Gather()
    plan, tasks = gather.filled(1)

    report = gather.finish(plan, tasks, max_lost_share=1 / len(tasks))

    n_lost = tasks[0].n_rows
    assert report.status_counts == {"lost": n_lost, "ok": 7 - n_lost}
    assert (report.n_shards, report.n_lost_shards, report.n_failed) == (len(tasks), 1, n_lost)
    assert "1 of" in report.warnings[-1]
    assert report.causes[0].reason == "shard 0 was lost to a worker that failed"
    assert gather.cube.calls[-1] == "complete"


def test_finish_gather_takes_a_share_as_decimals_spell_it() -> None:
    """58 % of 50 shards are 29, despite the rounding of binary fractions."""
    names = [f"{index:02d}.tif" for index in range(50)]
    gather = Gather(
        table=table_of(*names),
        images=dict.fromkeys(names, IMAGES[NAMES[0]]),
        request={"output": {"layout": {"chunk": [1, 8, 8], "shard_rows": 1}}},
    )
    plan, tasks = gather.filled(29)

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

    cube = gather.cube.pixels["band_1"]
    assert (cube[2] == 0).all()
    for row in (0, 1, 3, 4, 5, 6):
        np.testing.assert_array_equal(cube[row], IMAGES[NAMES[row]][0])
    assert gather.cube.coordinates["status"].tolist() == [0, 0, Status.CORRUPT, 0, 0, 0, 0]
    assert np.isnan(gather.cube.coordinates["mean"][2])
    assert gather.cube.coordinates["valid_fraction"][2] == 0
    (quicklooks,) = gather.cube.quicklooks
    assert quicklooks.rows.tolist() == [0, 1, 3, 4, 5, 6]
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
        gather.shard(task, plan)
        gather.images[NAMES[3]] = FakeImage(pixels=IMAGES[NAMES[3]], header={"etag": '"other"'})

    report = gather.finish(plan, tasks)

    assert report.status_counts == {"ok": 6, "changed": 1}
    (quicklooks,) = gather.cube.quicklooks
    assert quicklooks.rows.tolist() == [0, 1, 2, 4, 5, 6]


def test_gather_of_nothing_but_failures_still_finishes() -> None:
    """The cube has a status for each source."""
    gather = Gather()
    plan, tasks = gather.plan()
    gather.images.clear()
    for task in tasks:
        gather.shard(task, plan)

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

    assert "nodata" not in plain.cube.coordinates
    np.testing.assert_equal(odd.cube.coordinates["nodata"].tolist(), [5, np.nan, 5, 5, 5, 5, 5])
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

    np.testing.assert_array_equal(gather.cube.pixels["red"][2], IMAGES[NAMES[4]][0])
    np.testing.assert_array_equal(gather.cube.pixels["nir"][0], IMAGES[NAMES[1]][0])
    assert (gather.cube.pixels["nir"][1] == 0).all()
    assert gather.cube.described["href"].dims == ("time", "measurement")
    assert gather.cube.coordinates["status"].tolist() == [[0, 0], [0, 1], [0, 0]]
    assert gather.cube.coordinates["time"].tolist() == [1000, 1001, 1002]
    assert report.status_counts == {"ok": 5, "absent": 1}
    assert report.n_failed == 0


@pytest.mark.parametrize("rows_at_once", [1, 2, 3, 4])
def test_finish_gather_writes_rows_in_batches(rows_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No row is left out if batches are not a whole number of shards, nor a chunk one of batches."""
    monkeypatch.setattr(row_coordinates, "CHUNK_ROWS", 3)
    monkeypatch.setattr(finish_module, "_ROWS_AT_ONCE", rows_at_once)
    gather = Gather()

    gather.run()

    assert gather.cube.coordinates["href"].tolist() == list(NAMES)
    assert (gather.cube.coordinates["status"] == 0).all()


@dataclass
class _RunsOfRows(FakeCube):
    """A cube that records each run of rows, [start, stop), and its first coordinate."""

    runs: list[tuple[int, int, str]] = field(default_factory=list)

    async def write_rows(
        self, plan: CubePlan, coordinates: Sequence[Coordinate], start: int, values: Mapping[str, Values]
    ) -> None:
        """Store the rows."""
        name = coordinates[0].name
        self.runs.append((start, start + len(values[name]), name))
        await super().write_rows(plan, coordinates, start, values)

    @contextmanager
    def stage(self) -> Iterator[FakeCube]:
        """Open an empty cube that records into this one."""
        yield _RunsOfRows(runs=self.runs)


def test_finish_gather_writes_each_chunk_once_in_the_second_pass_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk written shard by shard would be read and written again for each shard."""
    monkeypatch.setattr(row_coordinates, "CHUNK_ROWS", 3)
    monkeypatch.setattr(finish_module, "_ROWS_AT_ONCE", 2)
    cube = _RunsOfRows()
    images: dict[str, Any] = {
        name: FakeImage(pixels=image, header={"nodata": row})
        for row, (name, image) in enumerate(IMAGES.items())
    }

    Gather(images=images, cube=cube).run()

    assert [run[:2] for run in cube.runs] == [(0, 3), (3, 6), (6, 7)] * 2
    assert [run[2] for run in cube.runs[3:]] == ["nodata"] * 3
    assert cube.coordinates["nodata"].tolist() == list(range(7))


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


def test_load_shard_asks_for_sidecar_and_list_at_one_time() -> None:
    """The requests run at one time, so a worker waits only once."""
    gather = Gather()
    plan, tasks = gather.plan()
    control = gather.control.below(plan.claim)
    gather.cube.etags[tasks[1].object_keys(plan)[0]] = '"stored, not committed"'

    meeting: Any = _MeetingControl(files=control.files, folder=control.folder)
    loaded = gather.load(tasks[1], plan, meeting)

    assert loaded.committed is None
    assert [source.href for row in loaded.rows for source in row.sources if source] == list(NAMES[2:4])


def test_load_shard_of_a_committed_task_needs_no_list() -> None:
    """A committed shard is not read again, even if the list is missing."""
    gather = Gather()
    gather.run()
    plan, tasks = gather.plan_of_the_claim()
    control = gather.control.below(plan.claim)
    del control.files[f"{control.folder}sources.msgpack"]

    loaded = gather.load(tasks[0], plan, control)

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
            context=context_of(gather.cube, gather.control.below(plan.claim), access_to(gather.reader)),
            buffers=ShardBuffers(plan),
            on_source=lambda row, slot, _: seen.append((row, slot)),
        )
    )

    assert sorted(seen) == [(0, 0), (1, 0)]
    assert filled.is_new
    assert filled.result.stored_nbytes == 2 * 20 * 16 * 2
    assert filled.result.peak_rss_mib > 10
    assert gather.committed(plan, tasks).keys() == {0}


def test_report_is_kept_in_the_cube_and_read_back() -> None:
    """The stored report of an earlier run can be read."""
    gather = Gather()
    report = gather.run()

    found = asyncio.run(gather.cube.found())

    assert found is not None
    assert found.report is not None
    again = msgspec.convert(msgspec.json.decode(msgspec.json.encode(found.report)), Report)
    assert again == report
    assert replace(again, digest="") != report


def _planned_anew(gather: Gather) -> CubePlan:
    """Remove the cube of a gather and plan it once more."""
    gather.cube.claimed = gather.cube.report = None
    time.sleep(0.001)  # a claim is as exact as the clock
    plan, _ = gather.plan()
    return plan


def test_finish_gather_leaves_a_cube_alone_that_was_planned_anew() -> None:
    """All shards of the removed cube are there, but the new cube has none yet."""
    gather = Gather()
    plan, tasks = gather.filled()
    again = _planned_anew(gather)
    n_calls = len(gather.cube.calls)

    with pytest.raises(ArrayExistsError, match="planned anew since: submit its request again"):
        gather.finish(plan, tasks)

    assert gather.cube.claimed == again != plan
    assert gather.cube.calls[n_calls:] == []


def test_finish_gather_leaves_a_cube_alone_that_is_planned_anew_while_it_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last PUT replaces only the metadata that the finish saw when it began."""
    gather = Gather()
    plan, tasks = gather.filled()
    staged = FakeCube()

    async def replaced_meanwhile(report: Receipt) -> None:
        del report
        gather.cube.claimed = replace(plan, planned_at=plan.planned_at + 1)

    monkeypatch.setattr(staged, "write_receipt", replaced_meanwhile)
    monkeypatch.setattr(gather.cube, "stage", lambda: nullcontext(staged))

    with pytest.raises(ArrayExistsError, match="planned anew since"):
        gather.finish(plan, tasks)

    assert gather.cube.report is None


def test_finish_gather_refuses_where_the_cube_was_removed() -> None:
    """Shards without their arrays are not a cube."""
    gather = Gather()
    plan, tasks = gather.filled()
    gather.cube.claimed = None

    with pytest.raises(ArrayExistsError, match="has been removed since it was planned"):
        gather.finish(plan, tasks)


def test_finish_gather_of_a_complete_cube_returns_its_report() -> None:
    """A second try writes nothing."""
    gather = Gather()
    report = gather.run()
    plan, tasks = gather.plan_of_the_claim()
    n_calls = len(gather.cube.calls)

    assert gather.finish(plan, tasks) == report
    assert gather.cube.calls[n_calls:] == []


def test_gather_shard_writes_nothing_into_a_cube_that_was_planned_anew_while_it_read() -> None:
    """A worker of a cancelled gather runs on for a while. Its pixels do not belong to the new cube."""
    gather = Gather()
    plan, tasks = gather.plan()
    opens = gather.reader.open_

    async def open_late(
        href: str, *, overview: int | None, cost: Cost, packed_header: bytes | None = None
    ) -> FakeOpened:
        if gather.cube.claimed == plan:
            with ThreadPoolExecutor(1) as pool:  # the loop stands still: nobody looks when it is half done
                pool.submit(_planned_anew, gather).result()
        return await opens(href, overview=overview, cost=cost, packed_header=packed_header)

    gather.reader.open_ = open_late  # type: ignore[method-assign] # the moment of it

    with pytest.raises(ArrayExistsError, match="planned anew since"):
        gather.shard(tasks[0], plan)

    assert not [call for call in gather.cube.calls if call.startswith("shard")]


def test_gather_shard_tells_measuring_from_writing() -> None:
    """The times to measure and to store are separate, and both count as the worker's time."""
    gather = Gather()
    plan, tasks = gather.plan()
    write = gather.cube.write_shard

    async def write_slowly(*given: Any, **more: Any) -> StoredShard | None:
        await asyncio.sleep(0.2)
        return await write(*given, **more)

    gather.cube.write_shard = write_slowly  # type: ignore[method-assign] # slow, and otherwise as it is
    result = gather.shard(tasks[0], plan).result

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
        gather.shard(task, plan)

    report = gather.finish(plan, tasks)

    assert sorted(gather.reader.opened) == list(NAMES[3:])
    assert [each.headers_stop > each.headers_start for each in tasks] == [True, True, False, False]
    assert gather.cube.headers.keys() == set(NAMES)
    assert report.digest == Gather().run().digest


SEARCHED: dict[str, Any] = {"sources": {"catalog": {"file": "s3://c/x.parquet", "assets": ["red"]}}}


def found_list(gather: Gather, **changes: Any) -> bytes | None:
    """Return the list that a gather which goes on reads in place of a search."""
    given = {"window": {"pixels": [0, 0, 16, 20]}} | gather.request | changes
    output = {"layout": {"chunk": [2, 8, 8], "shard_rows": 2}}
    request = parse_request({"output": output} | given)
    return asyncio.run(read_found_list(request, stores_of(gather.cube, gather.control)))


def test_gather_that_goes_on_reads_the_list_that_it_has_found() -> None:
    """It does not search again. Another request does, and so does one that is complete."""
    gather = Gather(table=table_of(*NAMES, found=b"the scenes"), request=SEARCHED)
    assert found_list(gather) is None
    unasked: Any = None
    assert found_list(Gather(cube=unasked), sources="list") is None
    plan, tasks = gather.plan()

    assert found_list(gather) == b"the scenes"
    assert found_list(gather, window={"pixels": [0, 0, 3, 3]}) is None
    assert found_list(gather, sources="list") is None
    for task in tasks:
        gather.shard(task, plan)
    gather.finish(plan, tasks)
    assert gather.cube.found_list == b"the scenes"
    assert found_list(gather) is None


def test_cube_of_a_list_keeps_no_found_list() -> None:
    """A cube of a search whose list has expired keeps none, either."""
    of_list = Gather(table=table_of(*NAMES, found=b"not of a search"))
    of_list.run()
    expired = Gather(table=table_of(*NAMES), request=SEARCHED)
    expired.run()

    assert of_list.cube.found_list is None
    assert expired.cube.found_list is None


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

    class Noting(FakeEncoder):
        """Notes the rows."""

        async def encode_rows(self, start: int, stop: int) -> None:
            """Note them."""
            spans.append((start, stop))
            await super().encode_rows(start, stop)

    def encoder(plan: CubePlan, _: Any, pixels: Any, *, n_before: int, places: Any) -> FakeEncoder:
        return Noting(plan, pixels, n_before, places)

    gather.cube.encoder = encoder  # type: ignore[assignment,method-assign] # it notes the rows
    gather.shard(task, plan)

    assert sorted(spans) == [(0, 18), (18, 36), (36, 40)]


def test_sidecar_tells_how_long_its_worker_took_and_where() -> None:
    """It also has the size of all objects."""
    gather = Gather(images={name: np.concatenate([image, image]) for name, image in IMAGES.items()})
    plan, tasks = gather.plan()

    result = gather.shard(tasks[1], plan).result

    assert result.index == 1
    assert min(result.read_s, result.measure_s, result.write_s) > 0
    assert result.worker_s < 60
    assert result.stored_nbytes == 2 * 2 * 20 * 16 * 2
    assert result.machine
    assert [sorted(each) for each in result.pictures] == [[2, 3], [2, 3]]


def test_finish_gather_writes_scales_and_overhangs_of_rows_only_where_they_differ() -> None:
    """It decides that for each of the two by itself."""
    scaled = Gather(images=IMAGES | {NAMES[1]: FakeImage(pixels=IMAGES[NAMES[1]], header={"scales": (2.0,)})})
    short = Gather(images=IMAGES | {NAMES[2]: IMAGES[NAMES[2]][:, :12]})

    scaled.run()
    short.run()

    assert scaled.cube.coordinates["scale_factor"].tolist() == [1, 2, 1, 1, 1, 1, 1]
    assert "inside_y_stop" not in scaled.cube.coordinates
    assert short.cube.coordinates["inside_y_stop"].tolist() == [20, 20, 12, 20, 20, 20, 20]
    assert "scale_factor" not in short.cube.coordinates
    assert "nodata" not in short.cube.coordinates


def test_finish_gather_has_no_evidence_of_lost_shards() -> None:
    """Neither pictures nor digests, though all else is there."""
    gather = Gather()
    plan, tasks = gather.filled(1)

    gather.finish(plan, tasks, max_lost_share=0.25)

    (quicklooks,) = gather.cube.quicklooks
    assert quicklooks.rows.tolist() == [2, 3, 4, 5, 6]
    assert gather.cube.receipt is not None
    assert gather.cube.headers.keys() == set(NAMES[2:])
    assert gather.cube.coordinates["status"].tolist() == [Status.LOST] * 2 + [0] * 5
    assert gather.cube.table["failure"].tolist()[:3] == ["shard 0 was lost to a worker that failed"] * 2 + [
        ""
    ]


def test_finish_gather_allows_just_as_many_lost_shards_as_it_is_told() -> None:
    """One more is too many."""
    gather = Gather()
    plan, tasks = gather.filled(2)

    with pytest.raises(StoreError, match="2 of 4 shards have not been gathered \\(shard 0, "):
        gather.finish(plan, tasks, max_lost_share=0.49)
    assert gather.finish(plan, tasks, max_lost_share=0.5).n_lost_shards == 2


def test_shards_that_were_given_up_are_not_told_to_be_gathered_again() -> None:
    """A finish has died after it had given them up, and the same request allows fewer now."""
    gather = Gather()
    plan, tasks = gather.filled(1)
    stores = stores_of(gather.cube, gather.control.below(plan.claim))
    asyncio.run(give_up_shard(tasks[0], plan=plan, stores=stores))

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
    plan, tasks = gather.filled(1)
    (key,) = tasks[0].object_keys(plan)

    async def beaten(task: ShardTask, **named: Any) -> None:
        await give_up_shard(task, **named)
        gather.cube.etags[key] = '"late"'

    with monkeypatch.context() as patch:
        patch.setattr(finish_module, "give_up_shard", beaten)
        with pytest.raises(BusyError, match="run again"):
            gather.finish(plan, tasks, max_lost_share=0.25)
    assert "complete" not in gather.cube.calls

    assert gather.finish(plan, tasks, max_lost_share=0.25).n_lost_shards == 1


def test_lost_shard_of_stored_tiles_has_none() -> None:
    """A cube whose chunks are the sources' tiles has no pixels to fill it with."""
    header = {"coding": CODING}
    stored = {name: FakeImage(pixels=each[:, :16], header=header) for name, each in IMAGES.items()}
    request = {"window": {"pixels": [0, 0, 16, 16]}, "nodata": 7, "output": {"codec": "source"}}
    grown = GrownPlace(images=stored, request=request)

    async def run() -> None:
        planned = await grown.planned_first(table_of(*NAMES))
        await grown.finished(*planned, max_lost_share=1)

    asyncio.run(run())

    pixels, statuses = grown.values("band_1", "status")
    np.testing.assert_array_equal(pixels, np.full((7, 16, 16), 7))
    assert statuses.ravel().tolist() == [Status.LOST] * 7


def test_gather_of_windows_that_are_no_picture_has_no_quicklooks() -> None:
    """Nothing is written for them."""
    gather = Gather(request={"window": {"pixels": [0, 0, 5, 5]}})

    gather.run()

    assert "quicklooks" not in gather.cube.calls
    assert gather.cube.quicklooks == ()
