"""Limits how long a worker may take for its shards, and for the reading of each.

Reading ends early enough for the shard to be stored before Lambda ends the worker. Otherwise one slow source
would cost the whole shard, at every try. How long the limits are is decided in
`pixel_gather.core.estimate.try_time_limits`.
"""

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from pixel_gather.core.errors import ShardLateError, ShardsLeftError

_LONGEST_TO_STORE_S: Final = 60.0
"""512 MiB take about 10 s to compress and to put, at 100 MB/s and 78 MB/s."""

_SHARE_OF_LIMIT: Final = 0.75
"""The worker stops at this share of the limit. So it has ended, even after a cold start, before the state
machine starts another worker. Two workers never fill one shard at the same time."""


@dataclass(slots=True)
class ShardTimes:
    """Decides before each shard of one try whether there is time for it."""

    left_s: float
    """How long the worker may still run when the first shard begins."""

    limit_s: float | None
    """How long the state machine waits for a first try. None for a second try."""

    late_s: float | None
    """How long each shard of a second try may take. None for no limit but the worker's life."""

    _began_s: float = field(default_factory=time.monotonic)
    _last_began_s: float | None = None
    _longest_s: float = 0.0

    def begin(self) -> float:
        """Begin the next shard and return how many seconds it may take.

        Raises:
            ShardLateError: A first try has too little time left for another shard.
            ShardsLeftError: A second try has too little time left for another shard.
        """
        now_s = time.monotonic()
        left_s = self.left_s - (now_s - self._began_s)
        if self._last_began_s is not None:
            self._longest_s = max(self._longest_s, now_s - self._last_began_s)
            if (
                self.limit_s is not None
                and now_s - self._began_s + self._longest_s > self.limit_s * _SHARE_OF_LIMIT
            ):
                raise ShardLateError(f"some shards are filled, but {self.limit_s:g} s are too short for all")
            if self.limit_s is None and left_s < max(self.late_s or 0.0, 2 * self._longest_s):
                raise ShardsLeftError(
                    f"some shards are filled, but the last {left_s:.0f} s are too short for more"
                )
        self._last_began_s = now_s
        return left_s if self.late_s is None else min(left_s, self.late_s)

    def note(self, took_s: float) -> None:
        """Take note of a shard that is stored, perhaps after the next one has begun.

        Args:
            took_s: From its begin until then.
        """
        self._longest_s = max(self._longest_s, took_s)


async def in_time[T](work: Coroutine[Any, Any, T], *, limit_s: float | None) -> T:
    """Wait for the work of a try. Cancel it where a first try takes too long.

    Args:
        work: What the try does. It can be cancelled at any point.
        limit_s: How long the state machine waits for a first try. None for a second try.

    Raises:
        ShardLateError: The first try took too long.
    """
    limit = asyncio.timeout(None if limit_s is None else limit_s * _SHARE_OF_LIMIT)
    try:
        async with limit:
            return await work
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise ShardLateError(
            f"the shards are not filled in time: a first try has {limit_s:g} s, its start included"
        ) from error


def reading_s(left_s: float) -> float:
    """Return how long a worker may read. A minute is kept for storing, or a quarter where less is left."""
    return left_s - min(_LONGEST_TO_STORE_S, left_s / 4)
