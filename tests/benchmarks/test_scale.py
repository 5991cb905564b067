"""Plan and finish without pixels: they work at any size, in flat memory and linear time."""

import sys
from pathlib import Path

import pytest

from benchmarks.bench_scale import run_size, tables
from benchmarks.scale_run import ScaleRun

if sys.platform != "linux":
    pytest.skip("reads the peak of memory from /proc", allow_module_level=True)


def test_bench_scale_plans_and_finishes(tmp_path: Path) -> None:
    """Each step in a process of its own, whose figures fit together."""
    runs = list(run_size(300, tmp_path))

    assert [(run.step, run.n_sources, run.n_tasks) for run in runs] == [("plan", 300, 5), ("finish", 300, 5)]
    assert all(run.seconds > 0 and 20 < run.peak_rss_mib < 500 for run in runs)
    assert sum(line.startswith(("| plan", "| finish")) for line in tables(runs)) == 2


@pytest.mark.slow
def test_ten_times_the_sources_take_ten_times_as_long_and_hardly_more_memory(tmp_path: Path) -> None:
    """From 10,000 to 100,000: at most 1.5 times the seconds a source, and 1.5 times the peak of memory.

    What a step takes for 1,000 sources is taken off first: it is imports and small files.
    """
    small, medium, large = (_by_step(n, tmp_path / str(n)) for n in (1_000, 10_000, 100_000))

    for step in ("plan", "finish"):
        per_source = [
            (runs[step].seconds - small[step].seconds) / (runs[step].n_sources - 1_000)
            for runs in (medium, large)
        ]
        assert per_source[1] < 1.5 * per_source[0] + 1e-5
        assert large[step].peak_rss_mib < 1.5 * medium[step].peak_rss_mib


def _by_step(n_sources: int, folder: Path) -> dict[str, ScaleRun]:
    folder.mkdir()
    return {run.step: run for run in run_size(n_sources, folder)}
