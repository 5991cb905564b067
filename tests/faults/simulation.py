"""Whole gathers in virtual time, with faults at random. A seed is a run, and gives the same run again.

Two users plan, gather and finish the same cube beside each other on one event loop. Before each access to a
store, an actor waits for a random time, so that every order of events can come. An access may fail before or
after it has happened, and may arrive late, when its sender is gone. Workers are killed and started again,
sources are replaced and answer late. In some runs the cube is removed and gathered anew, while workers of the
old gather run on and the old gather is redriven.
Faults end after a minute. Then the gather has to become complete.
"""

import asyncio
import random
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, Final, override
from unittest.mock import patch

import numpy as np

from pixel_gather.claim import check_found_claim
from pixel_gather.errors import ArrayExistsError, BusyError, GatherError, StoreError
from pixel_gather.model.status import Status
from pixel_gather.plan import cube_plan
from pixel_gather.plan.cube_plan import CubePlan, Measurement
from pixel_gather.plan.plan import plan_cube
from pixel_gather.plan.shards import ShardTask
from pixel_gather.read.read_shard import Pixels, ShardBuffers
from pixel_gather.report.receipt import Receipt, WrittenFile
from pixel_gather.report.report import Report
from pixel_gather.report.row_coordinates import Coordinate, Values
from pixel_gather.request.request import parse_request
from pixel_gather.stores import FoundCube, RowEncoder, StoredShard
from pixel_gather.task_group import all_of
from pixel_gather.use_cases import finish_gather, gather_shard, plan_gather
from support.fakes import (
    FakeControl,
    FakeCube,
    FakeEncoder,
    FakeImage,
    FakeLimiter,
    FakeProjector,
    FakeReader,
    table_of,
)
from support.virtual_time import run_virtually

N_SOURCES: Final = 5
_SIDE: Final = 4
_STARTED_AT: Final = 1_800_000_000.0
_SHARD_ROWS: Final = 2
_LATEST_S: Final = 40.0
_FAULTS_END_S: Final = 60.0
_LONGEST_RUN_S: Final = 3600.0
_SOURCE_TIMEOUT_S: Final = 2.0
_MOMENT_S: Final = 1e-6
_MOST_TRIES: Final = 5
_HREFS: Final = tuple(f"s3://b/{n}.tif" for n in range(N_SOURCES))
_REQUEST: Final = parse_request(
    {
        "sources": "list",
        "window": {"pixels": [0, 0, _SIDE, _SIDE]},
        "output": {"layout": {"chunk": [1, _SIDE, _SIDE], "shard_rows": _SHARD_ROWS}},
    }
)


_claim_of: Final = cache(cube_plan.claim_of)
_TABLE: Final = table_of(*_HREFS)
_MOST_NBYTES: Final = 2**20


class BrokenPromiseError(Exception):
    """A finished cube is wrong, or a gather does not end."""


