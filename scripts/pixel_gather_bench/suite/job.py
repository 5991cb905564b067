"""The job of one run: which engine, how many sources at a time, and what to read."""

from dataclasses import dataclass, replace
from typing import Final, Literal

from pixel_gather.io.store.object_store import StoreSettings
from pixel_gather_bench.suite.target import Target

type EngineName = Literal["fast", "rasterio"]
ENGINES: Final[tuple[EngineName, ...]] = ("fast", "rasterio")
"""``fast`` is this project's reader. ``rasterio`` is GDAL in threads, with the settings published in 2018."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Engine and concurrency of a run."""

    engine: EngineName
    concurrency: int | None
    """Sources, or threads, at one time. None lets the engine find the number."""

    @property
    def name(self) -> str:
        """The name in tables and legends, such as ``fast, 12``."""
        return f"{self.engine}, {self.shown_concurrency}"

    @property
    def shown_concurrency(self) -> str:
        """The number, or ``auto``."""
        return "auto" if self.concurrency is None else str(self.concurrency)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """All that one run needs to know."""

    configuration: Configuration
    round: int
    """Number of the repetition, from 1."""

    target: Target
    stores: StoreSettings
    warm_up: bool
    """Whether the last source is read once before the clock starts."""

    header_nbytes: int | None
    """Size of the first read of each source. None for the engine's own choice."""

    keep_in: str | None
    """Folder for the pixels, or None to forget them."""

    hrefs: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the record's file without its suffix, such as ``fast-12-1``."""
        return f"{self.configuration.engine}-{self.configuration.shown_concurrency}-{self.round}"

    def without_hrefs(self) -> "Job":
        """Return the job without its list. The suite's folder holds the list once for all jobs."""
        return replace(self, hrefs=())
