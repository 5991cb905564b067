"""Computes histograms whose axis leaves out outliers, so that one late answer does not hide the rest."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pixel_gather.features.report.findings import plain_number
from pixel_gather_bench.figures.labels import Numbers

_MOST_BINS: Final = 40
_ROOM: Final = 0.03
_OVER_P99: Final = 0.5
_OVER_MEDIAN: Final = 8.0
"""An axis ends so far above the 99th percentile, in spans up to it, or at so many times the median.

Or at the greatest value, if that is less.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The part of an axis that is drawn."""

    low: float
    top: float

    def edges(self, n_values: int) -> Numbers:
        """Return the edges of the bins: more bins for more values."""
        n_bins = int(np.clip(2 * np.sqrt(n_values), 8, _MOST_BINS))
        return np.linspace(self.low, self.top, n_bins + 1)


def span_of(values: Numbers) -> Span:
    """Return the span that shows the values without their long tail. It is never empty.

    Args:
        values: At least one.
    """
    low, median, p99, top = np.percentile(values, (0, 50, 99, 100))
    if p99 > low:
        top = min(top, p99 + _OVER_P99 * (p99 - low))
    if median > 0:
        top = min(top, max(_OVER_MEDIAN * median, low))
    if top > low:
        return Span(low=float(low), top=float(top))
    return Span(low=float(low - 0.1 * abs(low)), top=float(low + (0.1 * abs(low) or 1.0)))


def span_around(spans: Sequence[Span], also: Sequence[float]) -> Span:
    """Return the span that covers several spans and some further values."""
    low = min([*(span.low for span in spans), *also])
    top = max([*(span.top for span in spans), *also])
    room = _ROOM * (top - low)
    return Span(low=max(0.0, low - room), top=top + room)


def counts_in(values: Numbers, edges: Numbers) -> Numbers:
    """Return the number of values in each bin. Values beyond the last edge are not counted."""
    counts, _ = np.histogram(values, edges)
    return counts


def tail_of(values: Numbers, span: Span, *, unit: str) -> str:
    """Return a line that says how many values lie beyond the axis, and how far. Empty for none."""
    n_beyond = int((values > span.top).sum())
    return f"\n({n_beyond:,} beyond, up to {plain_number(values.max())} {unit})" if n_beyond else ""
