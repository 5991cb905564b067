"""Suites, jobs and records that tests make up."""

from collections.abc import Iterable
from copy import replace

from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.suite.job import Configuration, EngineName, SuiteJob, TileTarget
from pixel_gather_bench.suite.records import Record, SuiteSettings
from pixel_gather_bench.suite.source_times import Columns, SourceFailure

TARGET = TileTarget(tile=None, band=1, shape=(2, 2), dtype="uint16")
SUITE = SuiteSettings(
    engines=("fast", "rasterio"),
    concurrencies=(1, 4, None),
    times=2,
    target=TARGET,
    stores=StoreSettings(),
    warm_up=True,
    bucket_warm_up=False,
    header_nbytes=None,
    keep=False,
    best_by="throughput",
    machine={"cores": 2},
)
HREFS = ("file:///a.tif", "file:///b.tif", "file:///c.tif", "file:///d.tif")


def job_of(engine: EngineName, concurrency: int | None, round_: int = 1) -> SuiteJob:
    """Return a job over `HREFS`."""
    return SuiteJob(
        configuration=Configuration(engine=engine, concurrency=concurrency),
        round=round_,
        target=TARGET,
        stores=StoreSettings(),
        warm_up=False,
        header_nbytes=None,
        keep_in=None,
        hrefs=HREFS,
    )


def record_of(
    job: SuiteJob, *, ends_s: Iterable[float] = (1, 2, 3, 4), digest: str = "d", failed: int = 0
) -> Record:
    """Return a record of which the first ``failed`` sources were missing."""
    ends = [float(end) for end in ends_s]
    columns = replace(Columns.empty(len(ends)), end_s=ends, open_s=[0.25] * len(ends), nbytes=[7] * len(ends))
    return Record(
        job=job.without_hrefs(),
        machine={"cores": 2},
        gdal={},
        began="2026-11-21T14:30:15+00:00",
        n_sources=len(ends),
        digest=digest,
        wall_s=max(ends),
        cpu_s=0.5,
        peak_rss_mib=100.0,
        columns=columns,
        failures=tuple(
            SourceFailure(position=position, status="missing", reason="no object here")
            for position in range(failed)
        ),
    )
