"""The limiter against fixed numbers on the benchmark's server, in small."""

from argparse import Namespace
from typing import Any

import pytest

from benchmarks.bench_concurrency import THROTTLED, against_best, settings_of, tables, tiles_per_s
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


@pytest.mark.slow
def test_limiter_comes_near_the_best_fixed_number() -> None:
    """At 0 and 30 ms to the first byte, which want different ones; with room for noise."""
    for ttfb_ms in (0, 30):
        given = options(ttfb=[ttfb_ms], concurrency=[8, 32, 64, 128], files=512)
        with open_bench(n_files=256) as bench:
            measured = bench.rounds(list(settings_of(given)), repeats=5, on_run=lambda _: None)

        assert against_best(measured, tiles_per_s)[1].median >= 0.88


@pytest.mark.slow
def test_limiter_wastes_little_on_a_server_that_throttles() -> None:
    """No source fails, which `read_tiles` would raise, and less than 3 % of the requests are refused."""
    with open_bench(n_files=256) as bench:
        given = options(cases=[THROTTLED], files=1278)
        (run,) = bench.rounds(list(settings_of(given)), repeats=1, on_run=lambda _: None)

    assert 0 < run.n_refused < 0.03 * run.n_gets
