"""Decide when a GET is late enough to be sent a second time, from the back end's recent answers. Pure.

Times to the first byte are compared. They hardly depend on the size of the range: the 16 KB of a header
predict those of an 8 MB range. A body that stops arriving is handled by the stall time-out.
"""

from collections import deque
from math import ceil
from typing import Final

from msgspec import Struct

_NEW_ANSWERS: Final = 8
"""The quantile is computed again after this many answers. Sorting a few hundred numbers takes 10 us."""


class HedgeSettings(Struct, frozen=True, kw_only=True):
    """Which requests get a hedge: the same GET, sent again while the first is in flight."""

    quantile: float = 0.95
    """A request is late after this quantile of the recent times to the first byte, times ``margin``."""

    margin: float = 1.5
    """With 1.0, 5 % of all requests to a healthy store would get a hedge."""

    least_late_s: float = 0.02
    """No request is late before this, however fast the store."""

    min_answers: int = 20
    """Answers before the first hedge. Of fewer, the 95th percentile is just the slowest."""

    n_recent: int = 256
    """Answers that are remembered."""

    max_share: float = 0.05
    """Most hedges per request. It bounds the extra load on a store that is slow as a whole."""

    max_saved: int = 10
    """Most hedges that can be saved up for later."""

    quiet_s: float = 10.0
    """No hedges for this time after the store throttled."""


class BackEnd:
    """One bucket or host: its recent times to the first byte, and how many hedges it may still get."""

    def __init__(self, settings: HedgeSettings | None) -> None:
        """Start without answers. Without settings there are no hedges."""
        self._is_on = settings is not None
        self._settings = settings = settings or HedgeSettings()
        self._recent: deque[float] = deque(maxlen=settings.n_recent)
        self._n_news = 0
        self._late_s: float | None = None
        self._price = ceil(1 / settings.max_share)
        self._n_saved = 0
        self._quiet_until_s = float("-inf")

    def sent(self) -> None:
        """Count a request. Each allows a fraction of a hedge."""
        self._n_saved = min(self._n_saved + 1, self._settings.max_saved * self._price)

    def record_answer(self, first_byte_s: float) -> None:
        """Record the time to the first byte, or the time after which a request was given up."""
        self._recent.append(first_byte_s)
        self._n_news += 1

    def record_throttle(self, *, now_s: float) -> None:
        """Record that the store wants fewer requests."""
        self._quiet_until_s = now_s + self._settings.quiet_s

    def late_s(self) -> float | None:
        """Return after how many seconds without a byte a request is late. None: too few answers yet."""
        if not self._is_on or len(self._recent) < self._settings.min_answers:
            return None
        if self._late_s is None or self._n_news >= _NEW_ANSWERS:
            self._n_news = 0
            usual_s = sorted(self._recent)[int(self._settings.quantile * len(self._recent))]
            self._late_s = max(usual_s * self._settings.margin, self._settings.least_late_s)
        return self._late_s

    def take_hedge(self, *, now_s: float) -> bool:
        """Count a late request that may be sent again. Return whether it may."""
        if self._n_saved < self._price or now_s < self._quiet_until_s:
            return False
        self._n_saved -= self._price
        return True
