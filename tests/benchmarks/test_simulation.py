"""The simulation's table, and the published run that its model has to give."""

import pytest

from benchmarks.bench_simulation import all_rows, published, simulated, tables


def test_model_gives_the_published_wall_times() -> None:
    """Within 5 %, with that machine's parameters; that of 49 threads is foretold from the one thread's."""
    for each in published():
        assert abs(each.error) < 0.05


def test_simulated_times_fall_with_workers_until_another_limit_binds() -> None:
    """A million files at one prefix's rate take no less than S3 needs, however many workers wait."""
    one, ten, hundred, thousand = (simulated(1_000_000, n).estimate for n in (1, 10, 100, 1000))

    assert one.seconds > 9 * ten.seconds
    assert hundred.bound_by == thousand.bound_by == "S3 rate per prefix"
    assert thousand.seconds == pytest.approx(hundred.seconds, rel=0.02)
    assert thousand.seconds > 2_000_000 / 5500
    assert thousand.usd > 2 * hundred.usd


def test_tables_have_a_line_for_each_case() -> None:
    """1,278, 100,000 and 1,000,000 files at 1 to 1,000 workers, and the report's two runs."""
    rows = all_rows()
    lines = list(tables(rows))

    assert len({(row.n_files, row.max_workers) for row in rows}) == 18
    assert sum(line.startswith("| 1,000,000 ") for line in lines) == 6
    assert sum("threads" in line for line in lines) == 2
