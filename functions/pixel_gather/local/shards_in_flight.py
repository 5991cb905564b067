"""Decide how many shards of a gather in this process are in flight.

One shard is compressed and stored while the next is read. When a shard ends, fewer sources are in flight
until the next one has begun. If answers take long, the cores then wait. So more shards are in flight while
the cores have time left. Otherwise two are best: more of them only take memory, and 5 % more CPU.
"""

import asyncio
import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from pixel_gather.process_usage import cpu_s

FEWEST: Final = 2
_MOST: Final = 4
_MOST_NBYTES: Final = 1 << 27
"""Decoded size of all shards in flight, if they are more than `FEWEST`."""

_HAS_TIME: Final = 0.77
_HAS_NONE: Final = 0.85
"""Shares of the cores' time that this process takes. Below the first, another shard helps. Above the second,
none does."""

_SHORTEST_S: Final = 0.25
"""Shortest time over which that is measured."""


class ShardsInFlight:
    """Admits shards: an asynchronous context for each. Belongs to one event loop."""

    def __init__(
        self,
        *,
        shard_nbytes: int,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = cpu_s,
        n_cores: int | None = None,
    ) -> None:
        """Start with the fewest.

        Args:
            shard_nbytes: Decoded size of one shard.
            clock: Returns seconds.
            cpu_clock: Returns seconds of CPU time of this process.
            n_cores: Cores of this process. None to ask the system.
        """
        self._most = max(FEWEST, min(_MOST, _MOST_NBYTES // shard_nbytes))
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._n_cores = n_cores or os.process_cpu_count() or 1
        self._free = asyncio.Semaphore(FEWEST)
        self._since: tuple[float, float] | None = None
        self.limit = FEWEST
        """How many shards may be in flight now."""

    async def __aenter__(self) -> Self:
        """Wait until another shard may be in flight."""
        await self._free.acquire()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Let the next shard begin, or the next two, or none."""
        change = self._change()
        self.limit += change
        for _ in range(1 + change):
            self._free.release()

    def _change(self) -> int:
        """Return 1 if another shard helps, -1 if one is too many, and else 0."""
        now = self._clock(), self._cpu_clock()
        if self._since is None:  # the first shard began with few sources in flight: it tells nothing
            self._since = now
            return 0
        took_s, took_cpu_s = now[0] - self._since[0], now[1] - self._since[1]
        if took_s < _SHORTEST_S:
            return 0
        self._since = now
        busy = took_cpu_s / (took_s * self._n_cores)
        if busy < _HAS_TIME and self.limit < self._most:
            return 1
        return -1 if busy > _HAS_NONE and self.limit > FEWEST else 0
