"""Chooses the runs that a figure shows. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from pixel_gather.core.results.run import Run
from pixel_gather.features.report.findings import best_run, group_by_series

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
