"""The order of scenes, and which ranks each may have within the errors. Pure."""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np

from pixel_gather.features.rank.sampling_error import INTERVAL

_DOUBT: Final = 0.05
"""Share of rankings in which any rank may lie outside of its range."""


class RankPlace(NamedTuple):
    """A scene's place in a ranking, from 1."""

    rank: int
    low: int
    """The best rank that the errors allow."""

    high: int
    """The worst one."""


def places(values: Sequence[float], errors: Sequence[float], *, descending: bool) -> list[RankPlace | None]:
    """Return each scene's place; None where it has no value.

    A scene is surely before another if their intervals do not touch. The intervals are so wide that all of
    them together hold in 95 % of rankings: among a hundred scenes, five intervals of 95 % each are expected
    to fail. Equal values keep their order, and each may have the ranks of all of them.

    Args:
        values: One for each scene; NaN for none.
        errors: Standard errors; infinite where nothing is known.
        descending: Whether the highest value comes first.
    """
    value = np.asarray(values, float) * (-1 if descending else 1)
    has_value = np.isfinite(value)
    margin = joint_interval(errors) * np.asarray(errors, float)
    low, high = value[has_value] - margin[has_value], value[has_value] + margin[has_value]
    n = int(has_value.sum())
    before = np.searchsorted(np.sort(high), low, side="left")
    after = n - np.searchsorted(np.sort(low), high, side="right")
    ranks = np.empty(n, int)
    ranks[np.argsort(value[has_value], kind="stable")] = np.arange(1, n + 1)
    found: list[RankPlace | None] = [None] * len(values)
    for at, rank, n_before, n_after in zip(np.flatnonzero(has_value), ranks, before, after, strict=True):
        found[int(at)] = RankPlace(int(rank), int(n_before) + 1, n - int(n_after))
    return found


def joint_interval(errors: Sequence[float]) -> float:
    """Return how many standard errors on either side of each value hold all values at once in 95 % of cases.

    By Bonferroni's inequality. Exact values need no interval.
    """
    n = sum(error > 0 for error in errors)
    return INTERVAL if n < 2 else NormalDist().inv_cdf(1 - _DOUBT / (2 * n))  # noqa: PLR2004 # one needs no correction


def robust_deviation(values: Sequence[float]) -> float:
    """Return half the range of the middle 68 % of the values: of normal ones, the standard deviation."""
    finite = np.asarray(values, float)
    finite = finite[np.isfinite(finite)]
    if not finite.size:
        return 0.0
    low, high = np.quantile(finite, [0.16, 0.84])
    return float(high - low) / 2


def needed_errors(values: Sequence[float], errors: Sequence[float], *, bound: float) -> list[float]:
    """Return the standard error at which each scene is decided: the bound, or what parts it from others.

    Args:
        values: One for each scene; NaN for none.
        errors: Standard errors.
        bound: A standard error that is small enough in any case.
    """
    value = np.asarray(values, float)
    has_value = np.flatnonzero(np.isfinite(value))
    order = has_value[np.argsort(value[has_value])]
    gaps = np.full(value.shape, math.inf)
    steps = np.diff(value[order])
    gaps[order[1:]] = steps
    gaps[order[:-1]] = np.minimum(gaps[order[:-1]], steps)
    parted = gaps / (2 * joint_interval(errors))
    return [float(each) for each in np.maximum(parted, bound)]


def scenes_to_refine(
    found: Sequence[RankPlace | None], errors: Sequence[float], *, top: int | None, bound: float
) -> list[int]:
    """Return the scenes to read at a finer level: their rank is open, may be a top one, and has an error.

    Args:
        found: What `places` has returned.
        errors: Standard errors.
        top: How many places have to be decided; None for all.
        bound: Scenes whose standard error is at most this are read no further.
    """
    most = math.inf if top is None else top
    return [
        at
        for at, (place, error) in enumerate(zip(found, errors, strict=True))
        if place is not None and place.low < place.high and place.low <= most and error > bound
    ]
