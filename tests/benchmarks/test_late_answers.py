"""A few answers that are late by a second cost a gather next to nothing."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks.bench_tail import UNHEDGED, n_requests, tables, tail_settings, with_tail
from benchmarks.measure import OURS, Bench, Setting, open_bench

LONG = Setting(case="long", engine=OURS, concurrency=64, n_tiles=512, ttfb_ms=15.0, counts_start=False)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """A warm server of the benchmark's files."""
    with open_bench(n_files=64) as opened:
        yield opened


def test_benchmark_compares_runs_with_late_answers_to_those_without(bench: Bench) -> None:
    """One row an engine; what is late is asked for again by ours alone, and the pixels are right."""
    settings = [replace(LONG, engine=engine, n_tiles=64) for engine in (OURS, UNHEDGED)]

    measured = bench.rounds(
        tail_settings(settings, slow_share=0.04, slow_s=0.5), repeats=1, on_run=lambda _: None
    )

    (ours, ours_late), (unhedged, unhedged_late) = with_tail(measured)
    assert n_requests(unhedged[0]) == n_requests(unhedged_late[0]) == 128
    assert n_requests(ours_late[0]) > n_requests(ours[0])
    assert len([line for line in tables(measured) if line.startswith("| pixel-gather")]) == 2
