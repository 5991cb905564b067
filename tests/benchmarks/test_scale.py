"""Plan and finish without pixels: they work at any size, in flat memory and linear time."""

import sys
from pathlib import Path

import pytest

from benchmarks.bench_scale import ScaleRun, run_size, table

if sys.platform != "linux":
    pytest.skip("reads the peak of memory from /proc", allow_module_level=True)


@pytest.mark.long
def test_bench_scale_plans_and_finishes(tmp_path: Path) -> None:
    """Each step in a process of its own, whose figures fit together."""
    runs = list(run_size(300, tmp_path))

    assert [(run.step, run.n_sources, run.n_tasks) for run in runs] == [("plan", 300, 5), ("finish", 300, 5)]
    assert all(run.seconds > 0 and 20 < run.peak_rss_mib < 500 for run in runs)
    assert sum(line.startswith(("| plan", "| finish")) for line in table(runs)) == 2


@pytest.mark.long
def test_more_sources_take_hardly_more_memory(tmp_path: Path) -> None:
    """From 3,000 to 15,000, which fill the buffers of a batch of rows: at most 1.6 times the peak."""
    few, many = (_by_step(n, tmp_path / str(n)) for n in (3_000, 15_000))

    for step in ("plan", "finish"):
        assert many[step].peak_rss_mib < 1.6 * few[step].peak_rss_mib


def _by_step(n_sources: int, folder: Path) -> dict[str, ScaleRun]:
    folder.mkdir()
    return {run.step: run for run in run_size(n_sources, folder)}
