"""Ends reading in time for what was read to be stored, before Lambda ends the worker; and late first tries.

Without it one source that dawdles would cost its whole shard, at every try.
"""

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from pixel_gather.errors import GatherError

_LONGEST_TO_STORE_S: Final = 60.0
"""512 MiB take some 10 s to compress and to put, at 100 MB/s and 78 MB/s."""


_OF_THE_LIMIT: Final = 0.75
"""So long the first try of a shard itself takes of its time: it has ended, be it after a cold start, before
the state machine ends waiting for it, so that two workers never fill one shard at the same time."""


class ShardLateError(GatherError):
    """The first try of a shard took too long: a fresh worker is to fill it."""

    code = "shard_late"


class ShardsLeftError(GatherError):
    """A second try has filled some of its shards and has no time for the others: another is to go on."""

    code = "shards_left"


@dataclass(slots=True)
class ShardTimes:
    """Tells before each of a child's shards whether there is time for it. Times in seconds."""

    left_s: float
    """That the worker has to live, when the first shard begins."""

    limit_s: float | None
    """How long the state machine waits for a first try; None for a second one."""

    late_s: float | None
    """How long each shard of a second try may take; None for as long as there is."""

    _began_s: float = field(default_factory=time.monotonic)
    _last_began_s: float | None = None
    _longest_s: float = 0.0

    def begin(self) -> float:
        """Begin the next shard, and return how long it may take.

        Raises:
            ShardLateError: Of a first try: there is hardly time for it.
            ShardsLeftError: The same of a second one.
        """
        now_s = time.monotonic()
        left_s = self.left_s - (now_s - self._began_s)
        if self._last_began_s is not None:
            self._longest_s = max(self._longest_s, now_s - self._last_began_s)
            if (
                self.limit_s is not None
                and now_s - self._began_s + self._longest_s > self.limit_s * _OF_THE_LIMIT
            ):
                raise ShardLateError(f"some shards are filled, and {self.limit_s:g} s are too short for more")
            if self.limit_s is None and left_s < max(self.late_s or 0.0, 2 * self._longest_s):
                raise ShardsLeftError(f"some shards are filled, and {left_s:.0f} s are too short for more")
        self._last_began_s = now_s
        return left_s if self.late_s is None else min(left_s, self.late_s)


async def in_time[T](work: Coroutine[Any, Any, T], *, limit_s: float | None) -> T:
    """Wait for the work of a first try, and leave nothing of it under way.

    Args:
        work: May be cancelled anywhere.
        limit_s: How long the state machine waits for it; None for a second try, which may take its time.

    Raises:
        ShardLateError: It takes too long.
    """
    limit = asyncio.timeout(None if limit_s is None else limit_s * _OF_THE_LIMIT)
    try:
        async with limit:
            return await work
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise ShardLateError(f"not filled within {limit_s:g} s, less what its start may take") from error


def reading_s(left_s: float) -> float:
    """Return how long a worker may read that has so long to live; storing takes a minute or a quarter."""
    return left_s - min(_LONGEST_TO_STORE_S, left_s / 4)
