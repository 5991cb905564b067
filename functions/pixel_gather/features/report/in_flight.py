"""Computes how many sources one run read at a time, and its throughput meanwhile. Pure."""

from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.results.timings import Floats, Timings

_MOST_SLICES: Final = 60
_FEWEST_SLICES: Final = 3
_SLICE_PER_SOURCE: Final = 2.0
"""Length of a slice in times of a source, at least. So most sources that end in a slice began in it."""

_LEAST_SPREAD: Final = 0.2
"""Share of the most in flight. If nine tenths of the slices differ by less, they are not compared."""


class Slices(Struct, frozen=True, kw_only=True):
    """One run in slices of equal time, without nearly idle ones. All arrays have the same length."""

    in_flight: Floats
    """Sources in flight, averaged over the slice; 1 or more."""

    ended_per_s: Floats
    mib_per_s: Floats
    slice_s: float


def cut_into_slices(timings: Timings) -> Slices | None:
    """Cut a run into slices of time. None if it is too short or its sources in flight hardly varied."""
    typical_s = float(np.median(timings.end_s - timings.start_s)) if len(timings) else 0.0
    if timings.wall_s <= 0 or typical_s <= 0:
        return None
    n_slices = min(_MOST_SLICES, int(timings.wall_s / (_SLICE_PER_SOURCE * typical_s)))
    if n_slices < _FEWEST_SLICES:
        return None
    edges = np.linspace(timings.began_s, timings.began_s + timings.wall_s, n_slices + 1)
    slice_s = timings.wall_s / n_slices
    in_flight = np.diff(_time_spent(timings.start_s, edges) - _time_spent(timings.end_s, edges)) / slice_s
    n_ended, _ = np.histogram(timings.end_s, edges)
    nbytes, _ = np.histogram(timings.end_s, edges, weights=timings.nbytes)
    is_busy = in_flight >= 1
    if is_busy.sum() < _FEWEST_SLICES:
        return None
    few, many = np.percentile(in_flight[is_busy], (5, 95))
    if many - few < _LEAST_SPREAD * in_flight.max():
        return None
    return Slices(
        in_flight=in_flight[is_busy],
        ended_per_s=n_ended[is_busy] / slice_s,
        mib_per_s=nbytes[is_busy] / 2**20 / slice_s,
        slice_s=slice_s,
    )


def in_flight_at_start(timings: Timings) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return how many sources were in flight when each source began, with that source."""
    begun = np.searchsorted(np.sort(timings.start_s), timings.start_s, side="right")
    return begun - np.searchsorted(np.sort(timings.end_s), timings.start_s, side="right")


def _time_spent(moments: Floats, edges: Floats) -> Floats:
    """Return, for each edge, the sum of the times from all earlier moments to the edge."""
    ordered = np.sort(moments)
    sums = np.concatenate(([0.0], np.cumsum(ordered - edges[0])))
    n_before = np.searchsorted(ordered, edges)
    spent: Floats = n_before * (edges - edges[0]) - sums[n_before]
    return spent
