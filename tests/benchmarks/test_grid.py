"""The benchmark of common grids and masks: its ratios are formed within each round."""

from benchmarks.bench_grid import COMPARED, tables
from benchmarks.output import Taken

CASES = (
    "two gathers, of 10 m and of 20 m",
    "one grid",
    "all of 10 m, no grid",
    "all of 10 m, on a grid",
    "one grid, a mask",
    "one grid, a mask, dilated",
)


def test_ratios_are_those_of_one_round() -> None:
    """A slow round slows both."""
    seen = {name: [Taken(1.0, 2.0), Taken(10.0, 20.0), Taken(1.0, 2.0)] for name in CASES}
    seen["one grid"] = [Taken(2.0, 2.2), Taken(20.0, 22.0), Taken(2.0, 2.2)]

    lines = list(tables(seen, COMPARED))

    assert "| one grid | 2.00 [2.00..20.00] | 2.20 [2.20..22.00] |" in lines
    assert "| one grid | two gathers, of 10 m and of 20 m | 2.00 [2.00..2.00] | 1.10 [1.10..1.10] |" in lines
