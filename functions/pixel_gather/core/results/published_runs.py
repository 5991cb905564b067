"""The published result that runs are compared with: one tile of each of 1,278 Landsat 8 scenes, in 2018.

Source: the report of 2018 on reading Cloud Optimized GeoTIFFs from S3 with rasterio in threads. It ran on an
m5.xlarge (4 vCPU) in the data's Region. Each configuration ran three times, and the best run was kept. The
warm-up is not counted.
"""

from typing import Final

from msgspec import Struct

from pixel_gather.core.results.timings import Spread


class PublishedRun(Struct, frozen=True, kw_only=True):
    """One column of the published table."""

    name: str
    n_threads: int
    total_ms: Spread
    open_ms: Spread
    read_ms: Spread
    open_share: float
    """Share of opening in opening and reading, 0 to 1."""

    wait_s: float
    wall_s: float
    sources_per_s: float
    """As quoted: the typical value, not sources divided by wall time."""

    mib_per_s: float | None
    """None if it was not published."""


N_SOURCES: Final = 1278
DATA_NBYTES: Final = 493_405_576
"""Without headers."""

NBYTES_PER_SOURCE: Final = (403_570, 241_315, 467_655)
"""Median, minimum and maximum."""

MACHINE: Final = "m5.xlarge, 4 vCPU"
CONDITIONS: Final = "S3 in the same Region, after a warm-up, best of three"
SHAPE: Final = (512, 512)
DTYPE: Final = "uint16"
MOST_EFFICIENT_THREADS: Final = 12
"""Number of threads with the best throughput per thread."""

LINEAR_UP_TO_THREADS: Final = 20
"""Approximate number of threads up to which the throughput rose almost linearly."""

ONE_THREAD: Final = PublishedRun(
    name="2018, 1 thread",
    n_threads=1,
    total_ms=Spread(median=53.372, min=34.5, max=1012.2),
    open_ms=Spread(median=30.934, min=15.4, max=986.2),
    read_ms=Spread(median=21.641, min=14.8, max=805.9),
    open_share=0.598,
    wait_s=92.00,
    wall_s=92.65,
    sources_per_s=13.7,
    mib_per_s=None,
)
BEST: Final = PublishedRun(
    name="2018, 49 threads",
    n_threads=49,
    total_ms=Spread(median=112.145, min=42.1, max=476.1),
    open_ms=Spread(median=54.457, min=15.8, max=412.4),
    read_ms=Spread(median=48.627, min=17.6, max=395.0),
    open_share=0.528,
    wait_s=159.00,
    wall_s=3.39,
    sources_per_s=371.7,
    mib_per_s=139.0,
)
PUBLISHED: Final = (ONE_THREAD, BEST)
