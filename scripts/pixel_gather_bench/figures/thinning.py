"""Reduces long curves to few points that still show every spike. Pure.

This is kept instead of the package ``tsdownsample``: its library adds 9.4 MB to the Lambda package that draws
reports, and it has no medians.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pixel_gather_bench.figures.labels import Numbers


def kept_indexes(values: Numbers, *, most: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the indexes of the points to draw: minimum and maximum of each stretch, and both ends.

    Args:
        values: The curve, at even steps.
        most: Most points in the result; at least 4.

    Returns:
        Ascending indexes. All indexes if the curve has at most ``most`` points.
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
    """Statistics of a long series, for stretches of equal length."""

    middle: Numbers
    """Index of each stretch's middle."""

    least: Numbers
    median: Numbers
    greatest: Numbers


def stretches_of(values: Numbers, *, n: int) -> Stretches:
    """Summarise a series of at least ``n`` values in ``n`` stretches."""
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
