"""What a careful user writes today: rasterio in threads, shard by shard, into a sharded Zarr array.

zarr-python writes one shard while the next one is read. Chunks, shards and codec are those of a gather of
these files. There are no statistics, no digests, and no record of what was read.
"""

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
import rasterio
import zarr
from zarr.codecs import BloscCodec

from benchmarks.gathers import WrittenCube, write_cube
from benchmarks.peers.rasterio_threads import MODERN, centre_of
from benchmarks.peers.scenes import unsigned_s3
from benchmarks.workload import TILE

_SHARD_ROWS: Final = 64
_CHUNK_SIDE: Final = 128

ENCODING: Final[dict[str, Any]] = {
    "chunks": (_SHARD_ROWS, _CHUNK_SIDE, _CHUNK_SIDE),
    "shards": (_SHARD_ROWS, TILE, TILE),
    "compressors": BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle"),
}
"""Chunks, shards and codec of a gather of these files."""

type Pixels = np.ndarray[Any, np.dtype[np.uint16]]


def gather(hrefs: Sequence[str], out: object, *, concurrency: int) -> WrittenCube:
    """Write the centre tiles of all files into one array."""
    del out
    os.environ.update(MODERN | unsigned_s3(hrefs))
    return write_cube(lambda to: _write(hrefs, to, concurrency))


def _write(hrefs: Sequence[str], to: str, n_threads: int) -> str:
    array = zarr.create_array(to, shape=(len(hrefs), TILE, TILE), dtype="uint16", fill_value=0, **ENCODING)

    def write(start: int, pixels: Pixels) -> None:
        array[start : start + len(pixels)] = pixels

    shards = [
        np.empty((_SHARD_ROWS, TILE, TILE), np.uint16) for _ in range(2)
    ]  # reused: fresh memory is slow
    with (
        ThreadPoolExecutor(n_threads, initializer=_open_environment) as readers,
        ThreadPoolExecutor(1) as writer,
    ):
        writing: Future[None] | None = None
        for number, start in enumerate(range(0, len(hrefs), _SHARD_ROWS)):
            some = hrefs[start : start + _SHARD_ROWS]
            pixels = shards[number % 2][: len(some)]
            for _ in readers.map(_read, some, pixels):
                pass
            if writing is not None:
                writing.result()
            writing = writer.submit(write, start, pixels)
        if writing is not None:
            writing.result()
    return to


def _open_environment() -> None:
    """Open one environment for the life of a thread, so that no file opens its own."""
    rasterio.Env().__enter__()


def _read(href: str, out: Pixels) -> None:
    with rasterio.open(f"/vsis3{urlsplit(href).path}", driver="GTiff", sharing=False) as source:
        source.read(1, window=centre_of(source), out=out)
