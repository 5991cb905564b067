"""Holds back one worker's requests to one host, so that all workers together stay within the budget.

`pixel_gather.core.host_leases` has the rules. A lease is renewed only while requests are waiting or sent. So
a worker that has nothing to ask gives its share back.
"""

import asyncio
import os
import random
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from pixel_gather.core.errors import StoreError
from pixel_gather.core.host_leases import Lease, StoreClock, ledger_content, parse_ledger, take_lease
from pixel_gather.core.steady_clock import SteadyClock

_SAVED_S: Final = 0.25
"""Requests of so many seconds that were not sent may be sent later."""

_LONGEST_SLEEP_S: Final = 0.1
_SHORTEST_LEASE: Final = 0.7
"""Shortest lease, as a share of the usual length. So all leases do not end at one time."""

_RENEWED_BEFORE: Final = 0.15
"""Share of a lease that is left when it is renewed, and at most `_RENEWED_BEFORE_S`."""

_RENEWED_BEFORE_S: Final = 1.5
_LOOK_AGAIN_S: Final = 1.0
"""How often a worker that has less than its share looks whether others have given something back."""

_ENOUGH: Final = 0.9
"""Share of its fair share with which a worker does not look again before its lease ends."""

_MORE_THAN_USED: Final = 1.5
_HUNGRY: Final = 0.2
"""A worker wants more if requests have waited for more than this share of its lease."""

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0
_PATIENCE_S: Final = 60.0
"""How long the ledger may be out of reach once there is no lease."""

_CLOCK_GOOD_S: Final = 600.0
_ROUNDING: Final = 1e-6


class Ledger(Protocol):
    """The object that has the leases of all workers."""

    async def touch(self) -> float:
        """Write the clock's object. Return when, in seconds since 1970, by the store's clock."""

    async def read(self) -> tuple[bytes, str | None]:
        """Return the leases and their version. Empty and None if there is none."""

    async def replace(self, content: bytes, version: str | None) -> bool:
        """Write the leases if that version is still there. Return whether they were written."""


class Budget(Struct, frozen=True, kw_only=True):
    """What one host may be asked."""

    per_s: float
    """Requests a second, by all workers together."""

    n_workers: int = 1
    """Workers of this gather that may start at about the same time."""


