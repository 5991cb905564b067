"""The benchmark of monthly medians: its ratios are formed within each round."""

from pathlib import Path

from benchmarks.bench_reduce import GATHERED, OURS, SCRIPT, Job, Taken, table


def taken(seconds: float) -> Taken:
    """Return what a job took."""
    return Taken(seconds=seconds, cpu_s=2 * seconds, peak_rss_mib=100.4)


def test_ratios_are_those_of_one_round() -> None:
    """A slow round slows all."""
    seen = {
        OURS: [taken(1), taken(10), taken(1)],
        GATHERED: [taken(3), taken(30), taken(3)],
        SCRIPT: [taken(2), taken(20), taken(2)],
    }

    lines = list(table(seen))

    assert f"| {SCRIPT} | 2.00 [2.00..20.00] | 4.00 [4.00..40.00] | 100 | 2.00 [2.00..2.00] |" in lines


def test_scenes_are_spread_over_twelve_months() -> None:
    """So many months are reduced."""
    job = Job(folder=Path(), n_scenes=1000)
    months = [job.month(number) for number in range(1000)]
    assert months == sorted(months)
    assert sorted({months.count(month) for month in range(12)}) == [83, 84]
