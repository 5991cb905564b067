"""The rate of requests to a back end that throttles. Pure: the clock is an argument.

Without a 503 there is no rate. The first 503 stops all requests for a round trip. What the store granted
meanwhile is the first rate. It grows fast until the next 503, and slowly from then on. Slow growth counts
the requests that were granted since the last 503, not seconds, and rises with their number. So a slow and
a fast store refuse the same share of requests while the rate is found. A small growth for each second is
added. It is the same at every rate, so that workers that share a store come to equal rates.

Some stores refuse one request in fifty at every rate. A lower rate does not help there. Such a store
refuses again soon after each cut. After some such cuts a 503 no longer cuts the rate. The rate is then
only capped at what `_FLOWS` connections of TCP would send. This holds while the refused share stays small
and near what it was.

A worker outlives its shards and may be frozen for minutes between them. Such a pause does not let the rate
grow, and does not count as time in which the store granted nothing.
"""

from collections import deque
from math import log2, sqrt
from typing import Final, NamedTuple

_BELOW: Final = 0.9
"""After a 503 the rate is this share of what the store granted."""

_FAR_BELOW: Final = 0.75
"""The same after fast growth, when the rate is further above what the store grants."""

_DOUBLING_S: Final = 0.5
"""Until the second 503 the rate doubles in this time, but never more than once per answer."""

_IDLE_S: Final = 1.0
"""If no request has had to wait for more than this time, the rate does not grow for that time."""

_SLOW_GROWTH: Final = 0.0005
_SLOW_GROWTH_DOUBLES_AFTER: Final = 600
"""Granted requests since the last 503 after which slow growth has doubled. It rises with their square."""

_GRANTED_AFTER_A_CUT: Final = 150
"""If a 503 comes before so many requests were granted, the cut was in vain. A store that throttles grants
more: slow growth undoes a cut after some 280."""

_VAIN_CUTS: Final = 3
"""Cuts in vain, less the other cuts, that show that the store refuses at every rate."""

_MORE: Final = 2.0
_MORE_BY: Final = 0.05
"""503s cut the rate again once the refused share exceeds `_MORE` times the earlier share (at most
`_MOST_REFUSED`), plus `_MORE_BY`."""

_MOST_REFUSED: Final = 0.12
"""If the store refuses a larger share, 503s do not begin to be ignored. Many workers may share it."""

_FLOWS: Final = 8
"""While 503s are ignored, a worker may send as much as so many connections of TCP; see `tcp_per_s`."""

_STEADY_GROWTH: Final = 0.35
"""Each second, the rate grows by this many requests a second."""

_BURST_S: Final = 0.02
"""An idle store may be sent this many seconds' worth of requests at once."""

_MEMORY: Final = 128
"""Answers from which the granted rate and the refused share are computed."""

_LEAST_SAMPLE: Final = 16
_LEAST_SPAN_S: Final = 1.0
"""The granted rate is known from `_LEAST_SAMPLE` answers, or from answers over this time."""

_FORGET_S: Final = 5.0
_LOWEST: Final = 2.0
_LEAST_ROUND_TRIP_S: Final = 0.05
_ROUNDING: Final = 1e-6


