"""What the suite tells the process of one run: which engine, how many sources at a time, and of what."""

from dataclasses import dataclass, replace
from typing import Final, Literal

from pixel_gather.adapters.object_store.object_store import StoreSettings
from pixel_gather_bench.suite.target import Target

type EngineName = Literal["fast", "rasterio"]
ENGINES: Final[tuple[EngineName, ...]] = ("fast", "rasterio")
"""``fast`` is this project's reader; ``rasterio`` is GDAL in threads, with the published settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What runs of one suite differ in."""

    engine: EngineName
    concurrency: int | None
    """Sources read at one time: places, or threads; None where the engine finds it out."""

    @property
    def name(self) -> str:
        """As it stands in tables and legends: ``fast, 12``."""
        return f"{self.engine}, {self.shown_concurrency}"

    @property
    def shown_concurrency(self) -> str:
        """The number, or ``auto``."""
        return "auto" if self.concurrency is None else str(self.concurrency)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run, whole."""

    configuration: Configuration
    round: int
    """Which of the repetitions, from 1."""

    target: Target
    stores: StoreSettings
    warm_up: bool
    """Whether one source, the last, is read before the clock starts."""

    header_nbytes: int | None
    """First read of each source; None for the engine's own."""

    keep_in: str | None
    """Folder for the pixels, or None to forget them."""

    hrefs: tuple[str, ...]

    @property
    def name(self) -> str:
        """Of its record's file, without ending: ``fast-12-1``."""
        return f"{self.configuration.engine}-{self.configuration.shown_concurrency}-{self.round}"

    def without_hrefs(self) -> "Job":
        """Return the job as its record keeps it: the list stands in the folder once."""
        return replace(self, hrefs=())
