"""Reads one share of a cube by zarr-python: whole, slice by slice, series by series."""

import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, Final

import numpy as np
import zarr
from zarr.buffer import cpu

from pixel_gather.core.errors import StoreError
from pixel_gather.core.process_usage import cpu_s, peak_rss_mib
from pixel_gather.core.read.read_shard import Pixels
from pixel_gather_bench.blocks.job import BlockJob, ReadAnswer
from pixel_gather_bench.blocks.pixels import zarr_store
from pixel_gather_bench.blocks.setting import ARRAY
from pixel_gather_bench.blocks.write import load

_LONGEST_S: Final = 0.4
"""Slices and series are read one after the other for so many seconds,"""

_FEWEST: Final = 2
"""but at least so many,"""

_MOST: Final = 32
"""and at most so many, at places spread over the cube."""

_GOLDEN: Final = 0.6180339887498949
"""Its multiples, modulo 1, are spread evenly and never repeat."""


def ready_to_read(job: BlockJob) -> Callable[[], ReadAnswer]:
    """Load the share's pixels and return what reads the cube and compares it with them."""
    return partial(read, job, load(job))


def read(job: BlockJob, pixels: Pixels) -> ReadAnswer:
    """Read a share three times and compare it with what was written; comparing does not count.

    Raises:
        StoreError: A codec without loss gave other pixels back.
    """
    if job.setting.codec == "zfp":
        from imagecodecs.zarr import register_codecs  # noqa: PLC0415 # the others come without imagecodecs

        register_codecs("imagecodecs_zfp")
    with zarr.config.set({"async.concurrency": job.setting.reads_in_flight}):
        cube: Any = zarr.open_array(zarr_store(job.place, job.stores), path=ARRAY, mode="r")
        whole = np.full_like(pixels, 1)  # touched: in virtual machines that can cost more than decoding does
        into = cpu.NDBuffer.from_numpy_array(whole)
        cpu_before_s, began_s = cpu_s(), time.monotonic()
        cube.get_basic_selection((job.rows,), out=into)
        ended_s, cpu_used_s = time.monotonic(), cpu_s() - cpu_before_s
        return ReadAnswer(
            began_s=began_s,
            ended_s=ended_s,
            cpu_s=cpu_used_s,
            largest_error=_largest_error(job, whole, pixels),
            slices_per_s=_rate(lambda part: cube[job.rows.start + int(part * len(pixels))]),
            series_per_s=_rate(lambda part: cube[:, *_pixel(part, job.setting.shape)]),
            peak_rss_mib=peak_rss_mib(),
        )


def _pixel(part: float, shape: tuple[int, int, int]) -> tuple[int, int]:
    return int(part * shape[1]), int((part * 7) % 1 * shape[2])


def _rate(read_at: Callable[[float], object]) -> float:
    began_s = time.monotonic()
    for n_done in count(1):
        read_at(n_done * _GOLDEN % 1)
        elapsed_s = time.monotonic() - began_s
        if n_done == _MOST or (n_done >= _FEWEST and elapsed_s > _LONGEST_S):
            return n_done / elapsed_s
    raise AssertionError


def _largest_error(job: BlockJob, read_back: Pixels, written: Pixels) -> float:
    """Return the largest error of a pixel. What is not a number must be so in both."""
    if read_back.tobytes() == written.tobytes():
        return 0.0
    if job.setting.codec != "zfp":
        raise StoreError(f"{job.setting.codec} gave other pixels back than were written")
    with np.errstate(invalid="ignore"):
        off = np.abs(read_back.astype("float64") - written)
    return float(np.max(off, where=np.isfinite(written), initial=0.0))
