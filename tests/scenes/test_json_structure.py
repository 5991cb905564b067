"""Structures of JSON: the same for the same kinds of values, and for nothing else."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.io.scenes.item_types import hash_structure, kind_of, merge_kinds


def structure(value: Any) -> bytes:
    """Return the structure of a value."""
    return hash_structure(msgspec.json.encode(value))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": -22}),
        ({"a": "x"}, {"a": 'quo"te: \\" {[,'}),
        ({"a": "\\"}, {"a": ""}),
        ({"a": [1.5, 2]}, {"a": [-0.25, 0]}),
    ],
)
def test_values_of_one_kind_have_one_structure(one: Any, other: Any) -> None:
    """Whatever the texts and numbers are."""
    assert structure(one) == structure(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": 1.5}),
        ({"a": 1}, {"a": 1e30}),
        ({"a": 1}, {"a": 2**63}),
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {"a": None}),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"b": 1}),
        ({"B04": 1}, {"B02": 1}),
        ({"a": []}, {"a": [1]}),
        ({"a": ""}, {"a": [""]}),
        ({'a"b': 1}, {"ab": 1}),
        ({"a\\": 1}, {"a": 1}),
    ],
)
def test_values_of_different_kinds_have_different_structures(one: Any, other: Any) -> None:
    """So none is left out when columns are given their types."""
    assert structure(one) != structure(other)


_TEXTS = st.text(alphabet='aB1"\\:,[]{}~é', max_size=4)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.floats(-1e40, 1e40) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.long
@given(_VALUES, _VALUES)
def test_the_same_structure_means_the_same_kind(one: Any, other: Any) -> None:
    """Types that are found from one item of each structure hold all items."""
    values = [msgspec.json.decode(msgspec.json.encode(each)) for each in (one, other)]
    if structure(one) == structure(other):
        kinds = [kind_of(each) for each in values]

        assert kinds[0] == kinds[1]
        assert merge_kinds(*kinds) == kinds[0]
