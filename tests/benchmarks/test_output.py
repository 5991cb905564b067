"""What benchmarks share: cases take turns, and ratios are formed within each round."""

from functools import partial

import pytest

from benchmarks.output import Taken, compare, take_turns, timed, timed_in_new_process


def test_cases_take_turns() -> None:
    """Every second round goes backwards, and rounds that warm up are not returned."""
    order: list[str] = []

    seen = take_turns({name: partial(order.append, name) for name in "ab"}, 2, warm_ups=1)

    assert "".join(order) == "ababba"
    assert [len(taken) for taken in seen.values()] == [2, 2]


@pytest.mark.parametrize("peak_rss_mib", [0.0, 100.4])
def test_ratios_are_those_of_one_round(peak_rss_mib: float) -> None:
    """A slow round slows all. Memory has a column where it was measured."""
    seconds = {"a": (1.0, 10.0, 1.0), "b": (3.0, 30.0, 2.0)}
    made = {name: [Taken(each, 2 * each, peak_rss_mib) for each in its] for name, its in seconds.items()}

    lines = list(compare(made, "job", "a"))

    peak = ("peak MiB | ", "100 | ") if peak_rss_mib else ("", "")
    assert lines[0] == f"| job | s | CPU s | {peak[0]}x time of a | x CPU |"
    assert lines[3] == (
        f"| b | 3.00 [2.00..30.00] | 6.00 [4.00..60.00] | {peak[1]}3.00 [2.00..3.00] | 3.00 [2.00..3.00] |"
    )


def test_a_fresh_process_tells_what_it_took() -> None:
    """Its memory too, which this process cannot tell apart from its own."""
    assert timed(list).seconds > 0
    assert timed_in_new_process(list).peak_rss_mib > 1
