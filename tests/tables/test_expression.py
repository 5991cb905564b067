"""The grammar of expressions: what it computes, and what it says of a mistake."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.core.errors import RequestError
from pixel_gather.tables.expression import Expression
from pixel_gather.tables.spectral_indexes import EXPRESSIONS, band_number, found_band

_BANDS = {"red": np.array([[2.0, 4.0]]), "nir": np.array([[6.0, 4.0]]), "visual:2": np.array([[1.0, 9.0]])}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("red", [2, 4]),
        ("(nir - red) / (nir + red)", [0.5, 0]),
        ("nir - red - 1", [3, -1]),
        ("nir / red / 2", [1.5, 0.5]),
        ("2 + 3 * red", [8, 14]),
        ("-red * -2", [4, 8]),
        ("- -red", [2, 4]),
        ("max(red, nir, 5)", [6, 5]),
        ("min(red, 3)", [2, 3]),
        ("abs(red - nir)", [4, 0]),
        ("sqrt(visual:2)", [1, 3]),
        ("1e-1 * .5 * red", [0.1, 0.2]),
    ],
)
def test_expression_computes_what_it_says(text: str, expected: list[float]) -> None:
    """Operators bind and associate as in arithmetic."""
    assert Expression.parse(text).evaluate(_BANDS).tolist() == [pytest.approx(expected)]


def test_expression_names_its_bands_once_in_order() -> None:
    """The bands that are read are known before anything is read."""
    assert Expression.parse(EXPRESSIONS["nbr"]).names == ("nir", "swir22")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "position 1: it ends where a band"),
        ("red +", "position 6: it ends"),
        ("red nir", "position 5: 'nir' stands where an operator"),
        ("(red", "position 5: it ends where ) is expected"),
        ("red ** 2", "position 6: '*' stands"),
        ("exp(red)", "position 1: there is no function exp"),
        ("1 + abs(red, nir)", "position 5: abs takes one value, not 2"),
        ("min(red)", "min takes two or more values"),
        ("red + $x", "position 7: '$' is no part"),
        ("__import__(os)", "position 1: there is no function __import__"),
        ("red.real", "'.' is no part"),
        ("1 + 2", "it names no band"),
        ("(" * 60 + "red" + ")" * 60, "too many parentheses"),
        ("x" * 1001, "at most 1,000"),
    ],
)
def test_expression_says_where_its_mistake_is(text: str, words: str) -> None:
    """Nothing but the grammar is accepted, and the message names the position."""
    with pytest.raises(RequestError, match=r"^by: ") as caught:
        Expression.parse(text)

    assert words in str(caught.value)


@given(st.text(alphabet="ab1.+-*/(), mine:", max_size=30))
def test_expression_never_fails_otherwise(text: str) -> None:
    """Any text is an expression or a request error."""
    try:
        found = Expression.parse(text)
    except RequestError:
        return
    found.evaluate(dict.fromkeys(found.names, np.ones((1, 1))))


def test_bands_are_found_by_their_common_names() -> None:
    """Sentinel-2's names are known; Landsat's B4 is not guessed."""
    assert found_band("nir", ["B04", "B08"]) == "B08"
    assert found_band("SCL", ["scl"]) == "scl"
    assert found_band("red", ["B4", "B5"]) is None
    assert [band_number(name) for name in ("b3", "red", "blue", "b0", "nir")] == [3, 1, 3, None, None]
