"""A worker stores one shard while it reads the next one, and loses neither by what happens to the other."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pytest

from pixel_gather.core.errors import (
    ArrayExistsError,
    BusyError,
    GatherCancelledError,
    ShardLateError,
    StoreError,
)
from pixel_gather.core.model.outcome import ShardResult
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.chip_table import Chips, ChipTable
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.read.shard_buffers import ShardBuffers
from pixel_gather.core.read.time_limits import ShardTimes
from pixel_gather.engine.gather_shard import FilledShard
from pixel_gather.engine.gather_shards import LastPlan, _in_turn, gather_shards
from pixel_gather.engine.step_files import find_committed
from pixel_gather.io.cube.zarr_cube import ZarrCube
from support.appends import GrownPlace, cut, rows
from support.fakes import UTM, FakeReader, FakeTable, access_to
from support.in_loop import in_loop

_RNG: Final = np.random.default_rng(31)
_IMAGES: Final = {f"s3://b/{n}": _RNG.integers(1, 999, (1, 20, 20), "uint16") for n in range(8)}
_LONGEST_S: Final = 20.0
"""A test that waits for what never happens fails then."""


@dataclass
class Events:
    """What has begun or ended, in order. Anything may wait for a part of it."""

    seen: list[str] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, event: str) -> None:
        """Note an event."""
        self.seen.append(event)
        self._changed.set()

    async def wait_for(self, event: str) -> None:
        """Wait until it is noted."""
        async with asyncio.timeout(_LONGEST_S):
            while event not in self.seen:
                self._changed.clear()
                await self._changed.wait()


@dataclass
class Watched:
    """A place of two shards of two rows, whose reads and PUTs are noted and may be delayed or refused."""

    codec: str = "zstd"
    events: Events = field(default_factory=Events)
    before_read: Callable[[int], Awaitable[None]] | None = None
    """Called with the row's number before its source is read."""

    before_put: Callable[[int], Awaitable[None]] | None = None
    """Called with the shard's number before its object is put."""

    n_committed: list[int] = field(default_factory=list)
    results: list[ShardResult] = field(default_factory=list)
    has_begun: bool = False
    """False while a gather is planned, which opens a few sources."""

    def place(self) -> GrownPlace:
        """Return the place."""
        watched = self

        class Reader(FakeReader):
            async def open_(self, href: str, **options: Any) -> Any:
                number = int(href.rsplit("/", 1)[1])
                if watched.has_begun:
                    watched.events.add(f"read {number}")
                    if watched.before_read is not None:
                        await watched.before_read(number)
                return await super().open_(href, **options)

        class Cube(ZarrCube, frozen=True):
            async def write_shard(self, key: str, *args: Any, **options: Any) -> Any:
                number = int(key.split("/")[2])
                watched.events.add(f"put {number}")
                if watched.before_put is not None:
                    await watched.before_put(number)
                stored = await super().write_shard(key, *args, **options)
                watched.events.add(f"stored {number}")
                return stored

        request = {"output": cut(1, 2) | {"codec": self.codec}}
        grown = GrownPlace(images=_IMAGES, request=request, watch=lambda store: Cube(store, "place"))
        grown.reader = Reader(_IMAGES)
        return grown

    def _note(self, _: CubePlan, task: ShardTask, filled: FilledShard) -> None:
        self.n_committed.append(task.index)
        self.results.append(filled.result)

    async def work(
        self,
        grown: GrownPlace,
        plan: CubePlan,
        tasks: Sequence[ShardTask],
        *,
        times: ShardTimes | None = None,
        room_nbytes: int = 2**20,
        is_cancelled: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """Fill shards as a Lambda worker does."""

        async def never() -> bool:
            return False

        self.has_begun = True
        try:
            await gather_shards(
                tasks,
                gather=f"place/{plan.claim}",
                last_plan=LastPlan(room_nbytes),
                sources_of=lambda _: access_to(grown.reader),
                stores=grown.context().of_plan(plan.claim),
                times=times or ShardTimes(left_s=800, limit_s=None, late_s=100),
                on_shard=self._note,
                is_cancelled=is_cancelled or never,
            )
        finally:
            self.has_begun = False


async def committed(grown: GrownPlace, plan: CubePlan, tasks: Sequence[ShardTask]) -> set[int]:
    """Return which tasks are committed."""
    return set(await find_committed(plan, tasks, stores=grown.context().of_plan(plan.claim)))


def committed_of_two(watched: Watched, *, error: type[Exception] | None = None, **more: Any) -> set[int]:
    """Fill a place of two shards, which may fail. Return which are committed."""

    async def run() -> set[int]:
        grown = watched.place()
        plan, tasks = await grown.planned_first(rows(0, 1, 2, 3))
        with nullcontext() if error is None else pytest.raises(error):
            await watched.work(grown, plan, tasks, **more)
        return await committed(grown, plan, tasks)

    return asyncio.run(run())


async def later(_: int) -> None:
    """Wait for a moment."""
    await asyncio.sleep(0.05)


def check_pixels(grown: GrownPlace, *numbers: int) -> None:
    """Assert that the cube has the pixels of these images."""
    wanted = np.stack([_IMAGES[f"s3://b/{n}"][0, 3:9, 2:10] for n in numbers])
    np.testing.assert_array_equal(grown.open()["band_1"].values, wanted)


@in_loop
async def test_shard_is_stored_while_the_next_is_read() -> None:
    """Otherwise its PUT would wait for ever. The last one has nothing to wait for."""
    watched = Watched()

    async def wait(number: int) -> None:
        if number < 2:
            await watched.events.wait_for(f"read {2 * number + 2}")

    watched.before_put = wait
    grown = watched.place()

    plan, tasks = await grown.planned_first(rows(0, 1, 2, 3, 4, 5))
    await watched.work(grown, plan, tasks)
    await grown.finished(plan, tasks)

    check_pixels(grown, 0, 1, 2, 3, 4, 5)
    results = sorted(watched.results, key=lambda each: each.index)  # the last two are stored at one time
    assert [each.index for each in results] == [0, 1, 2]
    assert [each.reads_on for each in results] == [True, True, False]
    for each in results:
        assert each.worker_s == each.read_s + each.measure_s + each.write_s * (not each.reads_on)


@in_loop
async def test_at_most_two_shards_are_in_hand() -> None:
    """The third one begins when the first one is stored."""
    watched = Watched()

    async def wait(number: int) -> None:
        if number == 0:
            await watched.events.wait_for("put 1")
            for _ in range(50):
                await asyncio.sleep(0)
            assert "read 4" not in watched.events.seen

    watched.before_put = wait
    grown = watched.place()

    plan, tasks = await grown.planned_first(rows(0, 1, 2, 3, 4, 5))
    await watched.work(grown, plan, tasks)

    assert watched.events.seen.index("stored 0") < watched.events.seen.index("read 4")


@pytest.mark.parametrize("why", ["large", "plain", "grown"])
@in_loop
async def test_next_shard_is_read_later_where_the_pixels_are_still_needed(
    why: str,
) -> None:
    """A large shard leaves no room, plain pixels are not copied, and a grown shard is compressed late."""
    room_nbytes = 2 * 2 * 6 * 8 * 2 if why == "large" else 2**20  # two shards of two rows, decoded
    watched = Watched(codec="none" if why == "plain" else "zstd")
    grown = watched.place()

    first = (0, 1, 2) if why == "grown" else (0, 1, 2, 3)
    plan, tasks = await grown.planned_first(rows(*first))
    await watched.work(grown, plan, tasks, room_nbytes=room_nbytes)
    await grown.finished(plan, tasks)
    if why == "grown":
        watched.events.seen.clear()
        planned = await grown.begun(rows(3, 4))
        await watched.work(grown, *planned)
        await grown.finished(*planned)

    seen = watched.events.seen
    if why == "grown":
        assert seen.index("stored 1") < seen.index("read 4")
        check_pixels(grown, 0, 1, 2, 3, 4)
    else:
        assert seen.index("stored 0") < seen.index("read 2")
        check_pixels(grown, 0, 1, 2, 3)


def test_shard_is_stored_though_the_next_cannot_be_read() -> None:
    """It is paid for."""
    watched = Watched()
    gives_up = asyncio.Event()

    async def no_room(number: int) -> None:
        if number == 2:
            gives_up.set()
            raise BusyError("no room")

    async def after_that(number: int) -> None:
        await gives_up.wait()
        await later(number)

    watched.before_read, watched.before_put = no_room, after_that

    assert committed_of_two(watched, error=BusyError) == {0}
    assert watched.n_committed == [0]


def test_shard_is_stored_though_there_is_no_time_for_the_next() -> None:
    """The first try ends then."""
    times = ShardTimes(left_s=800, limit_s=1e-6, late_s=None)

    assert committed_of_two(Watched(before_put=later), error=ShardLateError, times=times) == {0}


def test_shard_takes_until_it_is_stored() -> None:
    """So a worker begins no shard that it has no time to store."""
    noted: list[float] = []

    class Times(ShardTimes):
        def note(self, took_s: float) -> None:
            noted.append(took_s)

    times = Times(left_s=800, limit_s=None, late_s=100)

    assert committed_of_two(Watched(before_put=later), times=times) == {0, 1}
    assert [0.05 <= each < _LONGEST_S for each in noted] == [True, True]


def test_shard_is_stored_though_the_gather_was_cancelled_before_the_next() -> None:
    """Nothing of the next one is stored."""
    asked: list[int] = []

    async def cancelled() -> bool:
        asked.append(1)
        return len(asked) > 1

    watched = Watched(before_put=later)

    assert committed_of_two(watched, error=GatherCancelledError, is_cancelled=cancelled) == {0}


def test_next_shard_is_not_read_on_where_the_place_belongs_to_another_gather() -> None:
    """The error of the shard that is stored is raised by its name."""
    watched = Watched()
    ended: list[str] = []

    async def slowly(number: int) -> None:
        if number == 2:
            try:
                await asyncio.sleep(_LONGEST_S)
            except asyncio.CancelledError:
                ended.append("not read")
                raise

    async def gone(_: int) -> None:
        await watched.events.wait_for("read 2")
        raise ArrayExistsError("another gather's")

    watched.before_read, watched.before_put = slowly, gone

    assert committed_of_two(watched, error=ArrayExistsError) == set()
    assert ended


@in_loop
async def test_store_that_refuses_a_shard_costs_not_the_next() -> None:
    """The first error is raised at the end."""
    watched = Watched()

    async def refusing(number: int) -> None:
        if number != 1:
            raise StoreError(f"shard {number}")

    watched.before_put = refusing

    grown = watched.place()
    plan, tasks = await grown.planned_first(rows(0, 1, 2, 3, 4, 5))
    with pytest.raises(StoreError, match="shard 0"):
        await watched.work(grown, plan, tasks)
    assert await committed(grown, plan, tasks) == {1}

    assert watched.n_committed == [1]


@in_loop
async def test_worker_that_is_ended_ends_both_shards() -> None:
    """Nothing of it goes on in the background."""
    watched = Watched()

    async def forever(_: int) -> None:
        await asyncio.sleep(_LONGEST_S)

    async def second(number: int) -> None:
        if number == 2:
            await forever(number)

    watched.before_read, watched.before_put = second, forever

    grown = watched.place()
    planned = await grown.planned_first(rows(0, 1, 2, 3))
    work = asyncio.create_task(watched.work(grown, *planned))
    await watched.events.wait_for("read 2")
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert asyncio.all_tasks() == {asyncio.current_task()}


@in_loop
async def test_worker_that_is_ended_between_two_shards_ends_the_one_it_stores() -> None:
    """It may wait for the control files of the next one."""
    ended: list[str] = []
    is_between = asyncio.Event()

    async def store(let_next: Callable[[], None]) -> None:
        let_next()
        try:
            await asyncio.sleep(_LONGEST_S)
        except asyncio.CancelledError:
            ended.append("stored")
            raise

    async def work() -> None:
        async with _in_turn() as begin:
            await begin(store)
            is_between.set()
            await asyncio.sleep(_LONGEST_S)

    working = asyncio.create_task(work())
    await is_between.wait()
    working.cancel()

    with pytest.raises(asyncio.CancelledError):
        await working
    assert ended == ["stored"]


@in_loop
async def test_worker_keeps_the_plan_of_its_last_gather_alone() -> None:
    """A task of another gather is not filled by that plan."""
    last_plan = LastPlan(2**20)

    async def load(grown: GrownPlace, plan: CubePlan) -> ShardBuffers:
        found, buffers = await last_plan.load(plan.claim, grown.context().of_plan(plan.claim).control)
        assert found == plan
        return buffers

    one, other = Watched().place(), Watched().place()
    (first, _), (second, _) = await one.planned_first(rows(0)), await other.planned_first(rows(1))
    buffers = await load(one, first)
    assert await load(one, first) is buffers
    assert await load(other, second) is not buffers
    assert await load(one, first) is not buffers


_ONE_CHIP: Final = Chips(
    ids=[1],
    xs=np.array([UTM[2] + 100]),
    ys=np.array([UTM[5] - 100]),
    crs="EPSG:32631",
    lons=np.zeros(1),
    lats=np.zeros(1),
    size=(8, 6),
    kinds=(),
    columns={},
)


@pytest.mark.parametrize("has_chips", [False, True])
@in_loop
async def test_source_that_is_late_leaves_time_to_store_the_shard(
    monkeypatch: pytest.MonkeyPatch, *, has_chips: bool
) -> None:
    """Otherwise the worker would be ended before, at every try."""
    watched = Watched()

    async def late(number: int) -> None:
        if number == 1:
            loop = asyncio.get_running_loop()
            now = loop.time
            monkeypatch.setattr(loop, "time", lambda: now() + 80)  # of 100 s, a quarter is for storing
            await asyncio.sleep(0.1)

    watched.before_read = late
    grown = watched.place()
    table: FakeTable | ChipTable = rows(0, 1)
    if has_chips:
        table = ChipTable(table=rows(0, 1), chips=_ONE_CHIP)
        grown.request = {"window": None, "windows": {"table": "chips.csv", "size": [8, 6]}}

    planned = await grown.planned_first(table)
    await watched.work(grown, *planned, times=ShardTimes(left_s=100, limit_s=None, late_s=None))
    await grown.finished(*planned)

    assert grown.values("status")[0].ravel()[1] == Status.TIMED_OUT
