"""Back ends that answer in virtual time, and gathers from them; see `virtual_time`."""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.throttle import Throttle
from pixel_gather.io.store.concurrency import AdaptiveLimiter

ROOT = "s3://bucket"


class BackEnd(Protocol):
    """A back end that sources are read from."""

    async def read(self, limiter: AdaptiveLimiter) -> int | None:
        """Take as long as it takes; return the requests needed, or None where the source was not read."""


@dataclass
class QueueingStore:
    """Serves ``n`` sources at one time, each for ``service_s``. All others wait."""

    n: int
    service_s: float
    spread: float = 0.3
    _free: asyncio.Semaphore = field(init=False)
    _random: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311 # not for secrets

    def __post_init__(self) -> None:
        self._free = asyncio.Semaphore(self.n)

    async def read(self, limiter: AdaptiveLimiter) -> int:
        """Wait for a free server and be served."""
        async with self._free:
            await asyncio.sleep(self.service_s * self._random.uniform(1 - self.spread, 1 + self.spread))
        limiter.record_answer(ROOT, first_byte_s=0.01)
        return 1


@dataclass
class OverloadedStore:
    """Answers all sources at once. Above ``n`` at one time, throughput falls."""

    n: int
    service_s: float
    _held: int = 0

    async def read(self, limiter: AdaptiveLimiter) -> int:
        """Take longer if more sources are read at one time."""
        self._held += 1
        await asyncio.sleep(self.service_s * max(1.0, (self._held / self.n) ** 1.5))
        self._held -= 1
        limiter.record_answer(ROOT, first_byte_s=0.01)
        return 1


@dataclass
class Store:
    """Two requests per source over a network, then a decoder per core.

    Some answers are late, and some are 503. Some sources are missing, which one request finds out. Sources
    with a known header need one request.
    """

    ttfb_s: float
    decode_s: float = 0.0026
    n_cores: int = 2
    slow_share: float = 0.0
    slow_s: float = 0.1
    max_rate: float | None = None
    max_retries: int = 6
    refused_share: float = 0.0
    """Requests that are refused, however few are sent."""

    missing_share: float = 0.0
    known_share: float = 0.0
    spread: float = 0.0
    """Answers take up to this share longer than the fastest one."""

    seed: int = 1
    n_requests: int = 0
    n_refused: int = 0
    n_failed: int = 0
    _cores: asyncio.Semaphore = field(init=False)
    _throttle: Throttle | None = field(init=False)
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._cores = asyncio.Semaphore(self.n_cores)
        self._throttle = Throttle(self.max_rate) if self.max_rate else None
        self._random = random.Random(self.seed)  # noqa: S311 # as above

    async def read(self, limiter: AdaptiveLimiter) -> int | None:
        """Get the header, get the tile, decode."""
        if self._random.random() < self.missing_share:
            self.n_requests += 1
            await asyncio.sleep(self._answer_s())
            return None
        n_requests = 1 if self._random.random() < self.known_share else 2
        for _ in range(n_requests):
            if not await self._get(limiter):
                self.n_failed += 1
                return None
        async with self._cores:
            await asyncio.sleep(self.decode_s * self._random.uniform(0.6, 1.4))
        return n_requests

    def _answer_s(self) -> float:
        return self.ttfb_s * (1 + self._random.uniform(0, self.spread))

    async def _get(self, limiter: AdaptiveLimiter) -> bool:
        loop = asyncio.get_running_loop()
        for attempt in range(self.max_retries + 1):
            await limiter.turn(ROOT)
            self.n_requests += 1
            is_granted = self._throttle is None or self._throttle.grants(loop.time())
            is_granted &= self._random.random() >= self.refused_share
            is_slow = self._random.random() < self.slow_share
            answer_s = self._answer_s() + is_slow * self.slow_s
            await asyncio.sleep(answer_s)
            if is_granted:
                limiter.record_answer(ROOT, first_byte_s=answer_s)
                return True
            self.n_refused += 1
            limiter.record_throttle(ROOT)
            await asyncio.sleep(self._random.uniform(0, min(5.0, 0.1 * 2**attempt)))
        return False


async def gather_from(back_end: BackEnd, limiter: AdaptiveLimiter, *, n_sources: int) -> float:
    """Read this many sources. Return the sources per second."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()

    async def read_one(index: int) -> None:
        async with limiter.permit(f"{ROOT}/{index}", weight=1) as permit:
            n_requests = await back_end.read(limiter)
            if n_requests is not None:
                permit.record_read(n_requests=n_requests)

    async with asyncio.TaskGroup() as group:
        for index in range(n_sources):
            group.create_task(read_one(index))
    return n_sources / (loop.time() - began_s)
