"""The gate of one back end. `Climb` limits sources at a time; `Rate` limits requests per second."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from pixel_gather.io.store.limiter.adapt_concurrency import Bounds, Climb
from pixel_gather.io.store.limiter.request_rate import Rate

_LONGEST_SLEEP_S: Final = 0.1
"""Longest sleep before the rate is looked at again: it may change meanwhile."""


class HeldPermit:
    """One source's permit: a `pixel_gather.core.ports.ReadPermit`."""

    __slots__ = ("n_requests",)

    def __init__(self) -> None:
        """Hold it for a source that has not been read."""
        self.n_requests: int | None = None
        """Requests that the source needed. None until it was read."""

    def record_read(self, *, n_requests: int) -> None:
        """Record that the source was read, and its number of requests."""
        self.n_requests = n_requests


class Permit:
    """Waits for a permit and holds it. As a generator it would take twice the CPU time."""

    __slots__ = ("_entered", "_gate", "_held", "_weight")

    def __init__(self, gate: "Gate", weight: int) -> None:
        """Wait for nothing yet."""
        self._gate = gate
        self._weight = weight

    async def __aenter__(self) -> HeldPermit:
        """Wait until the source is admitted."""
        self._entered = await self._gate.enter(self._weight)
        self._held = HeldPermit()
        return self._held

    async def __aexit__(self, *_: object) -> None:
        """Let go of it."""
        self._gate.leave(self._weight, self._entered, n_requests=self._held.n_requests)


class Gate:
    """Admits sources and requests in order of arrival. Belongs to one event loop."""

    def __init__(self, bounds: Bounds, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._climb = Climb(bounds)
        self._rate = Rate()
        self._held = 0
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._sending = asyncio.Lock()

    @property
    def limit(self) -> int:
        """How many requests may be in flight now."""
        return self._climb.limit

    @property
    def paces(self) -> bool:
        """Whether requests have to wait for their `turn`."""
        return self._rate.per_s is not None

    def permit(self, weight: int) -> "Permit":
        """Return a context that waits for a permit and holds it.

        Only sources that call `HeldPermit.record_read` change the limit.

        Args:
            weight: Requests that the source has in flight. A source is admitted as soon as fewer than the
                limit are in flight, so the limit may be exceeded by one source's weight.
        """
        return Permit(self, weight)

    async def turn(self) -> None:
        """Wait until another request may be sent."""
        async with self._sending:  # first come, first served
            while pause_s := self._rate.take_turn(self._clock()):  # noqa: ASYNC110 # time passes, nothing happens
                await asyncio.sleep(min(pause_s, _LONGEST_SLEEP_S))

    def record_answer(self, first_byte_s: float) -> None:
        """Record an answer."""
        self._rate.record_answer(self._clock(), first_byte_s=first_byte_s)
        if self._waiting:
            self._climb.record_answer(first_byte_s=first_byte_s, is_wanted=True)
            self._admit()

    def record_throttle(self) -> None:
        """Record a 503."""
        now_s = self._clock()
        rate = self._rate
        if rate.record_throttle(now_s):
            self._climb.record_throttle(now_s, round_trip_s=rate.round_trip_s, enough=rate.in_flight)

    async def enter(self, weight: int) -> tuple[int, float]:
        """Wait until a source is admitted. Return the limit's number of moves, and the time."""
        await self._await_admission(weight)
        return self._climb.moves, self._clock()

    def leave(self, weight: int, entered: tuple[int, float], *, n_requests: int | None) -> None:
        """Let go of a source that was admitted with ``entered``.

        ``n_requests`` is None for a source that was not read.
        """
        is_wanted = bool(self._waiting)
        if n_requests is None:
            self._climb.record_failure(is_wanted=is_wanted)
        else:
            moves, began_s = entered
            now_s = self._clock()
            self._climb.record_source(
                now_s,
                took_s=now_s - began_s,
                n_requests=n_requests,
                weight=weight,
                moves=moves,
                is_wanted=is_wanted,
            )
        self._leave(weight)

    async def _await_admission(self, weight: int) -> None:
        if not self._held:
            self._climb.record_rest()
        if not self._waiting and self._held < self._climb.limit:
            self._held += weight
            return
        admission = asyncio.get_running_loop().create_future()
        self._waiting.append((admission, weight))
        try:
            await admission
        except asyncio.CancelledError:
            if admission.cancelled():
                with suppress(ValueError):  # `_admit` has already removed it
                    self._waiting.remove((admission, weight))
            else:  # it was admitted, then cancelled before it ran
                self._leave(weight)
            raise

    def _leave(self, weight: int) -> None:
        self._held -= weight
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._held < self._climb.limit:
            admission, weight = self._waiting.popleft()
            if not admission.cancelled():
                self._held += weight
                admission.set_result(None)
