"""What figures of runs are made of: labels, units, spans, thinned curves, chosen runs. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count, pairwise
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.results.timed_run import Run
from pixel_gather.features.report.findings import best_run, group_by_series, plain_number

type Numbers = np.ndarray[Any, np.dtype[Any]]

LONGEST: Final = 28
"""Most characters of a name in a legend."""

_SECONDS_FROM_S: Final = 10.0
"""From this median on, times are shown in seconds."""


class FigureUnit(Struct, frozen=True, kw_only=True):
    """A unit, and how many of it make one second or one byte."""

    name: str
    per_one: float


def short_label(name: str) -> str:
    """Return a name that is safe for matplotlib: printable, on one line, no formula, cut in the middle."""
    printable = "".join(each if each.isprintable() else " " for each in name).strip()
    if len(printable) > LONGEST:
        n_last = LONGEST // 2
        printable = f"{printable[: LONGEST - 1 - n_last]}…{printable[-n_last:]}"
    # matplotlib reads $…$ as mathematics, and leaves labels with a leading _ out of legends
    return ("\u2009" if printable.startswith("_") else "") + printable.replace("$", r"\$")


def unique_labels(names: Sequence[str]) -> tuple[str, ...]:
    """Return short, unique labels. Equal ones get numbers in their order."""
    labels = [short_label(name) for name in names]
    n_of = Counter(labels)
    numbers = {label: count(1) for label in labels}
    return tuple(f"{label} ({next(numbers[label])})" if n_of[label] > 1 else label for label in labels)


def label_with_number(name: str, concurrency: int) -> str:
    """Return a run's label with its concurrency, unless the name contains it: ``fast, 12``."""
    if re.search(rf"(?<![\d(]){concurrency}(?!\d)", name):
        return name
    return f"{name} · {concurrency:,} at a time"


def unit_of_times(times_s: Numbers) -> FigureUnit:
    """Return the unit of times: seconds for a median of 10 s or more, else milliseconds."""
    is_long = len(times_s) and np.median(times_s) >= _SECONDS_FROM_S
    return FigureUnit(name="s", per_one=1.0) if is_long else FigureUnit(name="ms", per_one=1e3)


def unit_of_sizes(nbytes: Numbers) -> FigureUnit:
    """Return the unit of sizes, chosen by their median."""
    typical = float(np.median(nbytes)) if len(nbytes) else 0.0
    for name, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if typical >= size:
            return FigureUnit(name=name, per_one=1 / size)
    return FigureUnit(name="bytes", per_one=1.0)


_MOST_BINS: Final = 40
_ROOM: Final = 0.03
_OVER_P99: Final = 0.5
_OVER_MEDIAN: Final = 8.0
"""An axis ends so far above the 99th percentile, in spans up to it, or at so many times the median.

Or at the greatest value, if that is less.
"""


class Span(Struct, frozen=True, kw_only=True):
    """The part of an axis that is drawn. One late answer does not hide the rest."""

    low: float
    top: float

    def edges(self, n_values: int) -> Numbers:
        """Return the edges of the bins: more bins for more values."""
        n_bins = int(np.clip(2 * np.sqrt(n_values), 8, _MOST_BINS))
        return np.linspace(self.low, self.top, n_bins + 1)


def span_of(values: Numbers) -> Span:
    """Return the span that shows the values, at least one, without their long tail. It is never empty."""
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


def tail_of(values: Numbers, span: Span, *, unit: str) -> str:
    """Return a line that says how many values lie beyond the axis, and how far. Empty for none."""
    n_beyond = int((values > span.top).sum())
    return f"\n({n_beyond:,} beyond, up to {plain_number(values.max())} {unit})" if n_beyond else ""


def kept_indexes(values: Numbers, *, most: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the indexes of the points to draw: minimum and maximum of each stretch, and both ends.

    Args:
        values: The curve, at even steps.
        most: Most points in the result; at least 4.

    Returns:
        Ascending indexes. All indexes if the curve has at most ``most`` points.
    """
    if len(values) <= most:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), (most - 2) // 2 + 1).astype("int64")
    extremes = [
        start + each(values[start:stop]) for start, stop in pairwise(edges) for each in (np.argmin, np.argmax)
    ]
    return np.unique([0, *extremes, len(values) - 1])


_MOST_CHOSEN: Final = 5
_FEW: Final = (1, 2, 3)
_NOTED_CONCURRENCY: Final = 12
"""The number of threads for which the report of 2018 found the most sources per thread."""


def run_with_fewest(runs: Sequence[Run]) -> Run:
    """Return the best of the runs with the lowest concurrency."""
    least = min(run.concurrency for run in runs)
    return best_run(run for run in runs if run.concurrency == least)


def fewest_and_best(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Return the engine's run with the lowest concurrency, unless it is the best, and the best run."""
    best = best_run(runs)
    fewest = run_with_fewest([run for run in runs if run.engine == best.engine])
    return (fewest, best) if fewest.concurrency != best.concurrency else (best,)


def few_and_best(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Return the best engine's runs with 1, 2 and 3 sources at a time, or with its fewest, and its best."""
    best = best_run(runs)
    same = [run for run in runs if run.engine == best.engine]
    few = [best_run(found) for n in _FEW if (found := [run for run in same if run.concurrency == n])]
    return _once([*(few or [run_with_fewest(same)]), best])


def choose_runs(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Return the runs to draw in colour: five at most, by falling throughput.

    They are the best run, the one with the lowest concurrency, the one with 12, and the best of each other
    series. Runs spread over the concurrencies fill up the rest.
    """
    noted = [run for run in runs if run.concurrency == _NOTED_CONCURRENCY]
    others = [best_run(its_runs) for its_runs in group_by_series(runs).values()]
    by_concurrency = sorted(runs, key=lambda run: run.concurrency)
    evenly = np.linspace(0, len(runs) - 1, min(_MOST_CHOSEN, len(runs))).round().astype(int)
    between = [by_concurrency[index] for index in evenly]
    first = [best_run(runs), run_with_fewest(runs), *noted[:1], *others, *between]
    return tuple(sorted(_once(first)[:_MOST_CHOSEN], key=lambda run: -run.typical_per_s))


def _once(runs: Iterable[Run]) -> tuple[Run, ...]:
    return tuple({id(run): run for run in runs}.values())
