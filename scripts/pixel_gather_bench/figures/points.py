"""Computes the points of figure 2: throughput, efficiency and bytes per second by concurrency. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pixel_gather.core.results import published
from pixel_gather.core.results.run import Run
from pixel_gather.core.results.timings import Floats
from pixel_gather.features.report.in_flight import Slices
from pixel_gather_bench.figures.choosing import run_with_fewest

type Bools = np.ndarray[Any, np.dtype[np.bool_]]

_BASE_SHARE: Final = 0.25
"""Efficiency within a run is relative to the median of this share of slices, with the fewest in flight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """One series by rising concurrency. All arrays have the same length."""

    concurrency: Floats
    per_s: Floats
    efficiency: Floats
    """In percent."""

    mib_per_s: Floats
    """NaN where no bytes were counted."""

    is_adaptive: Bools
    """Whether the run adapted its concurrency while reading."""

    def panels(self) -> tuple[Floats, Floats, Floats]:
        """Return the values of the three panels."""
        return self.per_s, self.efficiency, self.mib_per_s


def points_of_runs(runs: Sequence[Run], *, among: Sequence[Run] | None = None) -> Points:
    """Return the points of one series.

    Args:
        runs: Runs of the series, by rising concurrency.
        among: Efficiency is relative to the lowest concurrency of these runs. None for the series itself.
    """
    concurrency = np.array([max(float(run.concurrency), 1.0) for run in runs])
    per_s = np.array([run.typical_per_s for run in runs])
    base = run_with_fewest(among or runs)
    return Points(
        concurrency=concurrency,
        per_s=per_s,
        efficiency=_percent(per_s / concurrency, base.typical_per_s / max(base.concurrency, 1)),
        mib_per_s=np.array([run.mib_per_s if run.timings.nbytes.any() else np.nan for run in runs]),
        is_adaptive=np.array([run.is_adaptive for run in runs]),
    )


def points_of_slices(slices: Slices) -> Points:
    """Return the points of one run, one per slice of time."""
    order = np.argsort(slices.in_flight, kind="stable")
    in_flight, per_s = slices.in_flight[order], slices.ended_per_s[order]
    n_base = max(1, int(_BASE_SHARE * len(order)))
    each = np.divide(per_s, in_flight, out=np.zeros(len(order)), where=in_flight > 0)
    return Points(
        concurrency=in_flight,
        per_s=per_s,
        efficiency=_percent(each, float(np.median(each[:n_base]))),
        mib_per_s=slices.mib_per_s[order] if slices.mib_per_s.any() else np.full(len(order), np.nan),
        is_adaptive=np.zeros(len(order), dtype=np.bool_),
    )


def points_of_2018() -> Points:
    """Return the published results. Values that were not published are NaN."""
    runs = published.PUBLISHED
    per_s = np.array([run.sources_per_s for run in runs])
    concurrency = np.array([float(run.n_threads) for run in runs])
    return Points(
        concurrency=concurrency,
        per_s=per_s,
        efficiency=_percent(per_s / concurrency, float(per_s[0] / concurrency[0])),
        mib_per_s=np.array([np.nan if run.mib_per_s is None else run.mib_per_s for run in runs]),
        is_adaptive=np.zeros(len(runs), dtype=np.bool_),
    )


def _percent(values: Floats, base: float) -> Floats:
    percent: Floats = 100 * values / base if base > 0 else np.zeros(len(values))
    return percent


def best_of_each(points: Points) -> list[int]:
    """Return the index of the best point for each fixed concurrency, in the order of the points."""
    best: dict[float, int] = {}
    for index, (concurrency, per_s) in enumerate(zip(points.concurrency, points.per_s, strict=True)):
        if points.is_adaptive[index]:
            continue
        if concurrency not in best or per_s > points.per_s[best[concurrency]]:
            best[concurrency] = index
    return list(best.values())
