"""Statistics against NumPy, weighted and not."""

import numpy as np
import pytest

from pixel_gather.core.errors import RequestError
from pixel_gather.features.rank.statistic import Statistic

_VALUES = np.random.default_rng(1).normal(size=501)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mean", _VALUES.mean()),
        ("median", np.median(_VALUES)),
        ("p90", np.percentile(_VALUES, 90)),
        ("p2.5", np.percentile(_VALUES, 2.5)),
        ("p100", _VALUES.max()),
        ("share_above:0.3", (_VALUES > 0.3).mean()),
        ("share_above: -1", (_VALUES > -1).mean()),
    ],
)
def test_statistic_is_numpys(text: str, expected: float) -> None:
    """Without weights, and with equal ones."""
    statistic = Statistic.parse(text)

    assert statistic.of(_VALUES) == pytest.approx(expected, rel=1e-12)
    assert statistic.of(_VALUES, np.full(_VALUES.shape, 0.5)) == pytest.approx(expected, rel=1e-12)
    assert Statistic.parse(statistic.text) == statistic


def test_statistic_counts_a_value_of_weight_two_twice() -> None:
    """A share and a mean by weights are those of repeated values."""
    values, weights = np.array([1.0, 5.0]), np.array([2.0, 1.0])

    assert Statistic.parse("mean").of(values, weights) == pytest.approx(7 / 3)
    assert Statistic.parse("share_above:2").of(values, weights) == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("share_above:1234567", "share_above:1234568"),
        ("share_above:0.1234567", "share_above:0.1234568"),
        ("share_above:1e-7", "share_above:2e-7"),
        ("p99.99991", "p99.99992"),
        ("p29", "p29.000001"),
    ],
)
def test_statistic_is_written_with_all_its_digits(one: str, other: str) -> None:
    """Whoever parses it again gets the same. Rankings keep their values by it."""
    parsed = [Statistic.parse(each) for each in (one, other)]

    assert [Statistic.parse(each.text) for each in parsed] == parsed
    assert parsed[0].text != parsed[1].text


@pytest.mark.parametrize(
    "text", ["", "sum", "p101", "p", "share_above", "share_above:x", "share_above:1e999"]
)
def test_statistic_refuses_other_words(text: str) -> None:
    """The message names the field."""
    with pytest.raises(RequestError, match=r"^statistic: "):
        Statistic.parse(text)
