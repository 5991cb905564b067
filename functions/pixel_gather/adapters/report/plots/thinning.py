"""Long curves with few points that still show every spike. Pure."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pixel_gather.adapters.report.plots.units import Numbers


def kept_indexes(values: Numbers, *, most: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return which points of a curve to draw: the least and the greatest of each stretch, and both ends.

    Args:
        values: The curve, at even steps.
        most: Points of the result, 4 or more.

    Returns:
        Ascending indexes, all of them where there are no more than ``most``.
    """
    if len(values) <= most:
        return np.arange(len(values))
    edges = _edges(len(values), (most - 2) // 2)
    extremes = [
        start + each(values[start:stop]) for start, stop in pairwise(edges) for each in (np.argmin, np.argmax)
    ]
    return np.unique([0, *extremes, len(values) - 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretches:
    """A long series, by stretches of equal length."""

    middle: Numbers
    """Index of each stretch's middle."""

    least: Numbers
    median: Numbers
    greatest: Numbers


def stretches_of(values: Numbers, *, n: int) -> Stretches:
    """Summarise a series of at least ``n`` values by ``n`` stretches."""
    edges = _edges(len(values), n)
    parts = [values[start:stop] for start, stop in pairwise(edges)]
    return Stretches(
        middle=(edges[:-1] + edges[1:] - 1) / 2,
        least=np.array([part.min() for part in parts]),
        median=np.array([np.median(part) for part in parts]),
        greatest=np.array([part.max() for part in parts]),
    )


def _edges(n_values: int, n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.linspace(0, n_values, n + 1).astype("int64")
