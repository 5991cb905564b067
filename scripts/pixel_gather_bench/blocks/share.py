"""Writes one share of a cube as a worker does, and reads it by zarr-python: whole, by slice, by series."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import obstore
import zarr
from msgspec import Struct
from zarr.buffer import cpu

from pixel_gather.core.errors import StoreError
from pixel_gather.core.process_usage import cpu_s, peak_rss_mib
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.core.task_group import all_of
from pixel_gather.io.cube.shard_codec import chunk_encoder, encode_shard
from pixel_gather.io.cube.tile_codecs import register_codecs
from pixel_gather.io.cube.zarr_metadata import ArrayMetadata, chunk_codecs, put_metadata, zarr_codecs
from pixel_gather.io.event_loop import run
from pixel_gather.io.store.object_store import Store, open_place
from pixel_gather.io.store.store_error_status import errors_of_store
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.blocks.pixels import zarr_store
from pixel_gather_bench.blocks.sweep import ARRAY, FILL, BlockSetting

_NOT_WRITTEN: Final = "the cube could not be written"


class BlockJob(Struct, frozen=True, kw_only=True):
    """One process's share of writing or reading a cube."""

    setting: BlockSetting
    worker: int
    """From 0; each gets a run of shards, all of the same length."""

    place: str
    """Checked href of the cube's array."""

    pixels: str
    """Path of the ``.npy`` file that holds what is written."""

    stores: StoreSettings

    @property
    def shards(self) -> range:
        """Return which shards are this process's."""
        n, of = self.setting.n_shards, self.setting.n_workers
        return range(n * self.worker // of, n * (self.worker + 1) // of)

    @property
    def rows(self) -> slice:
        """Return the rows of those shards."""
        depth = self.setting.shard[0]
        return slice(self.shards.start * depth, min(self.shards.stop * depth, self.setting.shape[0]))


class WriteAnswer(Struct, frozen=True, kw_only=True):
    """What writing one share took; moments are on the clock that all processes of a machine share."""

    began_s: float
    ended_s: float
    cpu_s: float
    stored_nbytes: int
    peak_rss_mib: float


class ReadAnswer(Struct, frozen=True, kw_only=True):
    """What reading one share took, in each of three ways."""

    began_s: float
    ended_s: float
    cpu_s: float
    slices_per_s: float
    series_per_s: float
    largest_error: float
    peak_rss_mib: float


def describe(store: Store, setting: BlockSetting) -> None:
    """Put the array's metadata below the root of a store, as a gather's cube has it."""
    array = ArrayMetadata(
        shape=setting.shape,
        chunks=setting.layout.chunk,
        dtype=setting.dtype,
        fill_value=FILL,
        dims=("source", "y", "x"),
        attributes={},
        codecs=chunk_codecs(zarr_codecs(setting.codec, itemsize=setting.itemsize)),
    )
    with errors_of_store(_NOT_WRITTEN):
        put_metadata(store, ARRAY, array.in_shards(setting.layout.shard))


def ready_to_write(job: BlockJob) -> Callable[[], WriteAnswer]:
    """Load the share's pixels and return what writes them."""
    return partial(write, job, load(job))


def load(job: BlockJob) -> Pixels:
    """Return the share's pixels in memory."""
    return np.array(np.load(job.pixels, mmap_mode="r")[job.rows])


def write(job: BlockJob, pixels: Pixels) -> WriteAnswer:
    """Compress and store the share's shards."""
    store = open_place(job.place, job.stores)
    cpu_before_s, began_s = cpu_s(), time.monotonic()
    stored_nbytes = run(_write_all(job, pixels, store))
    return WriteAnswer(
        began_s=began_s,
        ended_s=time.monotonic(),
        cpu_s=cpu_s() - cpu_before_s,
        stored_nbytes=stored_nbytes,
        peak_rss_mib=peak_rss_mib(),
    )


async def _write_all(job: BlockJob, pixels: Pixels, store: Store) -> int:
    setting = job.setting
    encode = chunk_encoder(
        setting.codec, itemsize=setting.itemsize, fill_value=FILL, zfp_tolerance=setting.zfp_tolerance
    )
    slots = asyncio.Semaphore(setting.writes_in_flight)

    async def one(index: int, rows: Pixels) -> int:
        async with slots:
            parts = await encode_shard(
                rows, shard=setting.shard, chunk=setting.chunk, fill_value=FILL, encode=encode
            )
            with errors_of_store(_NOT_WRITTEN):
                await obstore.put_async(store, f"{ARRAY}/c/{index}/0/0", parts, use_multipart=False)
            return sum(len(part) for part in parts)

    depth = setting.shard[0]
    return sum(
        await all_of(
            one(index, pixels[place * depth : (place + 1) * depth]) for place, index in enumerate(job.shards)
        )
    )


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
    if job.setting.codec == "zfp":  # the others come without imagecodecs
        register_codecs()
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
    began_s, elapsed_s, n_done = time.monotonic(), 0.0, 0
    while n_done < _FEWEST or (n_done < _MOST and elapsed_s <= _LONGEST_S):
        n_done += 1
        read_at(n_done * _GOLDEN % 1)
        elapsed_s = time.monotonic() - began_s
    return n_done / elapsed_s


def _largest_error(job: BlockJob, read_back: Pixels, written: Pixels) -> float:
    """Return the largest error of a pixel. What is not a number must be so in both."""
    if read_back.tobytes() == written.tobytes():
        return 0.0
    if job.setting.codec != "zfp":
        raise StoreError(f"{job.setting.codec} gave other pixels back than were written")
    with np.errstate(invalid="ignore"):
        off = np.abs(read_back.astype("float64") - written)
    return float(np.max(off, where=np.isfinite(written), initial=0.0))
