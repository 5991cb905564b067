"""Concurrencies as one writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather_bench.suite.numbers import MOST, parse_concurrencies


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("12", (12,)),
        ("12,1, 4,12", (1, 4, 12)),  # sorted and each once
        ("1-4", (1, 2, 3, 4)),  # with both ends
        ("1-56:5", (1, 6, 11, 16, 21, 26, 31, 36, 41, 46, 51, 56)),
        ("auto,49,1-2", (1, 2, 49, None)),  # auto comes last
        ("auto", (None,)),
    ],
)
def test_parse_concurrencies_understands(text: str, numbers: tuple[int | None, ...]) -> None:
    """What the help shows is what is understood."""
    assert parse_concurrencies(text) == numbers


@pytest.mark.parametrize("text", ["", "0", "513", "5-1", "1-10:0", "-3", "1,,2", "many", "1-2-3", "1.5"])
def test_parse_concurrencies_refuses_naming_the_part(text: str) -> None:
    """No number that cannot be run slips through, nor is one guessed."""
    with pytest.raises(ValueError, match="'"):
        parse_concurrencies(text)


@given(st.sets(st.integers(1, MOST), min_size=1))
def test_parse_concurrencies_returns_what_was_written(numbers: set[int]) -> None:
    """Any set of numbers comes back, ascending."""
    assert parse_concurrencies(",".join(map(str, numbers))) == tuple(sorted(numbers))
