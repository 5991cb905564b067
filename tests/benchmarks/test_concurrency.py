"""The limiter against fixed numbers on the benchmark's server, in small."""

from argparse import Namespace
from typing import Any

from benchmarks.bench_concurrency import against_best, settings_of, tables, tiles_per_s
from benchmarks.measure import open_bench


def options(**changes: Any) -> Namespace:
    """Return what the command line would give."""
    given = {
        "ttfb": [15],
        "cases": ["long"],
        "concurrency": [1, 4],
        "rates": [200],
        "files": 24,
        "slow_share": 0.0,
        "slow_s": 0.0,
    }
    return Namespace(**given | changes)


def test_bench_concurrency_measures_the_limiter_and_fixed_numbers() -> None:
    """Each setting has a row, and the best fixed number is compared with."""
    with open_bench(n_files=24) as bench:
        measured = bench.rounds(list(settings_of(options())), repeats=1, on_run=lambda _: None)

    best, _ = against_best(measured, tiles_per_s)

    assert best == 4
    rows = [line.split(" | ")[0] for line in tables(measured) if line.startswith("| ")]
    assert rows[-3:] == ["| adaptive", "| 1", "| 4"]
