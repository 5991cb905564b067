"""A deployment that makes tables in rounds, in virtual time, with random faults.

Users ask for tables at the same time. Each request starts an execution. Workers do the tasks of a round, and
a function decides after each round what comes next. The stores are those of `faults.storm`. Steps are killed,
or called again while the first call still runs. Workers are lost, or come late. Images are replaced. Old
rounds are redriven. In one run of six, the deployment is halted now and then.

`faults.table_simulation` and `faults.ranking_simulation` say what is made, and what has to be true of it.
"""

import asyncio
import json
import random
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any, Final, override
from unittest.mock import patch

import xxhash

from faults.simulated_images import N_IMAGES, href_of, number_of, rows_of
from faults.storm import BrokenPromiseError, Storm, StormyControl, at_once, first_of
from handlers.deployment.settings import Settings
from handlers.deployment.stores import Deployment
from pixel_gather.core.errors import BusyError, SourceError, StoreError
from pixel_gather.tables.map_tasks import MapTask
from support.fakes import FakeControl, FakeTable
from support.lambda_functions import ENVIRONMENT
from support.virtual_time import run_virtually

LISTS: Final = (range(5), range(3, N_IMAGES), range(N_IMAGES))
"""The images of each list."""

ALL_LISTED: Final = LISTS[-1]

LONGEST_TASK_S: Final = 60.0

_FAULTS_END_S: Final = 60.0
_LONGEST_RUN_S: Final = 3600.0
_FORTNIGHT_S: Final = 15 * 86_400.0
"""Longer than an attempt is continued by a request. Its executions can still be redriven."""

_MONTH_S: Final = 30 * 86_400.0
_MOST_CALLS: Final = 5
_ASK_AGAIN: Final = re.compile(
    "it is refused|every worker failed|the table was removed .*: send the request again"
)
"""Errors of steps that no other call mends."""

_N_USERS: Final = 4
_SETTINGS: Final = Settings.from_environment(ENVIRONMENT)


@dataclass
class RoundsWorld(Storm, ABC):
    """One run: its stores, and the versions of its images."""

    files: dict[str, bytes] = field(default_factory=dict)
    n_versions: Counter[str] = field(default_factory=Counter)
    """Of each image."""

    later_s: float = 0.0
    """What is added to the time of all clocks."""

    begun: list[Mapping[str, Any]] = field(default_factory=list)
    """Verdicts whose rounds were begun. A redrive runs their missing tasks."""

    ended: list[tuple[str, int]] = field(default_factory=list)
    """Rounds that have ended, by table and number."""

    read: dict[Any, Any] = field(default_factory=dict)
    """What workers have read, by table and round."""

    n_calls: int = 0
    """Calls of the function that decides after each round."""

    more: random.Random = field(init=False)
    """The chance of what only some of the runs have."""

    halts: bool = field(init=False)
    """Whether the deployment is halted now and then: nothing begins then."""

    loses: float = field(init=False)
    """Share of the tasks that no worker does in the first round, while there are faults."""

    def __post_init__(self) -> None:
        """Open the stores."""
        super().__post_init__()
        self.more = random.Random(f"more {self.seed}")  # noqa: S311 # no secret
        self.halts = self.more.random() < 1 / 6
        self.loses = 0.4 if self.seed % 5 == 2 else 0.1
        self.control = StormyBucket(storm=self, files=self.files, folder="control/")
        self.results = StormyBucket(storm=self, files=self.files, folder="cubes/out/tables/")

    @override
    def now(self) -> float:
        return super().now() + self.later_s

    @property
    def expires(self) -> bool:
        """Whether a month goes by, in which control files expire."""
        return self.seed % 8 == 5

    @abstractmethod
    def look_at(self, parts: Sequence[str], content: bytes) -> None:
        """Look at a file that was written just now. ``parts`` are those of its key.

        Raises:
            BrokenPromiseError: It is wrong.
        """

    def check_tasks(self, round_folder: str, tasks: Sequence[MapTask]) -> None:
        """Check that what a round's tasks read is there when its state is written, which names them.

        Raises:
            BrokenPromiseError: It is not. If the step is then killed, no worker can do the tasks.
        """
        keys = {each.scenes_key for each in tasks}
        if missing := [key for key in keys if f"{round_folder}/{key}" not in self.files]:
            raise BrokenPromiseError(f"{round_folder} has a state, and lacks {missing}")

    @abstractmethod
    def note_removal(self) -> Sequence[str]:
        """Note that all tables are removed, and return their names."""

    def remove_tables(self) -> None:
        """Remove every table that was made. Each image gets a new version: that is why they are removed.

        Control files stay.
        """
        for name in self.note_removal():
            for key in [key for key in self.files if key.startswith(f"{self.results.folder}{name}/")]:
                del self.files[key]
        self.n_versions.update(map(href_of, range(N_IMAGES)))

    def go_by(self) -> None:
        """Let time go by, and faults come again. In some runs it is a month, and half of the files expire."""
        self.later_s += _MONTH_S if self.expires else self.chance.choice((0.0, _FORTNIGHT_S))
        self.calms_at_s = asyncio.get_running_loop().time() + _FAULTS_END_S
        if self.expires:
            for known in (self.begun, self.ended, self.read):  # nothing is redriven any more
                known.clear()
            for key in [key for key in self.files if key.startswith(self.control.folder)]:
                if self.chance.random() < 0.5:
                    del self.files[key]

    async def replace_images(self) -> None:
        """Replace images now and then, until there are no more faults."""
        while not self.has_calmed:
            await asyncio.sleep(self.chance.random() * 10)
            self.n_versions[href_of(self.chance.randrange(N_IMAGES))] += 1


