"""The simulation's table, and the published run that its model has to give."""

import pytest

from benchmarks.bench_simulation import REPORT_WALL_S, modelled_s, simulated, tables


@pytest.mark.parametrize(("threads", "wall_s"), REPORT_WALL_S.items())
def test_model_gives_the_published_wall_times(threads: int, wall_s: float) -> None:
    """Within 5 %, with that machine's parameters; that of 49 threads is predicted from the one thread's."""
    assert modelled_s(threads) == pytest.approx(wall_s, rel=0.05)


def test_simulated_times_fall_with_workers_until_another_limit_binds() -> None:
    """A million files at one prefix's rate take no less than S3 needs, however many workers wait."""
    one, ten, hundred, thousand = (simulated(1_000_000, n).estimate for n in (1, 10, 100, 1000))

    assert one.seconds > 9 * ten.seconds
    assert hundred.bound_by == thousand.bound_by == "S3 rate per prefix"
    assert thousand.seconds == pytest.approx(hundred.seconds, rel=0.02)
    assert thousand.seconds > 2_000_000 / 5500
    assert thousand.usd > 2 * hundred.usd


def test_tables_have_a_line_for_each_case() -> None:
    """Each case, the seconds of each part, and the report's two runs."""
    lines = list(tables([simulated(1278, 1), simulated(1278, None)]))

    assert sum(line.startswith("| 1,278 |") for line in lines) == 2
    assert "| seconds of | 1,278 files |" in lines
    assert sum("threads" in line for line in lines) == 2
