"""The benchmark of monthly medians: what it makes."""

from pathlib import Path

from benchmarks.bench_reduce import Job


def test_scenes_are_spread_over_twelve_months() -> None:
    """So many months are reduced."""
    job = Job(folder=Path(), n_scenes=1000)
    months = [job.month(number) for number in range(1000)]
    assert months == sorted(months)
    assert sorted({months.count(month) for month in range(12)}) == [83, 84]
