"""States the findings of runs in sentences, like those of the report of 2018. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from pixel_gather.core.results.published_runs import (
    BEST,
    LINEAR_UP_TO_THREADS,
    MOST_EFFICIENT_THREADS,
    ONE_THREAD,
)
from pixel_gather.core.results.timed_run import Run
from pixel_gather.core.results.timings import Timings
from pixel_gather.features.report.in_flight import cut_into_slices

_FEWEST: Final = 30
"""With fewer sources, nothing is said about window sizes and slow sources."""

_FEWEST_POINTS: Final = 3
_FEWEST_SLICES: Final = 10
_FLAT: Final = 0.9
"""Throughput counts as flat once it reaches this share of the highest."""

_WEAK: Final = 0.3
"""With a weaker correlation, size hardly matters."""

_LATE: Final = 10
"""A source is late if it takes so many times the median."""


def state_findings(runs: Sequence[Run], *, with_published: bool = False) -> tuple[str, ...]:
    """Return sentences that a reader can compare with the published ones.

    Runs that read nothing are ignored.
    """
    shown = [run for run in runs if len(run.timings)]
    said: list[str] = []
    if shown:
        best = best_run(shown)
        said += _say_of_one_run(best, "" if len(shown) == 1 else f" ({best.name})")
        for name, its_runs in group_by_series(shown).items():
            said += _say_of_series(name, its_runs)
    if len(shown) == 1:
        said += _within(shown[0])
    return (*said, *(_OF_2018 if with_published else ()))


def best_run(runs: Iterable[Run]) -> Run:
    """Return the first run with the highest typical throughput."""
    return max(runs, key=lambda run: run.typical_per_s)


def group_by_series(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return each engine's runs by rising concurrency. Each cube is a series of its own."""
    by_series: dict[str, list[Run]] = {}
    for run in runs:
        by_series.setdefault(run.series, []).append(run)
    return {name: sorted(its_runs, key=lambda run: run.concurrency) for name, its_runs in by_series.items()}


def plain_number(value: float) -> str:
    """Return a number for an axis or a note: ``1,200``, ``0.25``, never ``1e3``."""
    if abs(value) >= 1000 or value == round(value):  # noqa: PLR2004 # as many digits as one reads
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _say_of_one_run(run: Run, whose: str) -> Iterator[str]:
    timings = run.timings
    open_s, read_s = float(np.median(timings.open_s)), float(np.median(timings.read_s))
    both_s = open_s + read_s
    if not open_s:
        yield f"Nothing was opened: headers were known before{whose}."
    elif both_s > 0:
        more = "more" if open_s > read_s else "less"
        yield (
            f"Opening took {more} time than reading{whose}: {open_s / both_s:.1%} of both, "
            f"{_ms(open_s)} against {_ms(read_s)} a source."
        )
    if len(timings) < _FEWEST:
        return
    if (correlation := _correlation(timings)) is not None:
        verdict = "hardly matters" if abs(correlation) < _WEAK else "matters"
        yield (f"A window's size {verdict}{whose}: correlation with the time to read it {correlation:.2f}.")
    median_s, longest_s = float(np.median(timings.total_s)), float(timings.total_s.max())
    if longest_s > _LATE * median_s > 0:
        yield (
            f"The slowest source took {longest_s / median_s:,.0f} times the median{whose}: "
            f"{_ms(longest_s)}. In a short run that decides the wall time, but not the typical throughput."
        )


def _correlation(timings: Timings) -> float | None:
    """Return the correlation of sizes and reading times; None if one of them is constant."""
    sizes = timings.nbytes.astype("float64")
    if not np.ptp(sizes) or not np.ptp(timings.read_s):
        return None
    return float(np.corrcoef(sizes, timings.read_s)[0, 1])


def _say_of_series(name: str, runs: Sequence[Run]) -> Iterator[str]:
    """Say where one series over concurrency flattens, and where it is most efficient."""
    found: dict[int, float] = {}
    for run in runs:
        if not run.is_adaptive:
            found[run.concurrency] = max(found.get(run.concurrency, 0.0), run.typical_per_s)
    if len(found) < _FEWEST_POINTS:
        return
    most = max(found, key=lambda n: found[n])
    yield f"{name}: {_flattening(found, most, 'at a time')}"
    efficient = max(found, key=lambda n: found[n] / max(n, 1))
    at_most = "" if efficient == most else f"; at {most:,} it is {_rate(found[most] / max(most, 1))}"
    yield (
        f"{name}: best efficiency at {efficient:,} at a time, "
        f"{_rate(found[efficient] / max(efficient, 1))} for each of them{at_most}."
    )


def _flattening(found: dict[int, float], most: int, what: str) -> str:
    flat = min(n for n, per_s in found.items() if per_s >= _FLAT * found[most])
    reached = f"the most is {_rate(found[most])} at {most:,} {what}"
    if flat == max(found):
        return f"throughput rises up to the highest number that was tried: {reached}."
    if flat == most:
        return f"throughput is best at {most:,} {what}, with {_rate(found[most])}, and less above."
    return f"throughput flattens from {flat:,} {what}, with {_rate(found[flat])}; {reached}."


def _within(run: Run) -> Iterator[str]:
    """Say where throughput flattens within one run, if its number of sources in flight varied enough."""
    slices = cut_into_slices(run.timings)
    if slices is None or len(slices.in_flight) < _FEWEST_SLICES:
        return
    in_flight = np.round(slices.in_flight).astype(int)
    found = {
        int(n): float(np.median(slices.ended_per_s[in_flight == n])) for n in np.unique(in_flight) if n > 0
    }
    if len(found) < _FEWEST_POINTS:
        return
    most = max(found, key=lambda n: found[n])
    yield f"Within the run {_flattening(found, most, 'in flight')}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms"


def _rate(per_s: float) -> str:
    return f"{plain_number(round(per_s, 1) if per_s < 1000 else per_s)} sources/s"  # noqa: PLR2004 # digits that one reads


_OF_2018: Final = (
    (
        f"In 2018, opening took {ONE_THREAD.open_share:.1%} with 1 thread and "
        f"{BEST.open_share:.1%} with {BEST.concurrency}. Throughput rose almost linearly up to about "
        f"{LINEAR_UP_TO_THREADS} threads. Then it flattened, with {BEST.times.typical_per_s} "
        f"sources/s at {BEST.concurrency}. Efficiency was best at {MOST_EFFICIENT_THREADS} threads."
    ),
)
