"""The order of scenes, and which ranks each may have within the errors. Pure."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pixel_gather.ranking.sampling_error import INTERVAL


class Place(NamedTuple):
    """A scene's place in a ranking, from 1."""

    rank: int
    low: int
    """The best rank that the errors allow."""

    high: int
    """The worst one."""


def places(values: Sequence[float], errors: Sequence[float], *, descending: bool) -> list[Place | None]:
    """Return each scene's place; None where it has no value.

    A scene is surely before another if their 95 % intervals do not touch. Equal values keep their order, and
    each may have the ranks of all of them.

    Args:
        values: One for each scene; NaN for none.
        errors: Standard errors; infinite where nothing is known.
        descending: Whether the highest value comes first.
    """
    value = np.asarray(values, float) * (-1 if descending else 1)
    has_value = np.isfinite(value)
    margin = INTERVAL * np.asarray(errors, float)
    low, high = value[has_value] - margin[has_value], value[has_value] + margin[has_value]
    n = int(has_value.sum())
    before = np.searchsorted(np.sort(high), low, side="left")
    after = n - np.searchsorted(np.sort(low), high, side="right")
    ranks = np.empty(n, int)
    ranks[np.argsort(value[has_value], kind="stable")] = np.arange(1, n + 1)
    found: list[Place | None] = [None] * len(values)
    for at, rank, n_before, n_after in zip(np.flatnonzero(has_value), ranks, before, after, strict=True):
        found[int(at)] = Place(int(rank), int(n_before) + 1, n - int(n_after))
    return found


def undecided(
    found: Sequence[Place | None], errors: Sequence[float], *, top: int | None, bound: float
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
