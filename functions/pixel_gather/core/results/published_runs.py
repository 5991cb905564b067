"""The published result that runs are compared with: one tile of each of 1,278 Landsat 8 scenes, in 2018.

Source: the report of 2018 on reading Cloud Optimized GeoTIFFs from S3 with rasterio in threads. It ran on an
m5.xlarge (4 vCPU) in the data's Region. Each configuration ran three times, and the best run was kept. The
warm-up is not counted.
"""

from copy import replace
from typing import Final

from pixel_gather.core.results.timed_run import RunColumn
from pixel_gather.core.results.timings import Spread, TimingSummary

MOST_EFFICIENT_THREADS: Final = 12
"""Number of threads with the best throughput per thread."""

LINEAR_UP_TO_THREADS: Final = 20
"""Approximate number of threads up to which the throughput rose almost linearly."""

ONE_THREAD: Final = RunColumn(
    name="2018, 1 thread",
    engine="rasterio",
    concurrency=1,
    shape=(512, 512),
    dtype="uint16",
    n_sources=1278,
    n_read=1278,
    times=TimingSummary(
        data_nbytes=493_405_576,
        bytes_per_source=Spread(median=403_570, min=241_315, max=467_655),
        total_s=Spread(median=0.053372, min=0.0345, max=1.0122),
        open_s=Spread(median=0.030934, min=0.0154, max=0.9862),
        read_s=Spread(median=0.021641, min=0.0148, max=0.8059),
        wait_s=92.00,
        wall_s=92.65,
        typical_per_s=13.7,  # as quoted, which is not sources divided by wall time
    ),
    open_share=0.598,
    machine="m5.xlarge, 4 vCPU",
    conditions="S3 in the same Region, after a warm-up, best of three",
)
"""Its MiB a second were not published."""

BEST: Final = replace(
    ONE_THREAD,
    name="2018, 49 threads",
    concurrency=49,
    times=replace(
        ONE_THREAD.times,
        total_s=Spread(median=0.112145, min=0.0421, max=0.4761),
        open_s=Spread(median=0.054457, min=0.0158, max=0.4124),
        read_s=Spread(median=0.048627, min=0.0176, max=0.395),
        wait_s=159.00,
        wall_s=3.39,
        typical_per_s=371.7,
    ),
    open_share=0.528,
    mib_per_s=139.0,
)
PUBLISHED: Final = (ONE_THREAD, BEST)