@dataclass
class StormyBucket(StormyControl):
    """Files in memory, with faults. An ETag depends on the content, as in S3."""

    @property
    def prefix(self) -> str:
        """What every key begins with."""
        return self.folder

    @override
    async def put(self, key: str, content: bytes) -> None:
        await self.storm.access(lambda: self._put(key, content))

    async def get_with_etag(self, key: str) -> tuple[bytes, str] | None:
        """Return a file and its ETag."""

        def get() -> tuple[bytes, str] | None:
            content = self.files.get(self.folder + key)
            return None if content is None else (content, _etag(content))

        return await self.storm.access(get)

    async def put_if(self, key: str, content: bytes, *, etag: str | None) -> bool:
        """Keep a file if it is as it was seen.

        A request without an answer is sent again, as the program does. So False may also mean that the first
        request was carried out.
        """

        def put() -> bool:
            there = self.files.get(self.folder + key)
            if etag != (None if there is None else _etag(there)):
                return False
            self._put(key, content)
            return True

        with suppress(StoreError):
            return await self.storm.access(put)
        return await self.storm.access(put)

    @override
    async def clear(self, is_done: Callable[[str], bool] = lambda _: True) -> None:
        """Remove files, one after the other."""
        for key in [key for key in await self.list_("") if is_done(key)]:
            await self.storm.access(partial(self.files.pop, self.folder + key, None))

    @override
    async def put_new(self, key: str, content: bytes) -> bool:
        return await self.put_if(key, content, etag=None)

    def _put(self, key: str, content: bytes) -> None:
        at_once(FakeControl.put(self, key, content))
        assert isinstance(self.storm, RoundsWorld)
        self.storm.look_at((self.folder + key).split("/"), content)


def _etag(content: bytes) -> str:
    return f'"{xxhash.xxh3_64(content).hexdigest()}"'


@dataclass
class SimulatedDeployment:
    """The part of a `Deployment` that tables use."""

    world: RoundsWorld
    settings: Settings = _SETTINGS
    objects: Any = None
    limiter: Any = None

    find_result = Deployment.find_result

    @property
    def results(self) -> StormyBucket:
        """Tables."""
        return self.world.results

    @property
    def summaries(self) -> StormyBucket:
        """Files of the control bucket."""
        return self.world.control

    def table_files(self, name: str, *, may_list: bool = True) -> StormyBucket:
        """Return the control files of a table."""
        del may_list
        return self.world.control.below(f"tables/{name}")

    def signed_objects(self, _sign: str) -> Any:
        """Return what reads the images."""
        return self.objects

    async def why_halted(self) -> str | None:
        """Return why nothing may begin now. It is another answer each time."""
        world = self.world
        return "it is halted" if world.halts and not world.has_calmed and world.more.random() < 0.2 else None