class HostGovernor:
    """One worker's requests to one host. Belongs to one event loop."""

    def __init__(self, ledger: Ledger, budget: Budget, *, clock: Callable[[], float] | None = None) -> None:
        """Ask for nothing yet.

        The budget of all workers may be changed. The clock is the worker's own.
        """
        self.budget = budget
        self._ledger = ledger
        self._clock = clock or SteadyClock()
        self._store_clock = StoreClock()
        self._clock_good_until_s = float("-inf")
        self._name = os.urandom(8).hex()
        self._lease: Lease | None = None
        self._ends_s = float("-inf")
        self._due_s = self._renew_at_s = float("-inf")
        self._n_seen = 1
        self._sending = asyncio.Lock()
        self._credit = 0.0
        self._credited_s = self._began_s = 0.0
        self._n_sent = 0
        self._waited_s = 0.0
        self._renewing: asyncio.Task[None] | None = None

    async def turn(self) -> None:
        """Wait until another request may be sent.

        Raises:
            StoreError: The leases have been out of reach for a minute.
        """
        async with self._sending:  # first come, first served
            while pause_s := self._pause_s(self._clock()):
                before_s = self._clock()
                if self._renewing is None or self._ends_s > before_s:
                    await asyncio.sleep(min(pause_s, _LONGEST_SLEEP_S))
                else:
                    await asyncio.wait((self._renewing,), timeout=_LONGEST_SLEEP_S)
                self._waited_s += self._clock() - before_s

    def _pause_s(self, now_s: float) -> float:
        """Return how long the next request waits. 0 means that it may be sent, and counts it."""
        self._keep(now_s)
        lease = self._lease
        if lease is None or now_s >= self._ends_s or not lease.per_s:
            self._credited_s = now_s
            return _LONGEST_SLEEP_S
        most = max(1.0, lease.per_s * _SAVED_S)
        self._credit = min(self._credit + (now_s - self._credited_s) * lease.per_s, most)
        self._credited_s = now_s
        if self._credit >= 1 - _ROUNDING:
            self._credit -= 1
            self._n_sent += 1
            return 0.0
        return (1 - self._credit) / lease.per_s

    def _keep(self, now_s: float) -> None:
        """Begin to renew the lease if it is time to."""
        task = self._renewing
        if task is not None and task.done():
            self._renewing = None
            task.result()
        if self._renewing is None and now_s >= self._renew_at_s:
            self._renewing = asyncio.ensure_future(self._renew())

    async def _renew(self) -> None:
        """Replace the lease, however often others are faster.

        Raises:
            StoreError: There is no lease, and the ledger is out of reach.
        """
        pause_s, out_of_reach_since_s = _FIRST_PAUSE_S, None
        while True:
            try:
                is_done = await self._try_to_renew()
            except StoreError:
                now_s = self._clock()
                out_of_reach_since_s = out_of_reach_since_s or now_s
                if now_s > max(out_of_reach_since_s, self._ends_s) + _PATIENCE_S:
                    raise
                is_done = False
            if is_done:
                return
            await asyncio.sleep(random.uniform(0, pause_s))  # noqa: S311 # no secret
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _try_to_renew(self) -> bool:
        """Look at the leases and replace one's own. Return False if another worker was faster."""
        await self._set_clock()
        content, version = await self._ledger.read()
        looked_s = self._clock()
        now_s = self._store_clock.at(looked_s)
        leases = parse_ledger(content, now_s=now_s)
        mine = leases.pop(self._name, None)
        n_expected = self._n_expected(was_forgotten=mine is None and looked_s < self._ends_s)
        lease = take_lease(
            leases,
            now_s=now_s,
            wants_per_s=self._wanted_per_s(looked_s),
            budget_per_s=self.budget.per_s,
            n_expected=n_expected,
            lasts=random.uniform(_SHORTEST_LEASE, 1),  # noqa: S311 # no secret
        )
        if mine is not None and looked_s < self._due_s and lease.per_s <= mine.per_s:
            self._renew_at_s = min(looked_s + _LOOK_AGAIN_S, self._due_s)
            return True  # others have given nothing back yet
        if not await self._ledger.replace(ledger_content(leases | {self._name: lease}), version):
            return False
        self._n_seen = max(n_expected, len(leases) + 1)
        self._hold(lease, looked_s, lasts_s=lease.until_s - now_s)
        return True

    def _hold(self, lease: Lease, now_s: float, *, lasts_s: float) -> None:
        self._lease, self._ends_s = lease, now_s + lasts_s
        self._due_s = self._renew_at_s = self._ends_s - min(_RENEWED_BEFORE * lasts_s, _RENEWED_BEFORE_S)
        if lease.per_s < _ENOUGH * min(lease.wants_per_s, lease.budget_per_s / self._n_seen):
            self._renew_at_s = min(self._due_s, now_s + _LOOK_AGAIN_S)
        self._began_s, self._n_sent, self._waited_s = self._clock(), 0, 0.0

    def _n_expected(self, *, was_forgotten: bool) -> int:
        """Return how many workers there may be, whatever the ledger says.

        At first these are the others of the gather. Later, the ledger may have been removed or spoilt. Then
        the others have been forgotten, too.
        """
        if self._lease is None:
            return self.budget.n_workers
        return self._n_seen if was_forgotten else 1

    def _wanted_per_s(self, now_s: float) -> float:
        """Return what this worker could use, by what it has used of its lease."""
        took_s = now_s - self._began_s
        if self._lease is None or not took_s or self._waited_s > _HUNGRY * took_s:
            return self.budget.per_s
        return min(_MORE_THAN_USED * self._n_sent / took_s + 1, self.budget.per_s)

    async def _set_clock(self) -> None:
        """Learn the store's time."""
        sent_s = self._clock()
        if sent_s < self._clock_good_until_s:
            return
        written_s = await self._ledger.touch()
        answered_s = self._clock()
        self._store_clock.saw(written_s=written_s, sent_s=sent_s, answered_s=answered_s)
        self._clock_good_until_s = answered_s + _CLOCK_GOOD_S
