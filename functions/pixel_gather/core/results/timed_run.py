"""One run over a list of sources, by any engine. Tables and figures are made from it. Pure.

A cube's coordinates and a benchmark's records both become a `Run`, so any two can be compared.
"""

from msgspec import Struct

from pixel_gather.core.results.timings import Timings


class Run(Struct, frozen=True, kw_only=True):
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
