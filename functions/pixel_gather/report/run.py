"""One run over a list of sources, by any engine. Tables and figures are made from it. Pure.

A cube's coordinates and a benchmark's records both become a `Run`, so any two can be compared. Throughput is
measured as in the report of 2018: at the end of each source, sources done divided by elapsed time. The median
over the run is the figure to quote.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

type Floats = np.ndarray[Any, np.dtype[np.float64]]
type Integers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Median, minimum and maximum of one figure over all sources that were read."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: "Sequence[float] | np.ndarray[Any, Any]") -> "Spread":
        """Summarise values. All are zero if there are no values."""
        if not len(values):
            return cls(median=0.0, min=0.0, max=0.0)
        known = np.asarray(values, dtype="float64")
        return cls(median=float(np.median(known)), min=float(known.min()), max=float(known.max()))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingSummary:
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

    def figures(self) -> dict[str, Any]:
        """Return the figures by name, to build a table's column or a report with them."""
        return {each.name: getattr(self, each.name) for each in fields(TimingSummary)}


@dataclass(frozen=True, kw_only=True, eq=False)
class Timings:
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
        lengths = {len(each) for each in vars(self).values()}
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
        return float(np.median(self.throughput_per_s)) if len(self) else 0.0

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, its settings and its result."""

    name: str
    """Short name for legends and column heads: the cube's name, or ``fast, 12``."""

    engine: str
    """``fast`` is this project's reader. ``rasterio`` is GDAL in threads."""

    concurrency: int
    """Sources read at one time: the number of threads, or the setting, or else the measured maximum."""

    digest: str
    """Digest of all pixels: equal digests mean equal pixels. Empty if it was not computed."""

    window: str
    """The window in words: ``tile 8_8``, ``512 x 512 pixels``."""

    shape: tuple[int, int]
    """(height, width) of the window in pixels."""

    dtype: str
    bands: tuple[int, ...]
    n_sources: int
    n_failed: int
    timings: Timings
    is_adaptive: bool = False
    """Whether the concurrency adapted during the run. It then belongs to no series of fixed ones."""

    is_cube: bool = False
    """Whether the run is a gather of a cube. Cubes are compared by name, other runs by engine."""

    cpu_s: float | None = None
    """User and system time of reading; None if it was not measured."""

    peak_rss_mib: float | None = None
    machine: str = ""
    """Description of the machine; empty if unknown."""

    conditions: str = ""
    """Other conditions of its speed: location of the sources, cached headers, warm caches."""

    @property
    def series(self) -> str:
        """Name of the series that it belongs to: the cube's name, or the engine."""
        return self.name if self.is_cube else self.engine

    @property
    def data_nbytes(self) -> int:
        """Bytes of all windows, without headers."""
        return int(self.timings.nbytes.sum())

    @property
    def wait_s(self) -> float:
        """Opening and reading, summed over all sources."""
        return float(self.timings.total_s.sum())

    @property
    def sources_per_s(self) -> float:
        """Sources divided by wall time."""
        return len(self.timings) / self.timings.wall_s if self.timings.wall_s else 0.0

    @property
    def typical_per_s(self) -> float:
        """Median of the throughput over the run."""
        return self.timings.typical_per_s

    @property
    def mib_per_s(self) -> float:
        """MiB of windows divided by wall time."""
        return self.data_nbytes / 2**20 / self.timings.wall_s if self.timings.wall_s else 0.0
