"""The record of one run, and how it becomes a `pixel_gather.core.results.run.Run`."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pixel_gather.core.results.run import Run
from pixel_gather.core.results.timings import Timings
from pixel_gather_bench.machine import machine_in_words
from pixel_gather_bench.suite.job import Job
from pixel_gather_bench.suite.source_times import Columns, Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The record of one run. Times are in seconds."""

    job: Job
    """The job without its hrefs. They are in the folder's ``list.txt``."""

    machine: dict[str, Any]
    """See `pixel_gather_bench.machine.about_machine`."""

    gdal: dict[str, str]
    """GDAL's options and version. Empty if the engine is not ``rasterio``."""

    began: str
    """Start of the run: ISO 8601, UTC."""

    n_sources: int
    digest: str
    """Digest of all pixels in the list's order, as in a cube's report. Failed sources count as zeros."""

    wall_s: float
    """Wall time of reading. Imports and warm-up are not included."""

    cpu_s: float
    """User and system time of the process and its children during ``wall_s``."""

    peak_rss_mib: float
    """Peak memory. It includes all pixels, which every engine holds until the end."""

    columns: Columns
    failures: tuple[Failure, ...]
    """In the order of the list."""

    def to_run(self) -> Run:
        """Return the run of the sources that were read, for tables and figures."""
        job, target = self.job, self.job.target
        timings = self._timings()
        return Run(
            name=job.configuration.name,
            engine=job.configuration.engine,
            concurrency=job.configuration.concurrency or timings.most_in_flight,
            is_adaptive=job.configuration.concurrency is None,
            digest=self.digest,
            window="centre tile" if target.tile is None else f"tile {target.tile[1]}_{target.tile[0]}",
            shape=target.shape,
            dtype=target.dtype,
            bands=(target.band,),
            n_sources=self.n_sources,
            n_failed=len(self.failures),
            timings=timings,
            cpu_s=self.cpu_s,
            peak_rss_mib=self.peak_rss_mib,
            machine=machine_in_words(self.machine),
            conditions=self._conditions(),
        )

    def _conditions(self) -> str:
        warm_up = "after a warm-up" if self.job.warm_up else "without a warm-up"
        gdal = self.gdal.get("version")
        return f"{warm_up}, GDAL {gdal}" if gdal else warm_up

    def _timings(self) -> Timings:
        was_read = np.ones(self.n_sources, dtype=np.bool_)
        was_read[[failure.position for failure in self.failures]] = False
        columns = self.columns

        def of(values: list[float] | list[int], dtype: str) -> np.ndarray[Any, Any]:
            return np.asarray(values, dtype=dtype)[was_read]

        return Timings(
            start_s=of(columns.start_s, "float64"),
            end_s=of(columns.end_s, "float64"),
            open_s=of(columns.open_s, "float64"),
            read_s=of(columns.read_s, "float64"),
            nbytes=of(columns.nbytes, "int64"),
            shard=of(columns.lane, "int64"),
        )
