"""Timings of the sources of a run, and the figures that tables show of them. Pure.

Throughput is measured as in the report of 2018: at the end of each source, sources done divided by elapsed
time. The median over the run is the figure to quote.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple

type Floats = np.ndarray[Any, np.dtype[np.float64]]
type Integers = np.ndarray[Any, np.dtype[np.int64]]


class Spread(Struct, frozen=True, kw_only=True):
    """Median, minimum and maximum of one figure over all sources that were read."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: "Sequence[float] | np.ndarray[Any, Any]") -> "Spread":
        """Summarise values. All are zero if there are no values."""
        if not len(values):
            return cls(median=0.0, min=0.0, max=0.0)
        known = np.sort(np.asarray(values, dtype="float64"))
        return cls(median=_median_of(known), min=float(known[0]), max=float(known[-1]))


def _median_of(ordered: Floats) -> float:
    """Return the median of ascending numbers. For few of them, ``numpy.median`` takes ten times as long."""
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


class TimingSummary(Struct, frozen=True, kw_only=True):
    """The figures that all tables of timings show. Times in seconds."""

    data_nbytes: int
    """Received for windows of sources that were read, without headers."""

    bytes_per_source: Spread
    """Without headers."""

    total_s: Spread
    """Opening and reading of each source."""

    open_s: Spread
    read_s: Spread
    """Waiting and decoding, by the clock."""

    wait_s: float
    """Opening and reading, summed over all sources."""

    wall_s: float
    """From the first source's start to the last one's end, pauses of an interrupted run included."""

    typical_per_s: float
    """Median throughput over the run, in sources per second; see `Timings.typical_per_s`."""

    @property
    def open_share(self) -> float:
        """Share of opening in opening and reading, by their medians; 0 to 1."""
        both = self.open_s.median + self.read_s.median
        return self.open_s.median / both if both else 0.0


class Timings(Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """Timings of the sources that were read: arrays of the same length, in the list's order.

    Times in seconds on the run's clock. Its zero is arbitrary.
    """

    start_s: Floats
    end_s: Floats
    open_s: Floats
    """Until the header was known."""

    read_s: Floats
    """Time to fetch and decode the window's bytes."""

    nbytes: Integers
    """Bytes received for the window's pixels, without headers."""

    shard: Integers
    """Index of the shard. One worker reads all sources of a shard."""

    def __post_init__(self) -> None:
        """Refuse arrays of different lengths."""
        lengths = set(map(len, astuple(self)))
        if len(lengths) != 1:
            raise ValueError(f"timings of different lengths: {sorted(lengths)}")

    def __len__(self) -> int:
        """Return how many sources were read."""
        return len(self.start_s)

    @cached_property
    def total_s(self) -> Floats:
        """Opening and reading of each source."""
        return self.open_s + self.read_s

    @cached_property
    def began_s(self) -> float:
        """Start of the first source; 0 if none was read."""
        return float(np.min(self.start_s)) if len(self) else 0.0

    @cached_property
    def wall_s(self) -> float:
        """From the first source's start to the last one's end."""
        return float(np.max(self.end_s)) - self.began_s if len(self) else 0.0

    @cached_property
    def throughput_per_s(self) -> Floats:
        """Sources done divided by elapsed time, at the end of each source, in the order of their ends."""
        elapsed_s = np.sort(self.end_s) - self.began_s
        n_done = np.arange(1, len(self) + 1, dtype="float64")
        return np.divide(n_done, elapsed_s, out=np.zeros(len(self)), where=elapsed_s > 0)

    @cached_property
    def typical_per_s(self) -> float:
        """Median throughput over the run. A late answer near the end does not change it."""
        return _median_of(np.sort(self.throughput_per_s)) if len(self) else 0.0

    def summary(self) -> TimingSummary:
        """Return the figures that tables show."""
        return TimingSummary(
            data_nbytes=int(self.nbytes.sum()),
            bytes_per_source=Spread.of(self.nbytes),
            total_s=Spread.of(self.total_s),
            open_s=Spread.of(self.open_s),
            read_s=Spread.of(self.read_s),
            wait_s=float(self.total_s.sum()),
            wall_s=self.wall_s,
            typical_per_s=self.typical_per_s,
        )

    @cached_property
    def most_in_flight(self) -> int:
        """Most sources that were read at one time. A source that ends as another starts does not count."""
        starts, ends = np.sort(self.start_s), np.sort(self.end_s)
        n_begun = np.arange(1, len(starts) + 1)
        return int((n_begun - np.searchsorted(ends, starts, side="right")).max(initial=0))