@dataclass
class World:
    """One run: its chance, its stores, and the versions of its sources."""

    seed: int
    chance: random.Random = field(init=False)
    n_bands: int = field(init=False)
    """A task has an object for each band, so two bands can come apart."""

    files: dict[str, bytes] = field(default_factory=dict)
    cube: "StormyCube" = field(init=False)
    control: "StormyControl" = field(init=False)
    reader: FakeReader = field(init=False)
    n_versions: Counter[str] = field(default_factory=Counter)
    """Of each source."""

    last_arrival_s: float = 0.0
    """When the last of the requests arrives that were sent so far."""

    broken: BrokenPromiseError | None = None
    """What was found by a request whose sender is gone."""

    loses: bool = field(init=False)
    """Whether users complete the cube without the shards whose workers fail."""

    planned: list[tuple[CubePlan, tuple[ShardTask, ...]]] = field(default_factory=list)
    """What planners have returned."""

    def __post_init__(self) -> None:
        """Make the first version of each source."""
        self.chance = random.Random(self.seed)  # noqa: S311 # no secret
        self.n_bands = 1 + self.seed % 2
        self.loses = self.seed % 10 == 7  # one run of ten
        self.cube = StormyCube(world=self)
        self.control = StormyControl(world=self, files=self.files)
        self.reader = FakeReader({})
        for href in _HREFS:
            self.replace_source(href)

    def replace_source(self, href: str) -> None:
        """Give a source other pixels, another ETag and another delay."""
        version = self.n_versions[href]
        self.n_versions[href] += 1
        delay_s = 0.0 if self.has_calmed or self.chance.random() < 0.7 else self.chance.random() * 4
        images: Any = self.reader.images
        images[href] = replace(_image_of(href, version, self.n_bands), delay_s=delay_s)

    @property
    def has_calmed(self) -> bool:
        """Whether no more faults come."""
        try:
            return asyncio.get_running_loop().time() > _FAULTS_END_S
        except RuntimeError:
            return False

    async def access[T](self, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Access a store: after a while, and perhaps in vain, or without an answer.

        A request that is on its way arrives even if its sender is killed meanwhile. When it arrives, the
        store does at once what it asks for.
        """
        loop, chance = asyncio.get_running_loop(), self.chance.random
        now_s = loop.time()
        has_calmed = now_s > _FAULTS_END_S
        is_late = not has_calmed and chance() < 0.03  # a store that is busy for a while
        arrives_s = now_s + (chance() * _LATEST_S if is_late else chance() ** 3)
        fate = 1.0 if has_calmed else chance()
        answer: asyncio.Future[T] = loop.create_future()
        loop.call_at(arrives_s, self._arrive, act, fate, answer)
        self.last_arrival_s = max(self.last_arrival_s, arrives_s)
        return await answer

    def _arrive[T](
        self, act: Callable[[], Coroutine[Any, Any, T]], fate: float, answer: asyncio.Future[T]
    ) -> None:
        try:
            if fate < 0.02:  # of all accesses
                raise StoreError("the store did not answer")  # noqa: TRY301 # as below
            done = _at_once(act())
            if fate < 0.03:  # as above
                raise StoreError("the answer was lost")  # noqa: TRY301 # whatever is raised is the answer
        except Exception as error:  # noqa: BLE001 # it is the sender's
            if isinstance(error, BrokenPromiseError):
                self.broken = error
            if not answer.done():  # or its sender is gone
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(done)

    async def all_arrived(self) -> None:
        """Wait for all requests that were sent so far."""
        await asyncio.sleep(self.last_arrival_s - asyncio.get_running_loop().time() + _MOMENT_S)


def _at_once[T](doing: Coroutine[Any, Any, T]) -> T:
    """Do what waits for nothing."""
    try:
        doing.send(None)
    except StopIteration as ended:
        done: T = ended.value
        return done
    raise AssertionError("a store waits for something")


@cache
def _image_of(href: str, version: int, n_bands: int) -> FakeImage:
    """Return a version of a source, with its header."""
    image = FakeImage(pixels=_pixels_of(href, version, n_bands), header={"etag": f'"{version}"'})
    image.header_at(href)
    return image


@cache
def _pixels_of(href: str, version: int, n_bands: int) -> Pixels:
    """Return the pixels of a version of a source, shape (band, y, x). No two versions are the same."""
    level = _HREFS.index(href) * 1000 + version * 20 + 1
    one = np.arange(level, level + _SIDE * _SIDE, dtype="uint16").reshape(1, _SIDE, _SIDE)
    return np.concatenate([one + 7 * band for band in range(n_bands)])


@dataclass
class StormyControl(FakeControl):
    """Control files in memory, with faults."""

    world: World = field(kw_only=True)

    @override
    async def put(self, key: str, content: bytes) -> None:
        await self.world.access(lambda: FakeControl.put(self, key, content))

    @override
    async def put_stream(self, key: str, parts: Iterator[bytes]) -> None:
        await self.put(key, b"".join(parts))

    @override
    async def get(self, key: str) -> bytes | None:
        return await self.world.access(lambda: FakeControl.get(self, key))

    @override
    async def get_range(self, key: str, start: int, stop: int) -> bytes:
        return await self.world.access(lambda: FakeControl.get_range(self, key, start, stop))

    @override
    async def put_new(self, key: str, content: bytes) -> bool:
        async def put() -> bool:
            if self.folder + key in self.files:
                return False
            await FakeControl.put(self, key, content)
            return True

        return await self.world.access(put)

    @override
    async def list_(self, prefix: str, *, skip_empty: bool = False) -> set[str]:
        return await self.world.access(lambda: FakeControl.list_(self, prefix, skip_empty=skip_empty))


@dataclass
class StormyCube(FakeCube):
    """A cube in memory, with faults. Each complete cube is compared with the sources at once."""

    world: World = field(kw_only=True)
    objects: dict[str, Pixels] = field(default_factory=dict)
    """Shape (row, y, x), by key. S3 stores an object wherever it is put."""

    @override
    async def found(self) -> FoundCube | None:
        return await self.world.access(super().found)

    @override
    async def shard_etag(self, key: str) -> str | None:
        return await self.world.access(lambda: FakeCube.shard_etag(self, key))

    @override
    async def shard_etags(self, plan: CubePlan) -> dict[str, str]:
        return await self.world.access(lambda: FakeCube.shard_etags(self, plan))

    @override
    async def create(self, plan: CubePlan) -> CubePlan:
        return await self.world.access(lambda: FakeCube.create(self, plan))

    def remove(self) -> None:
        """Remove every object."""
        self.claimed = self.report = None
        for each in (self.objects, self.etags, self.coordinates):
            each.clear()

    def stored(self, measurement: str) -> Pixels:
        """Return the pixels that a reader finds."""
        whole = np.zeros((N_SOURCES, _SIDE, _SIDE), "uint16")
        for path, pixels in self.objects.items():
            name, row = path.split("/c/")[0], int(path.split("/")[2]) * _SHARD_ROWS
            if name == measurement:
                whole[row : row + len(pixels)] = pixels
        return whole

    @override
    async def write_shard(
        self,
        measurement: Measurement,
        key: tuple[int, int, int],
        encoder: RowEncoder,
        *,
        replaces: str | None,
    ) -> StoredShard | None:
        assert isinstance(encoder, FakeEncoder)
        sent, path = encoder.pixels.copy(), f"{measurement.name}/c/{'/'.join(map(str, key))}"

        async def put() -> StoredShard | None:
            if not self.is_as_seen(path, replaces):
                return None
            self.calls.append(path)
            self.objects[path] = sent
            self.etags[path] = f'"{len(self.calls)}"'
            return StoredShard(nbytes=sent.nbytes, etag=self.etags[path])

        return await self.world.access(put)

    def is_as_seen(self, path: str, etag: str | None) -> bool:
        """Return whether an object has this ETag, or is missing with None."""
        return self.etags.get(path) == etag

    @override
    async def create_coordinates(self, plan: CubePlan, coordinates: Sequence[Coordinate]) -> None:
        async def put() -> None:
            for each in coordinates:  # the real store keeps the chunks of an earlier try
                dtype: Any = object if each.dtype == "string" else each.dtype
                self.coordinates.setdefault(each.name, np.full(each.shape, each.fill, dtype=dtype))

        await self.world.access(put)

    @override
    async def write_rows(
        self, plan: CubePlan, coordinates: Sequence[Coordinate], start: int, values: Mapping[str, Values]
    ) -> None:
        async def put(names: Collection[str]) -> None:
            for name in names:
                if name in self.coordinates:
                    self.coordinates[name][start : start + len(values[name])] = values[name]

        # Each is an object of its own. In most runs they are one, which takes less time.
        parts = [[name] for name in ("status", "etag", "max")] if self.world.loses else []
        parts.append([each.name for each in coordinates if [each.name] not in parts])
        await all_of(self.world.access(partial(put, names)) for names in parts)

    @override
    async def write_row_table(
        self, plan: CubePlan, batches: AsyncIterator[Mapping[str, Values]]
    ) -> WrittenFile | None:
        async for _ in batches:
            pass
        return None

    @override
    async def write_receipt(self, receipt: Receipt) -> None:
        await self.world.access(lambda: FakeCube.write_receipt(self, receipt))

    @override
    async def complete(self, plan: CubePlan, report: Report) -> None:
        async def put() -> None:
            check_found_claim(await FakeCube.found(self), plan)  # the conditional PUT of the real store
            self.report = report
            check_promise(self.world)

        await self.world.access(put)


def check_promise(world: World) -> None:
    """Compare a finished cube with its sources: each row has the pixels of its source, or says why not.

    Raises:
        BrokenPromiseError: It differs.
    """
    cube = world.cube
    bands = [cube.stored(f"band_{band + 1}") for band in range(world.n_bands)]
    n_ok = 0
    rows = zip(_HREFS, cube.coordinates["href"], cube.coordinates["status"], strict=True)
    for row, (href, told, status) in enumerate(rows):
        pixels = np.stack([each[row] for each in bands])
        if np.ravel(told)[0] != href:
            raise BrokenPromiseError(f"row {row} names {told}, the list {href}")
        statuses = set(np.ravel(status).tolist())
        if statuses == {Status.OK}:
            _check_read(world, row, pixels)
            n_ok += 1
        elif statuses == {Status.LOST}:  # its pixels may be there
            if any(np.ravel(cube.coordinates["etag"][row])) or np.any(cube.coordinates["max"][row] > 0):
                raise BrokenPromiseError(f"row {row} is lost, and tells of its source")
        elif pixels.any():
            raise BrokenPromiseError(f"row {row} has the status {statuses}, and pixels")
    told_ok = 0 if cube.report is None else cube.report.status_counts.get("ok", 0)
    if told_ok != n_ok:
        raise BrokenPromiseError(f"the report tells of {told_ok} that are ok, the rows of {n_ok}")


def _check_read(world: World, row: int, pixels: Pixels) -> None:
    cube = world.cube
    (etag,) = set(np.ravel(cube.coordinates["etag"][row]).tolist())
    if not etag:
        raise BrokenPromiseError(f"row {row} is ok, and does not tell its version")
    version = _pixels_of(_HREFS[row], int(etag.strip('"')), world.n_bands)
    if not np.array_equal(pixels, version):
        raise BrokenPromiseError(f"row {row} is ok, and has other pixels than its version")
    if not np.array_equal(np.ravel(cube.coordinates["max"][row]), version.max(axis=(1, 2))):
        raise BrokenPromiseError(f"row {row} has the statistics of other pixels")


@dataclass
class Run:
    """The actors of one run."""

    world: World

    async def gather(self) -> None:
        """Plan, gather all shards and finish, as a state machine does. Repeat each step until it is done."""
        plan, tasks = await self._until_done(self._plan)
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(self._fill(plan, task))
        most_lost = 1.0 if self.world.loses else 0.0
        await self._until_done(lambda: self.finish(plan, tasks, max_lost_share=most_lost))

    async def _fill(self, plan: CubePlan, task: ShardTask) -> None:
        """Start workers for a task until one has committed it. Some are killed, some run twice."""
        while True:
            if self.world.loses and self._chance() < 0.4:  # the state machine has given it up
                return
            workers = [asyncio.create_task(self.shard(plan, task)) for _ in range(1 + (self._chance() < 0.2))]
            if self._chance() < 0.15:  # a time-out or a lost machine
                await asyncio.sleep(self.world.chance.random() * 5)
                workers[0].cancel()
            ended = await asyncio.gather(*workers, return_exceptions=True)
            for each in ended:
                if isinstance(each, ArrayExistsError | BrokenPromiseError):
                    raise each
                if isinstance(each, Exception) and not isinstance(each, GatherError):
                    raise BrokenPromiseError(f"no Retry names {type(each).__name__}") from each
            if any(not isinstance(each, BaseException) for each in ended):
                return

    def _chance(self) -> float:
        return 1.0 if self.world.has_calmed else self.world.chance.random()

    async def _until_done[T](self, step: Callable[[], Awaitable[T]]) -> T:
        """Try a step again while stores fail, at most five times. Sometimes it is killed on its way."""
        for _ in range(_MOST_TRIES):
            with suppress(StoreError, BusyError, TimeoutError):
                limit_s = self.world.chance.random() * 10 if self._chance() < 0.15 else None
                async with asyncio.timeout(limit_s):
                    return await step()
            await asyncio.sleep(self.world.chance.random())
        raise StoreError("the step failed again and again")

    async def _plan(self) -> tuple[CubePlan, tuple[ShardTask, ...]]:
        world = self.world
        planned = await plan_gather.plan_gather(
            _REQUEST,
            table=_TABLE,
            reader=world.reader,
            projector=FakeProjector(),
            cube=world.cube,
            control=world.control,
            max_task_nbytes=_MOST_NBYTES,
            describes_crs=False,  # the plan is described already
        )
        world.planned.append(planned)
        return planned

    async def shard(self, plan: CubePlan, task: ShardTask) -> None:
        """Fill a shard, as a worker does."""
        world = self.world
        await gather_shard.gather_shard(
            task,
            plan=plan,
            reader=world.reader,
            projector=FakeProjector(),
            limiter=FakeLimiter(),
            buffers=ShardBuffers(plan),
            cube=world.cube,
            control=world.control.below(plan.claim),
            source_timeout_s=_SOURCE_TIMEOUT_S,
            claims=world.control,
        )

    async def finish(
        self, plan: CubePlan, tasks: Sequence[ShardTask], *, max_lost_share: float = 0.0
    ) -> None:
        """Complete the cube."""
        world = self.world
        await finish_gather.finish_gather(
            plan=plan,
            tasks=tasks,
            cube=world.cube,
            control=world.control.below(plan.claim),
            max_lost_share=max_lost_share,
        )


async def _user(run: Run) -> None:
    """Submit the request until the cube is complete, as a user does who repeats the command."""
    world = run.world
    while world.cube.report is None:
        try:
            await run.gather()
        except* (ArrayExistsError, StoreError, BusyError):
            await asyncio.sleep(world.chance.random())


async def _vandal(world: World) -> None:
    """Replace sources until the faults end."""
    while not world.has_calmed:
        await asyncio.sleep(world.chance.random() * 5)
        world.replace_source(world.chance.choice(_HREFS))


async def _gathered_by_two(world: World, *, until_s: float = _LONGEST_RUN_S) -> None:
    """Let two users work until the cube is complete, or until they are stopped."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout_at(until_s), asyncio.TaskGroup() as users:
            for _ in range(2):
                users.create_task(_user(Run(world)))
    except TimeoutError as error:
        if loop.time() >= _LONGEST_RUN_S:
            raise BrokenPromiseError("the gather did not end") from error


async def _remove_and_gather_anew(world: World) -> None:
    """Remove the cube while workers run on, gather it anew, and redrive the old gather meanwhile.

    Its finish is waited for, as docs/faults.md tells to.
    """
    await world.all_arrived()
    late = Run(world)
    old = world.planned[-1] if world.planned else None
    redriven = [] if old is None else [_redriven(late, *old)]
    workers = [] if old is None else [late.shard(old[0], task) for task in old[1]]

    async def remove() -> None:
        await asyncio.sleep(world.chance.random() * 3)
        world.cube.remove()
        await _gathered_by_two(world)

    await asyncio.gather(remove(), _all_ended([*workers, *redriven]))


async def _redriven(run: Run, plan: CubePlan, tasks: Sequence[ShardTask]) -> None:
    """Redrive a gather from the console, some time after its cube was removed."""
    await asyncio.sleep(5 + run.world.chance.random() * 30)
    await _all_ended([run.shard(plan, task) for task in tasks])
    await run.finish(plan, tasks, max_lost_share=run.world.chance.choice([0.0, 1.0]))


async def _all_ended(works: Sequence[Awaitable[None]]) -> None:
    """Run all. The old gather may fail in any way that is foreseen."""
    for each in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(each, BaseException) and not isinstance(each, GatherError):
            raise each


def simulate(seed: int) -> World:
    """Run one gather by two users, and check the promise.

    Raises:
        BrokenPromiseError: A finished cube was wrong, or the gather did not end.
    """
    world = World(seed)

    async def everything() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # of actors that were stopped
        vandal = asyncio.create_task(_vandal(world))
        try:
            if world.chance.random() < 0.4:  # of the runs
                await _gathered_by_two(world, until_s=world.chance.random() * 30)
                await _remove_and_gather_anew(world)
            await _gathered_by_two(world)
            await world.all_arrived()
        finally:
            vandal.cancel()

    random.seed(seed)  # the pauses of the program
    try:
        with _of_this_run(world.n_bands):
            run_virtually(everything())
    except* BrokenPromiseError as group:
        raise BrokenPromiseError(f"seed {seed}: {_first(group)}") from group
    if world.broken is not None:
        raise BrokenPromiseError(f"seed {seed}: {world.broken}") from world.broken
    check_promise(world)
    return world


async def _on_the_loop[T](work: Callable[[], T], *, goes_first: bool = False) -> T:
    """Measure and compress on the event loop, so that a seed is always the same run."""
    del goes_first  # nothing waits
    return work()


@cache
def plan_of(n_bands: int, *, version: int = 0) -> CubePlan:
    """Return the plan of every run with so many bands, but for its time. It waits for no store."""
    images = {href: _pixels_of(href, version, n_bands) for href in _HREFS}
    plan = run_virtually(
        plan_cube(
            _REQUEST,
            table=_TABLE,
            reader=FakeReader(images),
            projector=FakeProjector(),
            max_task_nbytes=_MOST_NBYTES,
            now=_STARTED_AT,
        )
    )
    return plan_gather.described(plan, FakeProjector())


@contextmanager
def _of_this_run(n_bands: int) -> Iterator[None]:
    """Make plans at virtual times, which name their claims. Do once what is the same in all runs."""
    clock = SimpleNamespace(time=lambda: _STARTED_AT + asyncio.get_running_loop().time())
    plan = plan_of(n_bands)

    async def planned(*_: Any, now: float, **__: Any) -> CubePlan:
        return replace(plan, planned_at=now)

    with (
        patch.object(plan_gather, "time", clock),
        patch.object(plan_gather, "plan_cube", planned),
        patch.object(cube_plan, "claim_of", _claim_of),
        patch.object(gather_shard, "peak_rss_mib", float),
        patch.object(gather_shard, "in_thread", _on_the_loop),
    ):
        yield


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
