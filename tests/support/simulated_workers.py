"""Workers that share the budget of one host, in virtual time; see `virtual_time`."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.throttle import Throttle
from pixel_gather.core.errors import StoreError
from pixel_gather.io.store.limiter.govern_host import Budget, HostGovernor

_EPOCH_S = 1_790_000_000.25
"""The store's clock at the start of the virtual loop."""


def now_s() -> float:
    """Return the time of the running loop."""
    return asyncio.get_running_loop().time()


@dataclass
class SimulatedLedger:
    """A ledger in an object store: conditional PUTs, and a clock of whole seconds."""

    chance: random.Random
    content: bytes = b""
    version: int = 0
    is_there: bool = False
    is_out_of_reach: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    """Requests by their kind. ``lost`` are PUTs that another one came before."""

    async def _answer(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(self.chance.uniform(least_s, most_s))
        if self.is_out_of_reach:
            raise StoreError("out of reach")

    async def touch(self) -> float:
        """Write and look."""
        self.counts["touch"] += 1
        await self._answer(0.02, 0.06)
        written_s = float(int(_EPOCH_S + now_s()))
        await self._answer(0.01, 0.03)
        return written_s

    async def read(self) -> tuple[bytes, str | None]:
        """Return what is there when the answer is made."""
        self.counts["read"] += 1
        await self._answer(0.005, 0.02)
        found = (self.content, str(self.version)) if self.is_there else (b"", None)
        await asyncio.sleep(self.chance.uniform(0.005, 0.02))
        return found

    async def replace(self, content: bytes, version: str | None) -> bool:
        """Replace that version alone."""
        self.counts["replace"] += 1
        await self._answer(0.01, 0.04)
        if version != (str(self.version) if self.is_there else None):
            self.counts["lost"] += 1
            return False
        self.content, self.is_there, self.version = content, True, self.version + 1
        await asyncio.sleep(self.chance.uniform(0.01, 0.02))
        return True

    def remove(self) -> None:
        """Remove the object, as a person or a lifecycle rule may."""
        self.is_there = False


@dataclass
class ThrottledHost:
    """Refuses what is above its rate."""

    per_s: float
    granted: list[float] = field(default_factory=list)
    """When each request was granted."""

    refused: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._throttle = Throttle(self.per_s)

    def ask(self) -> None:
        """Take one request."""
        (self.granted if self._throttle.grants(now_s()) else self.refused).append(now_s())

    def used(self, start_s: float, stop_s: float) -> float:
        """Return the share of the rate that was granted in some seconds."""
        n = sum(start_s <= each < stop_s for each in self.granted)
        return n / self.per_s / (stop_s - start_s)

    @property
    def refused_share(self) -> float:
        """Refused requests, as a share of all."""
        return len(self.refused) / max(len(self.granted) + len(self.refused), 1)


def skewed(chance: random.Random, *, by_s: float) -> Callable[[], float]:
    """Return the clock of a worker: wrong by up to so many seconds, and by up to 100 in a million."""
    offset_s, rate = chance.uniform(-by_s, by_s), 1 + chance.uniform(-1e-4, 1e-4)
    return lambda: offset_s + rate * now_s()


@dataclass(kw_only=True)
class SimulatedWorker:
    """Sends requests to a host, some at a time, until it is told to end, or dies."""

    governor: HostGovernor
    host: ThrottledHost
    chance: random.Random
    in_flight: int = 8
    n_sent: int = 0

    async def work(self, *, start_s: float, stop_s: float) -> None:
        """Send as many requests as it may."""
        await asyncio.sleep(start_s)
        async with asyncio.TaskGroup() as group:
            for _ in range(self.in_flight):
                group.create_task(self._send_until(stop_s))

    async def _send_until(self, stop_s: float) -> None:
        while now_s() < stop_s:
            await self.governor.turn()
            self.n_sent += 1
            await asyncio.sleep(self.chance.uniform(0.005, 0.02))
            self.host.ask()
            await asyncio.sleep(self.chance.uniform(0.01, 0.06))


def worker_of(
    ledger: SimulatedLedger, host: ThrottledHost, budget: Budget, *, seed: int, skew_s: float = 0.0
) -> SimulatedWorker:
    """Return a worker with a clock of its own."""
    chance = random.Random(seed)  # noqa: S311 # not for secrets
    governor = HostGovernor(ledger, budget, clock=skewed(chance, by_s=skew_s))
    return SimulatedWorker(governor=governor, host=host, chance=chance)
