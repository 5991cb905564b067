"""Stores whose requests are late, fail, or arrive when their sender is gone.

A seed is a run, and gives it again. Before each access an actor waits for a random time, so that every order
of events can come.
"""

import asyncio
import dataclasses
import random
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Self, override

from pixel_gather.core.errors import StoreError
from support.fakes import FakeControl

STARTED_AT: Final = 1_800_000_000.0
"""When every run begins, in seconds since 1970-01-01 UTC."""

_FAULTS_END_S: Final = 60.0
_LATEST_S: Final = 40.0
_LONGEST_SLEEP_S: Final = 200.0
"""Longest time for which an actor is stopped and knows nothing of it."""

_MOMENT_S: Final = 1e-6


class BrokenPromiseError(Exception):
    """What was made is wrong, or it does not end."""


@dataclass
class Storm:
    """The chance of one run, and what becomes of its requests."""

    seed: int
    chance: random.Random = field(init=False)
    late_share: float = field(init=False)
    """Share of the accesses that arrive late, while there are faults."""

    calms_at_s: float = _FAULTS_END_S
    """When faults end."""

    last_arrival_s: float = 0.0
    """When the last of the requests arrives that were sent so far."""

    broken: BrokenPromiseError | None = None
    """What was found by a request whose sender is gone."""

    def __post_init__(self) -> None:
        """Begin with the chance of the seed."""
        self.chance = random.Random(self.seed)  # noqa: S311 # no secret
        self.late_share = 0.3 if self.seed % 7 < 3 else 0.03

    @property
    def has_calmed(self) -> bool:
        """Whether no more faults come."""
        try:
            return asyncio.get_running_loop().time() > self.calms_at_s
        except RuntimeError:
            return False

    def now(self) -> float:
        """Return the time of the clocks in this run."""
        return STARTED_AT + asyncio.get_running_loop().time()

    async def access[T](self, act: Callable[[], T]) -> T:
        """Access a store: after a while, and perhaps in vain, or without an answer.

        A request that is on its way arrives even if its sender is killed meanwhile. When it arrives, the
        store does at once what it asks for.
        """
        loop, chance = asyncio.get_running_loop(), self.chance.random
        now_s = loop.time()
        has_calmed = now_s > self.calms_at_s
        if not has_calmed and chance() < 0.004:  # the machine sleeps, and its actor knows nothing of it
            await asyncio.sleep(chance() * _LONGEST_SLEEP_S)
            now_s = loop.time()
        is_late = not has_calmed and chance() < self.late_share  # a store that is busy for a while
        arrives_s = now_s + (chance() * _LATEST_S if is_late else chance() ** 3)
        fate = 1.0 if has_calmed else chance()
        answer: asyncio.Future[T] = loop.create_future()
        loop.call_at(arrives_s, self._arrive, act, fate, answer)
        self.last_arrival_s = max(self.last_arrival_s, arrives_s)
        return await answer

    def _arrive[T](self, act: Callable[[], T], fate: float, answer: asyncio.Future[T]) -> None:
        try:
            if fate < 0.02:  # of all accesses
                raise StoreError("the store did not answer")  # noqa: TRY301 # as below
            done = act()
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


def first_of(error: BaseException) -> BaseException:
    """Return the first error of a group, or of the groups in it."""
    return first_of(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def at_once[T](doing: Coroutine[Any, Any, T]) -> T:
    """Do what waits for nothing."""
    try:
        doing.send(None)
    except StopIteration as ended:
        done: T = ended.value
        return done
    raise AssertionError("a store waits for something")


@dataclass
class StormyControl(FakeControl):
    """Control files in memory, with faults."""

    storm: Storm = field(kw_only=True)
    folders: dict[str, Self] = field(default_factory=dict)
    """Their stores, by name."""

    @override
    def below(self, folder: str) -> Self:
        if folder not in self.folders:
            self.folders[folder] = dataclasses.replace(self, folder=f"{self.folder}{folder}/", folders={})
        return self.folders[folder]

    @override
    async def put(self, key: str, content: bytes) -> None:
        await self.storm.access(lambda: at_once(FakeControl.put(self, key, content)))

    @override
    async def put_stream(self, key: str, parts: Iterator[bytes]) -> None:
        await self.put(key, b"".join(parts))

    @override
    async def get(self, key: str) -> bytes | None:
        return await self.storm.access(lambda: at_once(FakeControl.get(self, key)))

    @override
    async def get_range(self, key: str, start: int, stop: int) -> bytes:
        return await self.storm.access(lambda: at_once(FakeControl.get_range(self, key, start, stop)))

    @override
    async def put_new(self, key: str, content: bytes) -> bool:
        async def put() -> bool:
            if self.folder + key in self.files:
                return False
            await FakeControl.put(self, key, content)
            return True

        return await self.storm.access(lambda: at_once(put()))

    @override
    async def list_(self, prefix: str, *, skip_empty: bool = False) -> set[str]:
        listed = partial(FakeControl.list_, self, prefix, skip_empty=skip_empty)
        return await self.storm.access(lambda: at_once(listed()))

    @override
    async def clear(self) -> None:
        await self.storm.access(lambda: at_once(FakeControl.clear(self)))
