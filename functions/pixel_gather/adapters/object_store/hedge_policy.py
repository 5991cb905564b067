"""When a GET is late enough to be sent a second time: judged by its back end's recent answers. Pure.

What is compared is the time to the first byte, which hardly depends on how much is asked for: a header's
16 KB tell what to expect of an 8 MB range. A body that stops arriving is the stall time-out's business.
"""

from collections import deque
from dataclasses import dataclass
from math import ceil
from typing import Final

_NEWS: Final = 8
"""So many answers later the percentile is computed again: sorting some hundred numbers takes 10 us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HedgeSettings:
    """Which requests get a hedge: the same GET again, while the first is still under way."""

    quantile: float = 0.95
    """Of the recent times to the first byte; whatever is later than that has a claim to a hedge..."""

    margin: float = 1.5
    """...once it is so many times as late. 1.0 would hedge 5 % of all requests to a store that is well."""

    least_late_s: float = 0.02
    """Never sooner, however fast the store."""

    min_answers: int = 20
    """Answers before the first hedge: with fewer, the 95th percentile is but the latest of them."""

    n_recent: int = 256
    """Answers that are remembered."""

    max_share: float = 0.05
    """Hedges per request, at most. A store that is slow as a whole gets no more than that on top."""

    max_saved: int = 10
    """Hedges that a long calm can save up."""

    quiet_s: float = 10.0
    """No hedge for so long after the store has throttled."""


class BackEnd:
    """What is known of one bucket or host: how soon it answers, and what hedges may still be spent on it."""

    def __init__(self, settings: HedgeSettings | None) -> None:
        """Know nothing yet; without settings there are no hedges."""
        self._is_on = settings is not None
        self._settings = settings = settings or HedgeSettings()
        self._recent: deque[float] = deque(maxlen=settings.n_recent)
        self._n_news = 0
        self._late_s: float | None = None
        self._price = ceil(1 / settings.max_share)
        self._n_saved = 0
        self._quiet_until_s = float("-inf")

    def sent(self) -> None:
        """Take note of a request, which pays for a part of a hedge."""
        self._n_saved = min(self._n_saved + 1, self._settings.max_saved * self._price)

    def answered(self, first_byte_s: float) -> None:
        """Take note of how long an answer took to begin, or how long one was waited for in vain."""
        self._recent.append(first_byte_s)
        self._n_news += 1

    def throttled(self, *, now_s: float) -> None:
        """Take note that the store wants fewer requests."""
        self._quiet_until_s = now_s + self._settings.quiet_s

    def late_s(self) -> float | None:
        """Return after how many seconds without a byte a request is late; None until enough is known."""
        if not self._is_on or len(self._recent) < self._settings.min_answers:
            return None
        if self._late_s is None or self._n_news >= _NEWS:
            self._n_news = 0
            usual_s = sorted(self._recent)[int(self._settings.quantile * len(self._recent))]
            self._late_s = max(usual_s * self._settings.margin, self._settings.least_late_s)
        return self._late_s

    def takes_hedge(self, *, now_s: float) -> bool:
        """Tell whether a late request may be sent again, and if so, count that."""
        if self._n_saved < self._price or now_s < self._quiet_until_s:
            return False
        self._n_saved -= self._price
        return True
