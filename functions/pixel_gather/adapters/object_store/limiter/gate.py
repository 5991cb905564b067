"""One back end's gate: so many sources at a time as its climb says, so many requests as its rate allows."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from pixel_gather.adapters.object_store.limiter.climb import Bounds, Climb
from pixel_gather.adapters.object_store.limiter.rate import Rate

_LONGEST_SLEEP_S: Final = 0.1
"""While it is slept the rate may change."""


class HeldPlace:
    """One source's place in a gate; a ``ports.Place``."""

    __slots__ = ("n_requests",)

    def __init__(self) -> None:
        """Hold it for a source that may not be read at all."""
        self.n_requests: int | None = None
        """Of the source, once it was read."""

    def was_read(self, *, n_requests: int) -> None:
        """Take note that the source was read, in so many requests."""
        self.n_requests = n_requests


class Gate:
    """Lets sources and requests through in the order in which they came; belongs to one event loop."""

    def __init__(self, bounds: Bounds, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._climb = Climb(bounds)
        self._rate = Rate()
        self._held = 0
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._sending = asyncio.Lock()

    @property
    def limit(self) -> int:
        """How much may be in flight just now."""
        return self._climb.limit

    @property
    def paces(self) -> bool:
        """Whether requests have to ask for their `turn`."""
        return self._rate.per_s is not None

    @asynccontextmanager
    async def slot(self, weight: int) -> AsyncIterator[HeldPlace]:
        """Wait for a free place and hold it.

        Only who says that a source was read has a say in how many are read at a time.

        Args:
            weight: How many places it takes. One free place lets in the next source, whatever it takes: so
                what is in flight may exceed the limit by one source's weight.
        """
        await self._enter(weight)
        moves, began_s = self._climb.moves, self._clock()
        place = HeldPlace()
        try:
            yield place
        finally:
            is_wanted = bool(self._waiting)
            if place.n_requests is None:
                self._climb.failed(is_wanted=is_wanted)
            else:
                now_s = self._clock()
                self._climb.finished(
                    now_s,
                    took_s=now_s - began_s,
                    n_requests=place.n_requests,
                    weight=weight,
                    moves=moves,
                    is_wanted=is_wanted,
                )
            self._leave(weight)

    async def turn(self) -> None:
        """Wait until another request may be sent."""
        async with self._sending:  # first come, first served
            while pause_s := self._rate.pause_s(self._clock()):  # noqa: ASYNC110 # time passes, nothing happens
                await asyncio.sleep(min(pause_s, _LONGEST_SLEEP_S))

    def answered(self, first_byte_s: float) -> None:
        """Take note of a request that was granted."""
        self._rate.answered(self._clock(), first_byte_s=first_byte_s)
        if self._waiting:
            self._climb.answered(first_byte_s=first_byte_s, is_wanted=True)
            self._admit()

    def throttled(self) -> None:
        """Take note of a 503."""
        now_s = self._clock()
        self._rate.throttled(now_s)
        rate = self._rate
        self._climb.throttled(now_s, round_trip_s=rate.round_trip_s, enough=rate.in_flight)

    async def _enter(self, weight: int) -> None:
        if not self._held:
            self._climb.rested()
        if not self._waiting and self._held < self._climb.limit:
            self._held += weight
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append((place, weight))
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                with suppress(ValueError):  # `_admit` met it first
                    self._waiting.remove((place, weight))
            else:  # it was let in and cancelled in the same breath
                self._leave(weight)
            raise

    def _leave(self, weight: int) -> None:
        self._held -= weight
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._held < self._climb.limit:
            place, weight = self._waiting.popleft()
            if not place.cancelled():
                self._held += weight
                place.set_result(None)
