"""One run over a list of sources, by any engine, and its figures. Tables and drawings are made from it. Pure.

A cube's coordinates and a benchmark's records both become a `Run`, so any two can be compared.
"""

from typing import Any

from msgspec import Struct

from pixel_gather.core.results.timings import Timings, TimingSummary


class RunFacts(Struct, frozen=True, kw_only=True):
    """The settings of a run, and what it gave beside its times. What is not known is empty or None."""

    name: str
    """Short name for legends and column heads: the cube's name, or ``fast, 12``."""

    engine: str = ""
    """``fast`` is this project's reader. ``rasterio`` is GDAL in threads."""

    concurrency: int
    """Sources read at one time: the number of threads, or the setting, or else the measured maximum."""

    digest: str = ""
    """Digest of all pixels: equal digests mean equal pixels."""

    window: str = ""
    """The window in words: ``tile 8_8``, ``512 x 512 pixels``."""

    shape: tuple[int, int]
    """(height, width) of the window in pixels."""

    dtype: str
    bands: tuple[int, ...] = ()
    n_sources: int
    n_failed: int | None = None
    cpu_s: float | None = None
    """User and system time of reading."""

    peak_rss_mib: float | None = None
    machine: str = ""
    """Description of the machine."""

    conditions: str = ""
    """Other conditions of its speed: location of the sources, cached headers, warm caches."""


class RunColumn(RunFacts, frozen=True, kw_only=True):
    """One run's figures in a table of runs."""

    times: TimingSummary
    n_read: int
    open_share: float
    """Share of opening in opening and reading, 0 to 1."""

    mib_per_s: float | None = None
    """MiB of windows divided by wall time."""

    @property
    def by_wall_per_s(self) -> float:
        """Sources divided by wall time."""
        return self.n_read / self.times.wall_s if self.times.wall_s else 0.0


class Run(RunFacts, frozen=True, kw_only=True):
    """One run with the times of its sources."""

    timings: Timings
    is_adaptive: bool = False
    """Whether the concurrency adapted during the run. It then belongs to no series of fixed ones."""

    is_cube: bool = False
    """Whether the run is a gather of a cube. Cubes are compared by name, other runs by engine."""

    @property
    def series(self) -> str:
        """Name of the series that it belongs to: the cube's name, or the engine."""
        return self.name if self.is_cube else self.engine

    @property
    def typical_per_s(self) -> float:
        """Median of the throughput over the run."""
        return self.timings.typical_per_s

    @property
    def mib_per_s(self) -> float:
        """MiB of windows, without headers, divided by wall time."""
        return float(self.timings.nbytes.sum()) / 2**20 / self.timings.wall_s if self.timings.wall_s else 0.0

    @property
    def column(self) -> RunColumn:
        """Its figures for a table."""
        facts: dict[str, Any] = {name: getattr(self, name) for name in RunFacts.__struct_fields__}
        times = self.timings.summary()
        return RunColumn(
            **facts,
            times=times,
            n_read=len(self.timings),
            open_share=times.open_share,
            mib_per_s=self.mib_per_s,
        )