@dataclass
class RoundsRun(ABC):
    """The actors of one run."""

    world: RoundsWorld

    at_work: set[asyncio.Task[Any]] = field(default_factory=set, init=False)
    """Functions that run. They end by themselves if their execution is stopped."""

    @abstractmethod
    async def begin(self, given: Any, execution: str) -> dict[str, Any]:
        """Begin a table in a fresh process."""

    @abstractmethod
    async def decide(self, name: str, number: int, execution: str) -> dict[str, Any]:
        """Decide in a fresh process what comes after a round. Check what is told of it."""

    @abstractmethod
    async def worker(self, gather: str, task: MapTask) -> None:
        """Do a task."""

    def chance(self) -> float:
        """Return a number from 0 to 1 that is 1 once there are no more faults."""
        return 1.0 if self.world.has_calmed else self.world.chance.random()

    async def make(self, given: Any, execution: str) -> dict[str, Any]:
        """Make a table, as the state machine does. Return the last verdict."""
        verdict = await self._until_done(lambda: self.begin(given, execution))
        await self.go_on(verdict)
        return verdict

    async def go_on(self, verdict: dict[str, Any]) -> None:
        """Run rounds until the table is complete, and update the verdict."""
        while verdict["verdict"] == "planned":
            gather = verdict["gather"]
            self.world.begun.append(dict(verdict))
            await self._map(gather, verdict["manifest"]["key"])
            table, _, number = gather.rpartition("/")
            self.world.ended.append((table, int(number)))
            verdict |= await self._until_done(partial(self.after, table, int(number)))

    async def after(self, table: str, number: int) -> dict[str, Any]:
        """Take the step after a round."""
        self.world.n_calls += 1
        verdict = await self.decide(table, number, f"call-{self.world.n_calls}")
        if self.world.broken is not None:  # a call that was killed has found it
            raise self.world.broken
        return verdict

    async def _map(self, gather: str, key: str) -> None:
        """Let a worker do each task of a round. Some are lost."""
        while True:
            with suppress(StoreError):
                content = await StormyControl(storm=self.world, files=self.world.files).get(key)
                break
        assert content is not None
        tasks = [MapTask(**task) for item in json.loads(content) for task in item]
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(self._task(gather, task))

    async def _task(self, gather: str, task: MapTask) -> None:
        """Start workers for a task until one is done; at most two, one after the other or at once."""
        if self.chance() < self.world.loses:
            return  # the map has lost it
        tries = [self._start(self.worker(gather, task)) for _ in range(1 + (self.chance() < 0.2))]
        if self.chance() < 0.15:
            await asyncio.sleep(self.world.chance.random() * 5)
            tries[0].cancel()
        await self._ended(tries)
        if all(each.cancelled() or each.exception() for each in tries):
            await self._ended([self._start(self.worker(gather, task))])

    def _start[T](self, function: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(function)
        self.at_work.add(task)
        task.add_done_callback(self.at_work.discard)
        return task

    async def _ended(self, workers: Sequence[asyncio.Task[None]]) -> None:
        for each in await _answers(workers):
            if isinstance(each, Exception) and not isinstance(each, StoreError | TimeoutError):
                raise BrokenPromiseError(f"a worker ended with {each!r}") from each

    async def _until_done(self, step: Callable[[], Any]) -> dict[str, Any]:
        """Call a step until it answers. A call may be killed, or run on beside the next one."""
        has_calmed = self.world.has_calmed
        for _ in range(50 if has_calmed else _MOST_CALLS):
            calls = [self._start(step())]
            if self.chance() < 0.15:
                await asyncio.sleep(self.world.chance.random() * 3)
                if self.chance() < 0.5:
                    calls[0].cancel()
                else:
                    calls.append(self._start(step()))
            answers = await _answers(calls)
            expected = dict, StoreError, BusyError, TimeoutError, SourceError, asyncio.CancelledError
            for each in answers:
                if not isinstance(each, expected):
                    raise BrokenPromiseError(f"a step ended with {each!r}") from each
            if final := [each for each in answers if _ASK_AGAIN.search(str(each))]:
                raise StoreError(str(final[0]))
            if ended := [each for each in answers if isinstance(each, dict)]:
                answer: dict[str, Any] = json.loads(json.dumps(ended[0]))
                return answer
            await asyncio.sleep(self.world.chance.random())
        if has_calmed:
            raise BrokenPromiseError(f"without faults a step does not end: {answers[-1]!r}")
        raise StoreError("the step failed again and again")

    @abstractmethod
    async def execution(self, name: str, number: int) -> None:
        """Make what a user asks for, in an execution of a name."""

    async def execute_at_last(self, name: str, number: int) -> None:
        """Make what a user asks for, without faults.

        Raises:
            BrokenPromiseError: It cannot be made.
        """
        with suppress(StoreError):  # all images of a round were lost before
            await self.execution(name, number)
            return
        try:
            await self.execution(f"{name}-again", number)
        except StoreError as error:
            raise BrokenPromiseError(f"without faults a table cannot be made: {error}") from error

    async def disturb(self) -> None:
        """Redrive a round that was begun, or call the step again after one that has ended."""
        world = self.world
        with suppress(StoreError, TimeoutError):
            if world.begun and self.chance() < 0.3:
                await self.go_on(dict(world.chance.choice(world.begun)))
            elif world.ended:
                await self.go_on(await self.after(*world.chance.choice(world.ended)))

    async def through_faults(self, *, n_before_removal: int) -> None:
        """Let four users ask until there are no more faults.

        In half of the runs, some have asked before, once or twice. Each time all executions were stopped at
        some time, time may have gone by, and somebody may have removed what was made.
        """
        world = self.world
        for _ in range((0, 1, 0, 2)[world.seed % 4]):
            await self._until_stopped(n_before_removal)
            world.go_by()
            if world.chance.random() < 0.7:
                world.remove_tables()
        async with asyncio.TaskGroup() as group:
            group.create_task(world.replace_images())
            group.create_task(self._disturber())
            for number in range(_N_USERS):
                group.create_task(self._user(number))
        await world.all_arrived()

    async def _until_stopped(self, n_users: int) -> None:
        """Let users ask, and stop all executions at some time. Functions that run go on to their end."""
        stopped_after_s = self.world.chance.random() * 2 * _FAULTS_END_S
        with suppress(TimeoutError):
            async with asyncio.timeout(stopped_after_s), asyncio.TaskGroup() as group:
                group.create_task(self.world.replace_images())
                group.create_task(self._disturber())
                for number in range(n_users):
                    group.create_task(self._user(number))
        while self.at_work:
            await asyncio.wait(self.at_work)
        await self.world.all_arrived()

    async def _user(self, number: int) -> None:
        """Ask, and again if it fails, or for no reason."""
        for at in range(3):
            with suppress(StoreError):
                await self.execution(f"e{number}-{at}", number)
                if self.chance() < 0.5:
                    return
            await asyncio.sleep(self.world.chance.random() * 10)

    async def _disturber(self) -> None:
        while not self.world.has_calmed:
            await asyncio.sleep(self.world.chance.random() * 20)
            await self.disturb()


def run_seed(world: RoundsWorld, everything: Callable[[], Any], patches: Sequence[Any]) -> None:
    """Run all actors of a run to their end.

    Args:
        world: Of the run.
        everything: Starts the actors, and checks in the end what they have made.
        patches: Context managers that let the program use the stores and images of the run.

    Raises:
        BrokenPromiseError: A table was wrong, or did not end.
    """

    async def limited() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # of actors that were stopped
        async with asyncio.timeout(_LONGEST_RUN_S):
            await everything()

    random.seed(world.seed)
    try:
        with _of_this_run(world, patches):
            run_virtually(limited())
    except* BrokenPromiseError as group:
        raise BrokenPromiseError(f"seed {world.seed}: {first_of(group)}") from group
    if world.broken is not None:
        raise BrokenPromiseError(f"seed {world.seed}: {world.broken}") from world.broken


@contextmanager
def _of_this_run(world: RoundsWorld, patches: Sequence[Any]) -> Iterator[None]:
    async def in_thread[T](work: Callable[..., T], *arguments: Any, **more: Any) -> T:
        await asyncio.sleep(world.chance.random() ** 3)
        done = work(*arguments, **more)
        return await done if asyncio.iscoroutine(done) else done

    with ExitStack() as stack:
        for each in (*patches, patch.object(asyncio, "to_thread", in_thread)):
            stack.enter_context(each)
        yield


async def _answers[T](calls: Sequence[asyncio.Task[T]]) -> list[T | BaseException]:
    """Wait for calls, which go on if nobody waits any more. Return what they answer, or their errors."""
    await asyncio.wait(calls)
    return await asyncio.gather(*calls, return_exceptions=True)


def clock_of(world: RoundsWorld, *modules: ModuleType) -> list[Any]:
    """Return patches that let modules use the time of a run."""
    clock = SimpleNamespace(time=world.now, monotonic=lambda: asyncio.get_running_loop().time())
    return [patch.object(module, "time", clock) for module in modules]


def images_of(hrefs: Sequence[str]) -> range:
    """Return the images of a list."""
    return range(number_of(hrefs[0]), number_of(hrefs[-1]) + 1)


def list_digest(images: range) -> str:
    """Return the digest of a list."""
    return f"{images.start}-{images.stop}".ljust(64, "x")


def opened_lists(world: RoundsWorld) -> Callable[..., Any]:
    """Return what opens the list of a request in a run."""

    @asynccontextmanager
    async def open_list(request: Any, _deployment: Any, **_: Any) -> AsyncIterator[FakeTable]:
        images = images_of(request.sources.hrefs)
        await asyncio.sleep(world.chance.random())
        yield FakeTable(rows_of(images), has_time=True, digest=list_digest(images))

    return open_list