class Rate:
    """The requests per second of one back end. ``None`` while it has not throttled."""

    def __init__(self) -> None:
        self.per_s: float | None = None
        self.round_trip_s = _LEAST_ROUND_TRIP_S
        """One and a half times the recent time to the first byte."""

        self._answers: deque[tuple[float, bool]] = deque(maxlen=_MEMORY)
        self._n_after_cut = 0
        self._n_vain_cuts = 0
        self._uncut_per_s = 0.0
        self._refused_anyway: float | None = None
        self._grows_fast = True
        self._since = 0
        self._grown_s = 0.0
        self._waited_s = float("-inf")
        self._stopped_until_s: float | None = None
        self._deaf_until_s = 0.0
        self._credit = 0.0
        self._credited_s = 0.0

    def record_answer(self, now_s: float, *, first_byte_s: float) -> None:
        """Record an answer."""
        self._answers.append((now_s, True))
        self._n_after_cut += now_s >= self._deaf_until_s
        seen = max(1.5 * first_byte_s, _LEAST_ROUND_TRIP_S)
        self.round_trip_s += (seen - self.round_trip_s) / 8
        if self.per_s is None or now_s - self._waited_s > self.round_trip_s:
            return  # requests did not use up the rate, so the answer does not show that it is too low
        self._since += 1
        passed_s = now_s - self._grown_s
        fast = min(passed_s / _DOUBLING_S, 1.0)
        slow = _SLOW_GROWTH * (1 + (self._since / _SLOW_GROWTH_DOUBLES_AFTER) ** 2)
        slow += log2(1 + _STEADY_GROWTH * passed_s / self.per_s)
        self.per_s *= 2 ** min(fast if self._grows_fast else slow, fast)
        self._grown_s = now_s

    def record_throttle(self, now_s: float) -> bool:
        """Record a 503. Several within one round trip count once.

        Returns:
            Whether it cuts the rate.
        """
        self._answers.append((now_s, False))
        if now_s < self._deaf_until_s or (self.per_s is not None and self._decide_to_ignore(self.per_s)):
            return False
        self._deaf_until_s = now_s + self.round_trip_s
        self._since = self._n_after_cut = 0
        if self.per_s is None:
            self._stopped_until_s = self._deaf_until_s
            self.per_s = _LOWEST
        else:
            below = _FAR_BELOW if self._grows_fast else _BELOW
            self._grows_fast = False
            granted = self._granted_rate(now_s)
            per_s = granted.per_s if granted.is_known else self.per_s
            self.per_s = max(min(below * per_s, self.per_s), _LOWEST)
        return True

    def take_turn(self, now_s: float) -> float:
        """Return 0 and count the next request if it may be sent, or else how long it has to wait."""
        if self.per_s is None:
            return 0.0
        if self._stopped_until_s is not None:
            if now_s < self._stopped_until_s:
                return self._stopped_until_s - now_s
            granted = self._granted_rate(self._stopped_until_s)
            self._stopped_until_s = None
            self.per_s = max(_BELOW * granted.per_s * granted.share**0.5, _LOWEST)
            self._credit, self._credited_s = 1.0, now_s
        most = max(1.0, self.per_s * _BURST_S)
        self._credit = min(self._credit + (now_s - self._credited_s) * self.per_s, most)
        self._credited_s = now_s
        if self._credit >= 1 - _ROUNDING:
            self._credit -= 1
            return 0.0
        if now_s - self._waited_s > _IDLE_S:
            self._grown_s = now_s  # until now no request had to wait
        self._waited_s = now_s
        return (1 - self._credit) / self.per_s

    @property
    def in_flight(self) -> float:
        """Twice the number of requests in flight that use up the rate: as many again wait for their turn."""
        return 0.0 if self.per_s is None else 2 * self.per_s * self.round_trip_s

    def _decide_to_ignore(self, per_s: float) -> bool:
        """Decide whether a 503 is ignored. It is if the store refuses as many at every rate.

        The first such 503 undoes the cuts in vain, up to the cap. Later ones only apply the cap.
        """
        refused = sum(not is_granted for _, is_granted in self._answers) / len(self._answers)
        fair_per_s = _FLOWS * tcp_per_s(refused, round_trip_s=self.round_trip_s)
        if self._refused_anyway is not None:
            if refused <= min(_MORE * self._refused_anyway, _MOST_REFUSED) + _MORE_BY:
                self.per_s = max(min(per_s, fair_per_s), _LOWEST)
                return True
            self._refused_anyway, self._n_vain_cuts = None, 0
        elif not self._grows_fast:
            was_vain = self._n_after_cut < _GRANTED_AFTER_A_CUT
            self._n_vain_cuts = max(self._n_vain_cuts + (1 if was_vain else -1), 0)
            if self._n_vain_cuts >= _VAIN_CUTS and refused <= _MOST_REFUSED:
                self._refused_anyway = refused
                self.per_s = max(min(self._uncut_per_s, fair_per_s), per_s)
                return True
        if not self._n_vain_cuts:
            self._uncut_per_s = per_s
        return False

    def _granted_rate(self, now_s: float) -> "_Granted":
        """Return the rate granted until ``now_s``. Later answers count, too."""
        n = n_granted = 0
        oldest_s = now_s
        for at_s, is_granted in reversed(self._answers):
            age_s = now_s - at_s
            if age_s > _FORGET_S or (n >= _LEAST_SAMPLE and age_s > 2 * self.round_trip_s):
                break
            n, n_granted, oldest_s = n + 1, n_granted + is_granted, at_s
        span_s = now_s - oldest_s
        return _Granted(
            per_s=n_granted / max(span_s, self.round_trip_s),
            share=n_granted / max(n, 1),
            is_known=n >= _LEAST_SAMPLE or span_s >= _LEAST_SPAN_S,
        )


def tcp_per_s(lost: float, *, round_trip_s: float) -> float:
    """Return the packets per second of a connection of TCP.

    Many workers may share a store, and none can tell whether its own rate matters. TCP shares networks by
    this rule: https://www.rfc-editor.org/rfc/rfc5348#section-3.1, with a time-out of four round trips.

    Args:
        lost: Share of the packets that are lost, above 0.
        round_trip_s: Time of a round trip.
    """
    time_outs = 12 * sqrt(3 * lost / 8) * lost * (1 + 32 * lost * lost)
    return 1 / (round_trip_s * (sqrt(2 * lost / 3) + time_outs))


class _Granted(NamedTuple):
    """What a store granted within some time."""

    per_s: float
    share: float
    """Granted requests, as a share of all."""

    is_known: bool
    """Whether there were enough answers to tell."""
