"""One run over a list of sources, by whatever engine: what tables and figures of it are drawn from. Pure.

A cube tells of the run that made it by its coordinates, a benchmark by its records; both become a `Run`, so
any two can be laid side by side. Throughput is measured as the report of 2018 did: whenever a source is
finished, sources done by the time that has passed; its median over the run is the figure to quote.
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
    """Median and range of one figure over all sources that were read."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: "Sequence[float] | np.ndarray[Any, Any]") -> "Spread":
        """Summarise; all zero for no values."""
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
    """When each source that was read began and ended; arrays of one length, in the list's order.

    Times in seconds on one clock, that of the run: any moment may be its 0.
    """

    start_s: Floats
    end_s: Floats
    open_s: Floats
    """Until the header was known."""

    read_s: Floats
    """Waiting for the window's bytes and decoding them."""

    nbytes: Integers
    """Received for the window's pixels, without headers."""

    shard: Integers
    """Which task read it: sources of one shard were read by one worker."""

    def __post_init__(self) -> None:
        """Refuse arrays that do not belong together."""
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
        """When the first source began; 0 where none was read."""
        return float(np.min(self.start_s)) if len(self) else 0.0

    @cached_property
    def wall_s(self) -> float:
        """From the first source's start to the last one's end."""
        return float(np.max(self.end_s)) - self.began_s if len(self) else 0.0

    @cached_property
    def throughput_per_s(self) -> Floats:
        """Sources done by elapsed time, at the end of each source, in the order in which they ended."""
        elapsed_s = np.sort(self.end_s) - self.began_s
        n_done = np.arange(1, len(self) + 1, dtype="float64")
        return np.divide(n_done, elapsed_s, out=np.zeros(len(self)), where=elapsed_s > 0)

    @cached_property
    def typical_per_s(self) -> float:
        """Median of the throughput over the run: a late answer near the end does not change it."""
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
        """Most sources that were being read at one time; one that ends as another starts does not count."""
        starts, ends = np.sort(self.start_s), np.sort(self.end_s)
        n_begun = np.arange(1, len(starts) + 1)
        return int((n_begun - np.searchsorted(ends, starts, side="right")).max(initial=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, its settings and its result."""

    name: str
    """Short, for legends and heads of columns: the cube's, or ``fast, 12``."""

    engine: str
    """``fast`` is this project's reader; ``rasterio`` is GDAL in threads."""

    concurrency: int
    """Sources that were read at one time: threads, or as set; the most that were where nobody set it."""

    digest: str
    """Of all pixels: equal digests, equal pixels. Empty where they were not looked at."""

    window: str
    """As one says it: ``tile 8_8``, ``512 x 512 pixels``."""

    shape: tuple[int, int]
    """(height, width) of the window in pixels."""

    dtype: str
    bands: tuple[int, ...]
    n_sources: int
    n_failed: int
    timings: Timings
    is_adaptive: bool = False
    """Whether the run found its concurrency while reading, so that it belongs to no series of fixed ones."""

    is_cube: bool = False
    """Whether a gather made a cube in it: each cube is told apart by its name, runs of a suite by engine."""

    cpu_s: float | None = None
    """User and system time of reading, where it was measured."""

    peak_rss_mib: float | None = None
    machine: str = ""
    """What it ran on, in words; empty where nobody noted it."""

    conditions: str = ""
    """What else its speed depends on: where sources lie, what was known or warm before."""

    @property
    def series(self) -> str:
        """What it is compared as: a cube of that name, or one of an engine's runs."""
        return self.name if self.is_cube else self.engine

    @property
    def data_nbytes(self) -> int:
        """All windows' bytes, without headers."""
        return int(self.timings.nbytes.sum())

    @property
    def wait_s(self) -> float:
        """Opening and reading, summed over all sources."""
        return float(self.timings.total_s.sum())

    @property
    def sources_per_s(self) -> float:
        """Sources by wall time."""
        return len(self.timings) / self.timings.wall_s if self.timings.wall_s else 0.0

    @property
    def typical_per_s(self) -> float:
        """Median of the throughput over the run."""
        return self.timings.typical_per_s

    @property
    def mib_per_s(self) -> float:
        """Windows' bytes by wall time, in MiB."""
        return self.data_nbytes / 2**20 / self.timings.wall_s if self.timings.wall_s else 0.0
