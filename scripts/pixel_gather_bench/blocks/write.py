"""Writes one share of a cube as a worker of a gather does: one PUT for each shard."""

import asyncio
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import obstore
from obstore.exceptions import BaseError

from pixel_gather.core.errors import StoreError
from pixel_gather.core.process_usage import cpu_s, peak_rss_mib
from pixel_gather.core.read.read_shard import Pixels
from pixel_gather.core.task_group import all_of
from pixel_gather.io.cube.shard_codec import chunk_encoder, encode_shard
from pixel_gather.io.cube.zarr_metadata import ArrayMetadata, chunk_codecs, put_metadata, zarr_codecs
from pixel_gather.io.event_loop import run
from pixel_gather.io.store.object_store import Store, open_place
from pixel_gather_bench.blocks.job import BlockJob, WriteAnswer
from pixel_gather_bench.blocks.setting import ARRAY, FILL, BlockSetting


def describe(store: Store, setting: BlockSetting) -> None:
    """Put the array's metadata below the root of a store, as a gather's cube has it.

    Raises:
        StoreError: The store refuses.
    """
    try:
        array = ArrayMetadata(
            shape=setting.shape,
            chunks=setting.layout.chunk,
            dtype=setting.dtype,
            fill_value=FILL,
            dims=("source", "y", "x"),
            attributes={},
            codecs=chunk_codecs(zarr_codecs(setting.codec, itemsize=setting.itemsize)),
        )
        put_metadata(store, ARRAY, array.in_shards(setting.layout.shard))
    except (BaseError, OSError) as error:
        raise _refused(error) from error


def ready_to_write(job: BlockJob) -> Callable[[], WriteAnswer]:
    """Load the share's pixels and return what writes them."""
    return partial(write, job, load(job))


def load(job: BlockJob) -> Pixels:
    """Return the share's pixels in memory."""
    return np.array(np.load(job.pixels, mmap_mode="r")[job.rows])


def write(job: BlockJob, pixels: Pixels) -> WriteAnswer:
    """Compress and store the share's shards.

    Raises:
        StoreError: The store refuses.
    """
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
            try:
                await obstore.put_async(store, f"{ARRAY}/c/{index}/0/0", parts, use_multipart=False)
            except (BaseError, OSError) as error:
                raise _refused(error) from error
            return sum(len(part) for part in parts)

    depth = setting.shard[0]
    return sum(
        await all_of(
            one(index, pixels[place * depth : (place + 1) * depth]) for place, index in enumerate(job.shards)
        )
    )


def _refused(error: Exception) -> StoreError:
    return StoreError(f"the cube could not be written: {str(error).partition(chr(10))[0]}")
