"""The order of runs that are compared."""

from pixel_gather_bench.interleaving import rounds


def test_every_second_round_goes_backwards_and_others_begin_later() -> None:
    """Nothing is always first, and nothing always follows the same neighbour."""
    order = ["".join(item for at, item in rounds("abc", 5) if at == number) for number in range(5)]

    assert order == ["abc", "cba", "bca", "acb", "cab"]


def test_warm_ups_have_numbers_below_0() -> None:
    """They are easy to leave out."""
    assert list(rounds("ab", 1, warm_ups=1)) == [(-1, "a"), (-1, "b"), (0, "a"), (0, "b")]


def test_nothing_to_compare_is_no_round() -> None:
    """An empty selection ends at once."""
    assert list(rounds([], 3)) == []
