"""Ranks and their ranges."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.features.rank.order import (
    RankPlace,
    joint_interval,
    needed_errors,
    places,
    robust_deviation,
    scenes_to_refine,
)


def test_places_give_ranges_where_intervals_touch() -> None:
    """Two scenes within each other's error may swap; a third one may not."""
    found = places([0.5, 0.9, 0.52], [0.02, 0.01, 0.02], descending=True)

    assert found == [RankPlace(3, 2, 3), RankPlace(1, 1, 1), RankPlace(2, 2, 3)]


def test_places_leave_out_scenes_without_a_value() -> None:
    """They have no place, and the others are counted without them."""
    assert places([math.nan, 1.0, 2.0], [0, 0, 0], descending=False) == [
        None,
        RankPlace(1, 1, 1),
        RankPlace(2, 2, 2),
    ]


def test_equal_values_share_their_ranks() -> None:
    """A tie is marked though both values are exact."""
    assert places([1.0, 1.0], [0, 0], descending=True) == [RankPlace(1, 1, 2), RankPlace(2, 1, 2)]


@given(
    st.lists(
        st.tuples(st.floats(-9, 9), st.sampled_from([0.0, 0.1, 1.0, math.inf])), min_size=1, max_size=30
    ),
    st.booleans(),
)
def test_places_hold_every_order_that_the_errors_allow(
    scenes: list[tuple[float, float]],
    descending: bool,  # noqa: FBT001 # Hypothesis passes it by name
) -> None:
    """Whatever the true values in the intervals are, each true rank is in its range."""
    values, errors = zip(*scenes, strict=True)
    rng = np.random.default_rng(0)
    true = [
        value + (rng.uniform(-1, 1) * 1.95 * min(error, 1e6) if error else 0.0) for value, error in scenes
    ]
    order = sorted(range(len(true)), key=lambda at: -true[at] if descending else true[at])

    found = places(values, errors, descending=descending)

    for rank, at in enumerate(order, start=1):
        place = found[at]
        assert place is not None
        ties = sum(true[other] == true[at] for other in range(len(true)))
        assert place.low - ties < rank < place.high + ties
        assert place.low <= place.rank <= place.high


def test_only_scenes_with_open_ranks_in_the_top_are_read_on() -> None:
    """Not those below the top, nor those that are precise enough."""
    values, errors = [9.0, 8.9, 5.0, 4.9, 1.0], [0.1, 0.1, 0.1, 0.1, 0.1]
    found = places(values, errors, descending=True)

    assert scenes_to_refine(found, errors, top=2, bound=0.01) == [0, 1]
    assert scenes_to_refine(found, errors, top=3, bound=0.01) == [0, 1, 2, 3]  # the third place is open
    assert scenes_to_refine(found, errors, top=None, bound=0.01) == [0, 1, 2, 3]
    assert scenes_to_refine(found, errors, top=2, bound=0.2) == []


def test_sure_ranks_are_corrected_for_the_number_of_scenes() -> None:
    """Of 300 scenes, in 95 of 100 rankings no true rank lies outside of its range."""
    rng = np.random.default_rng(0)
    n_wrong = 0
    for _ in range(100):
        true = rng.uniform(0, 100, 300)
        found = places((true + rng.normal(0, 0.1, 300)).tolist(), [0.1] * 300, descending=False)
        ranks = np.argsort(np.argsort(true)) + 1
        n_wrong += any(
            place is None or not place.low <= rank <= place.high
            for place, rank in zip(found, ranks, strict=True)
        )

    assert n_wrong <= 5


def test_only_inexact_values_widen_the_intervals() -> None:
    """One interval of 95 % needs no correction, and an exact value has none."""
    assert joint_interval([0.0, 0.0, 0.3]) == 1.96
    assert joint_interval([0.3] * 300) > 3.7


def test_spread_ignores_a_single_odd_value() -> None:
    """As a standard deviation would not."""
    values = [*np.linspace(0, 1, 50), math.nan, 1e9]

    assert robust_deviation(values) < 1
    assert robust_deviation([]) == robust_deviation([2.0]) == 0


def test_needed_error_parts_a_scene_from_the_next_one() -> None:
    """Or is the bound, where that is larger."""
    needed = needed_errors([0.0, 10.0, 10.1, math.nan], [1.0] * 4, bound=0.05)

    assert needed[0] == 10 / (2 * joint_interval([1.0] * 4))
    assert needed[1:3] == [0.05, 0.05]
