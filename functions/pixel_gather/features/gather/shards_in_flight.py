"""Decide how many shards of a gather in this process are in flight.

One shard is compressed and stored while the next is read. When a shard ends, fewer sources are in flight
until the next one has begun. If answers take long, the threads that decode then wait for tiles. So more
shards are in flight while these threads have time left. Otherwise two are best: more of them only take
memory, and 5 % more CPU.
"""

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from pixel_gather.core.in_thread import threads_worked_s

FEWEST: Final = 2
_MOST: Final = 4
_MOST_NBYTES: Final = 1 << 27
"""Decoded size of all shards in flight, if they are more than `FEWEST`."""

_WAITS: Final = 0.75
_NEVER_WAITS: Final = 0.97
"""A thread works for some share of the time: 0.8 to 0.95 with two shards and quick answers. If the share is
below `_WAITS`, another shard helps. If it is above `_NEVER_WAITS`, fewer shards may be enough."""

_SHORTEST_S: Final = 0.25
"""Shortest time over which a share is measured."""

_PATIENCE: Final = 8
"""Fewer shards are tried after so many shares above `_NEVER_WAITS`, one after another."""


class ShardsInFlight:
    """Admits shards: an asynchronous context for each. Belongs to one event loop."""

    def __init__(
        self,
        *,
        shard_nbytes: int,
        decodes: bool,
        clock: Callable[[], float] = time.monotonic,
        work_clock: Callable[[], float] = threads_worked_s,
    ) -> None:
        """Admit the fewest shards first, or as many as possible where no thread has to decode them.

        Args:
            shard_nbytes: Decoded size of one shard.
            decodes: Whether tiles are decoded.
            clock: Returns seconds.
            work_clock: Returns the seconds that a decoding thread has worked.
        """
        self._most = max(FEWEST, min(_MOST, _MOST_NBYTES // shard_nbytes))
        self.limit = FEWEST if decodes else self._most
        """How many shards may be in flight now."""

        self._clock = clock
        self._work_clock = work_clock
        self._free = asyncio.Semaphore(self.limit)
        self._since: tuple[float, float] | None = None
        self._n_full = 0
        """Shares of a thread that never waits, one after another."""

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
        """Return 1 if another shard helps, -1 if fewer may do, and else 0."""
        now = self._clock(), self._work_clock()
        if self._since is None:  # the first shard began with few sources in flight: it tells nothing
            self._since = now
            return 0
        took_s, worked_s = now[0] - self._since[0], now[1] - self._since[1]
        if took_s < _SHORTEST_S:
            return 0
        self._since = now
        share = worked_s / took_s
        self._n_full = self._n_full + 1 if share > _NEVER_WAITS else 0
        if share < _WAITS and self.limit < self._most:
            return 1
        if self._n_full >= _PATIENCE and self.limit > FEWEST:
            self._n_full = 0
            return -1
        return 0
