"""How all workers share the requests a second that one host allows. Pure.

One small object for each host, the ledger, has a lease of each worker: how many requests a second it may
send, and until when. A worker replaces its own lease if nobody has changed the ledger since it looked. The
leases that run add up to the budget at most. A worker that dies needs no care, as its lease ends.

All times are those of the store's clock (`StoreClock`). So workers agree, whatever their own clocks say.
"""

from collections.abc import Iterable, Mapping
from math import inf, isfinite
from typing import Final

import msgspec
from msgspec import Struct

_USED: Final = 0.98
"""Share of a budget that is given away. Requests do not arrive as evenly as they are sent."""

LEAST_LEASE_S: Final = 2.0
LONGEST_LEASE_S: Final = 60.0
RENEWALS_PER_S: Final = 2.0
"""How often a ledger is replaced by all workers together. Each look and PUT takes a tenth of a second, and
those that another PUT came before are made again."""

_REQUESTS_OF_A_LEASE: Final = 4.0
"""A lease is worth at least so many requests, so a slow host is asked more often than its ledger."""

_CLOCKS_DIFFER_S: Final = 5.0
"""A lease that ends so much later than any may is not ours to believe."""

_MOST_LEASES: Final = 10_000
_LONGEST_NAME: Final = 64


class Lease(Struct, frozen=True, kw_only=True):
    """What one worker may send."""

    until_s: float
    """End, in seconds since 1970 by the store's clock."""

    per_s: float
    """Requests a second. 0 for a worker that waits until others give something back."""

    wants_per_s: float
    """What it could use."""

    budget_per_s: float
    """What its request or deployment allows the host to be asked by all workers. The lowest one counts."""

    @property
    def is_sound(self) -> bool:
        """Whether a worker could have written it."""
        return (
            all(isfinite(each) for each in (self.until_s, self.per_s, self.wants_per_s, self.budget_per_s))
            and 0 <= self.per_s <= self.budget_per_s
            and self.wants_per_s >= 0
            and self.budget_per_s > 0
        )


type Leases = Mapping[str, Lease]
"""By the name of their worker."""


def parse_ledger(content: bytes, *, now_s: float) -> dict[str, Lease]:
    """Return the leases that run. What no worker could have written is left out.

    Args:
        content: The ledger; empty if there is none.
        now_s: The time by the store's clock.
    """
    try:
        found = msgspec.json.decode(content, type=dict[str, Lease])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    if len(found) > _MOST_LEASES:
        return {}
    latest_s = now_s + LONGEST_LEASE_S + _CLOCKS_DIFFER_S
    return {
        name: lease
        for name, lease in found.items()
        if len(name) <= _LONGEST_NAME and lease.is_sound and now_s < lease.until_s <= latest_s
    }


def ledger_content(leases: Leases) -> bytes:
    """Return the ledger as it is stored."""
    return msgspec.json.encode(leases)


def lease_s(n_workers: int, budget_per_s: float) -> float:
    """Return how long leases are. More workers have longer ones, so the ledger is not replaced more often."""
    worth_it_s = _REQUESTS_OF_A_LEASE * n_workers / budget_per_s
    return min(max(LEAST_LEASE_S, n_workers / RENEWALS_PER_S, worth_it_s), LONGEST_LEASE_S)


def take_lease(
    others: Leases, *, now_s: float, wants_per_s: float, budget_per_s: float, n_expected: int, lasts: float
) -> Lease:
    """Return a worker's lease: the least of what it wants, its fair share, and what others leave.

    Args:
        others: The leases of all other workers that run.
        now_s: The time by the store's clock.
        wants_per_s: What the worker could use.
        budget_per_s: What its own request or deployment allows.
        n_expected: Workers that are about to start or were there lately, this one included.
        lasts: How much of the usual length the lease lasts, 0 to 1. All should not end at one time.
    """
    lowest_per_s = min([budget_per_s, *(each.budget_per_s for each in others.values())])
    given_per_s = _USED * lowest_per_s
    wants_per_s = min(wants_per_s, given_per_s)
    n_unseen = max(n_expected - 1 - len(others), 0)
    wanted = [wants_per_s, *(each.wants_per_s for each in others.values()), *([inf] * n_unseen)]
    free_per_s = given_per_s - sum(each.per_s for each in others.values())
    return Lease(
        until_s=now_s + lasts * lease_s(len(wanted), lowest_per_s),
        per_s=max(min(wants_per_s, fair_share(given_per_s, wanted), free_per_s), 0.0),
        wants_per_s=wants_per_s,
        budget_per_s=budget_per_s,
    )


def fair_share(total: float, wanted: Iterable[float]) -> float:
    """Return the most that one may get, so that all together get no more than the total."""
    left = total
    smallest_first = sorted(wanted)
    for n_before, each in enumerate(smallest_first):
        share = left / (len(smallest_first) - n_before)
        if each >= share:
            return share
        left -= each
    return total


class StoreClock:
    """The time by the store's clock, from the times at which it says that objects were written.

    Stores tell whole seconds. So the time may be wrong by half a second and half a round trip.
    """

    def __init__(self) -> None:
        self._least_s, self._most_s = -inf, inf

    def saw(self, *, written_s: float, sent_s: float, answered_s: float) -> None:
        """Learn from an object that this worker or another one has written since this worker sent it.

        Args:
            written_s: When it was last written, by the store's clock, in whole seconds.
            sent_s: When this worker began to send it, by its own clock.
            answered_s: When the answer about it was there, by the same clock.
        """
        least_s, most_s = written_s - answered_s, written_s + 1.0 - sent_s
        if least_s > self._most_s or most_s < self._least_s:  # one of the clocks was set
            self._least_s, self._most_s = least_s, most_s
        else:
            self._least_s, self._most_s = max(least_s, self._least_s), min(most_s, self._most_s)

    def at(self, own_s: float) -> float:
        """Return the store's time at a time of the worker's own clock."""
        return own_s + (self._least_s + self._most_s) / 2
