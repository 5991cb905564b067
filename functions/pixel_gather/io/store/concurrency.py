"""Limits how many requests are in flight at each back end. Workers learn and keep the limits.

`AdaptiveLimiter` has two interfaces. The steps ask it for a permit per source
(`pixel_gather.core.ports.SourceLimiter`). The object store reports each answer to it
(`pixel_gather.io.store.object_store.Pace`).
"""

import os
import resource
import time
from collections.abc import Callable
from typing import Final

from pixel_gather.core.estimate.worker_limits import MOST_PARTS
from pixel_gather.io.store.limiter.adapt_concurrency import MOST_NEAR, Bounds
from pixel_gather.io.store.limiter.gate import Gate, HeldPermit, Permit
from pixel_gather.io.store.limiter.ledgers import HostBudgets
from pixel_gather.io.store.object_store import split_href

_REMOTE_START: Final = 48
"""Where the limit of a remote back end starts. If the first byte takes 0 ms, limits of 16 to 64 are equally
fast. If it takes 15 or 30 ms, a short shard is fastest with 64. The first answers then raise the limit to 64.
A store that throttles refuses whatever exceeds its burst. A higher start would lose more requests there."""

_REMOTE_LOWEST: Final = 4
MOST_IN_FLIGHT: Final = 256
"""Highest limit of one back end. Only distant ones reach it. If the first byte takes 100 ms, 256 requests
gather 1.03 to 1.09 times as many tiles per second as 128. If it takes 200 ms, it is 1.23 times as many."""

_FILES_PER_REQUEST: Final = 2
"""A process must be allowed to open this many files for each request to one back end. Each request holds a
connection. Other back ends, and what a gather writes, need files, too. macOS allows 256 files by default."""

_FEWEST_AT_ALL: Final = 192
"""Limit of all remote back ends together, or 1.5 times the limit of one back end if that is more."""

_LOCAL_START_PER_CORE: Final = 16
"""Where the limit of local files starts, per core. Local files answer at once but are read in threads. This
many keep every core decoding."""


def most_in_flight(*, open_files: int) -> int:
    """Return the highest limit of one back end in a process that may open so many files."""
    if open_files == resource.RLIM_INFINITY:
        return MOST_IN_FLIGHT
    return max(_REMOTE_LOWEST, min(MOST_IN_FLIGHT, open_files // _FILES_PER_REQUEST))


class AdaptiveLimiter:
    """Limits the requests in flight, at each back end and at all remote ones together.

    A limiter belongs to one event loop.

    A source counts as many times as it has requests in flight. So windows of many tiles hold no more
    connections than windows of one tile.
    """

    def __init__(
        self,
        *,
        fixed: int | None = None,
        most: int | None = None,
        budgets: HostBudgets | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start without any measurements.

        Args:
            fixed: For experiments: always this many sources of each back end at a time. None: adapt.
            most: Highest limit of one remote back end; None for `most_in_flight` of this process.
            budgets: What some back ends may be asked by all workers together.
            clock: Returns seconds.
        """
        self._fixed = fixed
        if most is None:
            open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            most = most_in_flight(open_files=open_files)
        self.most = most
        """Highest limit of one remote back end."""

        self.budgets = budgets
        self._clock = clock
        self._gates: dict[str, Gate] = {}
        at_all = max(most * 3 // 2, _FEWEST_AT_ALL)
        self._everywhere = Gate(Bounds(start=at_all, lowest=at_all, highest=at_all), clock=clock)

    def permit(self, href: str, *, weight: int) -> "SourcePermit":
        """Return a context: a permit of a source's back end. See `pixel_gather.core.ports.SourceLimiter`."""
        root = split_href(href)[0]
        weight = 1 if self._fixed else min(weight, MOST_PARTS)  # a source sends no more requests at a time
        at_all = None if self._fixed or root == "file://" else self._everywhere.permit(weight)
        return SourcePermit(self._gate(root).permit(weight), at_all)

    async def turn(self, root: str) -> None:
        """Wait until another request may be sent.

        There is no wait unless the back end throttled lately, or all workers share what it may be asked.
        """
        gate = self._gates.get(root)
        if gate is not None and gate.paces:
            await gate.turn()
        if self.budgets is not None and (governor := self.budgets.governor(root)) is not None:
            await governor.turn()

    def governs(self, root: str) -> bool:
        """Whether all workers share what a back end may be asked."""
        return self.budgets is not None and self.budgets.governor(root) is not None

    def record_answer(self, root: str, *, first_byte_s: float) -> None:
        """Record an answer."""
        self._gate(root).record_answer(first_byte_s)

    def record_throttle(self, root: str) -> None:
        """Record a 503."""
        self._gate(root).record_throttle()

    def limit(self, root: str) -> int:
        """Return how many requests may be in flight at a back end now."""
        return self._gate(root).limit

    def bounds(self, root: str) -> Bounds:
        """Return the start of the limit at a back end, and its lowest and highest value."""
        if self._fixed is not None:
            return Bounds(start=self._fixed, lowest=self._fixed, highest=self._fixed)
        if root == "file://":
            cores = os.process_cpu_count() or 1
            start = min(_LOCAL_START_PER_CORE * cores, MOST_NEAR)
            return Bounds(start=start, lowest=cores, highest=MOST_NEAR, climbs_at_once=False)
        most = self.most if self.budgets is None else self.budgets.in_flight(root, most=self.most)
        return Bounds(start=min(_REMOTE_START, most), lowest=min(_REMOTE_LOWEST, most), highest=most)

    def _gate(self, root: str) -> Gate:
        gate = self._gates.get(root)
        if gate is None:
            gate = self._gates[root] = Gate(self.bounds(root), clock=self._clock)
        return gate


class SourcePermit:
    """A permit of one back end, and one of all remote back ends together where there is such a limit."""

    __slots__ = ("_at_all", "_of_back_end")

    def __init__(self, of_back_end: Permit, at_all: Permit | None) -> None:
        """Wait for nothing yet."""
        self._of_back_end = of_back_end
        self._at_all = at_all

    async def __aenter__(self) -> HeldPermit:
        """Wait for both."""
        held = await self._of_back_end.__aenter__()
        if self._at_all is not None:
            try:
                await self._at_all.__aenter__()
            except BaseException:  # cancelled while it waited
                await self._of_back_end.__aexit__()
                raise
        return held

    async def __aexit__(self, *_: object) -> None:
        """Let go of both."""
        if self._at_all is not None:
            await self._at_all.__aexit__()
        await self._of_back_end.__aexit__()
