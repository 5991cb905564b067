"""How much is asked of each back end at a time: found out while reading, remembered by the worker.

One object is both what the steps ask for a place for each source (`pixel_gather.ports.Slots`) and what the
object store tells of each request (`pixel_gather.adapters.object_store.object_store.Pace`).
"""

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from pixel_gather.adapters.geotiff.settings import GeoTiffSettings
from pixel_gather.adapters.object_store.limiter.climb import Bounds
from pixel_gather.adapters.object_store.limiter.gate import Gate, HeldPlace
from pixel_gather.adapters.object_store.object_store import split_href

_REMOTE_START: Final = 48
"""At 0 ms to the first byte 16 to 64 are equally fast; at 15 and 30 ms a short shard wants 64, to which the
first answers lead; but a store that throttles refuses at once what exceeds its burst."""

_REMOTE_LOWEST: Final = 4
MOST_IN_FLIGHT: Final = 128
"""Of one back end. More gained nothing at 30 ms; each holds a connection and a source's compressed bytes."""

MOST_AT_ALL: Final = 192
"""Of all remote back ends together, where ``most`` of one is not more: each holds a connection, and macOS
lets a process have 256 files."""

_WIDEST: Final = GeoTiffSettings().max_gets_in_flight
"""No source sends more requests at a time."""

_LOCAL_START_PER_CORE: Final = 16
"""For local files, which answer at once but pass through threads: more in flight keep every core decoding."""


class AdaptiveSlots:
    """A limiter per back end, and one bound for all remote ones; belongs to one event loop.

    The unit is a request in flight: a source takes as many places as it has requests in flight, so that
    windows of many tiles hold no more connections than those of one.
    """

    def __init__(
        self,
        *,
        fixed: int | None = None,
        most: int = MOST_IN_FLIGHT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start without knowing anything.

        Args:
            fixed: So many sources of each back end at a time, whatever they weigh, for experiments; None to
                find out.
            most: Never more than this of one remote back end.
            clock: In seconds.
        """
        self._fixed = fixed
        self._most = most
        self._clock = clock
        self._gates: dict[str, Gate] = {}
        at_all = max(most, MOST_AT_ALL)
        self._everywhere = Gate(Bounds(start=at_all, lowest=at_all, highest=at_all), clock=clock)

    @asynccontextmanager
    async def slot(self, href: str, *, weight: int) -> AsyncIterator[HeldPlace]:
        """Wait for a free place at a source's back end and hold it; see `pixel_gather.ports.Slots`."""
        root = split_href(href)[0]
        weight = 1 if self._fixed else min(weight, _WIDEST)
        async with self._gate(root).slot(weight) as place:
            if self._fixed or root == "file://":
                yield place
                return
            async with self._everywhere.slot(weight):
                yield place

    async def turn(self, root: str) -> None:
        """Wait until another request may be sent; at once unless the back end throttled lately."""
        gate = self._gates.get(root)
        if gate is not None and gate.paces:
            await gate.turn()

    def answered(self, root: str, *, first_byte_s: float, nbytes: int) -> None:
        """Take note of a request that was granted."""
        del nbytes
        self._gate(root).answered(first_byte_s)

    def throttled(self, root: str) -> None:
        """Take note of a 503."""
        self._gate(root).throttled()

    def limit(self, root: str) -> int:
        """Return how much may be in flight at a back end just now."""
        return self._gate(root).limit

    def bounds(self, root: str) -> Bounds:
        """Return where the search at a back end begins, and how low and high it goes."""
        if self._fixed is not None:
            return Bounds(start=self._fixed, lowest=self._fixed, highest=self._fixed)
        if root == "file://":
            cores = os.process_cpu_count() or 1
            start = min(_LOCAL_START_PER_CORE * cores, MOST_IN_FLIGHT)
            return Bounds(start=start, lowest=cores, highest=MOST_IN_FLIGHT, climbs_at_once=False)
        return Bounds(
            start=min(_REMOTE_START, self._most), lowest=min(_REMOTE_LOWEST, self._most), highest=self._most
        )

    def _gate(self, root: str) -> Gate:
        gate = self._gates.get(root)
        if gate is None:
            gate = self._gates[root] = Gate(self.bounds(root), clock=self._clock)
        return gate
