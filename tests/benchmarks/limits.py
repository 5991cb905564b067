"""What no reader and no gather can beat: each of their parts alone, by this project's own means.

Which bytes of a file its centre tile takes is noted before anything is timed.
"""

import asyncio
import json
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import imagecodecs
import numpy as np
import obstore

from benchmarks.gathers import memory_folder
from benchmarks.workload import TILE, centre_tile, default_folder
from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.model.status import Status
from pixel_gather.core.read.measure_rows import measure_rows
from pixel_gather.io.cube.chunk_memory import ChunkMemory, LentMemory
from pixel_gather.io.cube.shard_codec import ShardEncoder, chunk_encoder
from pixel_gather.io.event_loop import run
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.store.object_store import open_place, open_store, split_href
from pixel_gather.io.store.store_settings import StoreSettings

_SHARD_ROWS: Final = 64
_SIDE: Final = 128
"""A shard of a gather of these files is cut into chunks of 64 x 128 x 128."""

type Ranges = list[tuple[int, int]]
"""For each href, the centre tile's bytes [start, stop)."""


def note_ranges(hrefs: Sequence[str], folder: Path) -> None:
    """Write where each file's centre tile lies."""
    import tifffile  # noqa: PLC0415 # not in what is measured

    known: dict[str, tuple[int, int]] = {}
    for name in dict.fromkeys(map(_name, hrefs)):
        with tifffile.TiffFile(default_folder() / name) as tiff:
            page = tiff.pages.first
            across = -(-page.imagewidth // page.tilewidth)
            middle = -(-page.imagelength // page.tilelength) // 2 * across + across // 2
            start = page.dataoffsets[middle]
            known[name] = (start, start + page.databytecounts[middle])
    (folder / "ranges.json").write_text(json.dumps(known))


def load_ranges(hrefs: Sequence[str], folder: Path) -> Ranges:
    """Return what `note_ranges` wrote, by position."""
    known = json.loads((folder / "ranges.json").read_bytes())
    return [tuple(known[_name(href)]) for href in hrefs]


def load_tiles(hrefs: Sequence[str], folder: Path) -> list[bytes]:
    """Return each centre tile's compressed bytes, in memory once for all addresses of one file."""
    tiles: dict[str, bytes] = {}
    for href, (start, stop) in zip(hrefs, load_ranges(hrefs, folder), strict=True):
        if _name(href) not in tiles:
            tiles[_name(href)] = (default_folder() / _name(href)).read_bytes()[start:stop]
    return [tiles[_name(href)] for href in hrefs]


def fetch_header_and_tile(hrefs: Sequence[str], out: object, *, concurrency: int, prepared: Ranges) -> None:
    """Send the two GETs that an unknown file takes, both with known bytes, and drop what comes."""
    del out
    head = (0, GeoTiffSettings().head_nbytes)
    run(_fetch(hrefs, [(head, tile) for tile in prepared], concurrency))


def fetch_tile(hrefs: Sequence[str], out: object, *, concurrency: int, prepared: Ranges) -> None:
    """Send the one GET that a file with a known header takes."""
    del out
    run(_fetch(hrefs, [(tile,) for tile in prepared], concurrency))


def decode(
    hrefs: Sequence[str], out: np.ndarray[Any, Any], *, concurrency: int, prepared: Sequence[bytes]
) -> None:
    """Decode every tile from memory into ``out`` on so many threads."""
    del hrefs

    def decode_one(content: bytes, pixels: np.ndarray[Any, Any]) -> None:
        imagecodecs.deflate_decode(content, out=memoryview(pixels).cast("B"))
        imagecodecs.delta_decode(pixels, axis=1, out=pixels)

    with ThreadPoolExecutor(concurrency) as threads:
        for _ in threads.map(decode_one, prepared, out):
            pass


def load_shard(hrefs: Sequence[str], folder: Path) -> np.ndarray[Any, Any]:
    """Return the pixels of one shard in memory."""
    del hrefs, folder
    return np.stack([centre_tile(index) for index in range(_SHARD_ROWS)])


def measure(hrefs: Sequence[str], out: object, *, concurrency: int, prepared: np.ndarray[Any, Any]) -> None:
    """Compute the statistics and digest of so many tiles on so many threads."""
    del out

    def measure_one(index: int) -> None:
        outcome = Outcome(status=Status.OK, extent=(0, 0, TILE, TILE))
        measure_rows(prepared[index % len(prepared)][None, None], [outcome])

    with ThreadPoolExecutor(concurrency) as threads:
        for _ in threads.map(measure_one, range(len(hrefs)), chunksize=_SHARD_ROWS):
            pass


def compress(hrefs: Sequence[str], out: object, *, concurrency: int, prepared: np.ndarray[Any, Any]) -> None:
    """Compress as many shards as the tiles fill, in one thread per core. The last one is whole as well."""
    del out, concurrency
    memory = ChunkMemory()

    async def compress_all() -> None:
        for _ in range(max(len(hrefs) // _SHARD_ROWS, 1)):
            lent = LentMemory(memory)
            encoder = ShardEncoder(
                [prepared],
                shard=(_SHARD_ROWS, TILE, TILE),
                chunk=(_SHARD_ROWS, _SIDE, _SIDE),
                fill_value=0,
                encode=chunk_encoder("blosc-lz4", itemsize=2, fill_value=0, take=lent.take),
                memory=lent,
            )
            await encoder.encode_rows(0, _SHARD_ROWS)
            encoder.close()

    run(compress_all())


def load_stored(hrefs: Sequence[str], folder: Path) -> bytes:
    """Return what one shard takes when it is stored."""
    encode = chunk_encoder("blosc-lz4", itemsize=2, fill_value=0)
    return b"".join(bytes(encode(tile)) for tile in load_shard(hrefs, folder))


def store(hrefs: Sequence[str], out: object, *, concurrency: int, prepared: bytes) -> None:
    """Put as many shards as the tiles fill, one after another."""
    del out, concurrency

    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        place = open_place(f"file://{folder}", StoreSettings())
        for number in range(max(len(hrefs) // _SHARD_ROWS, 1)):
            obstore.put(place, f"c/{number}", prepared, use_multipart=False)


async def _fetch(
    hrefs: Sequence[str], wanted: Iterable[tuple[tuple[int, int], ...]], max_in_flight: int
) -> None:
    store = open_store(split_href(hrefs[0])[0], StoreSettings())
    unread = iter(zip(hrefs, wanted, strict=True))  # shared: whichever task is free takes the next

    async def fetch_some() -> None:
        for href, ranges in unread:
            path = split_href(href)[1]
            for start, stop in ranges:
                await obstore.get_range_async(store, path, start=start, end=stop)

    async with asyncio.TaskGroup() as group:
        for _ in range(max_in_flight):
            group.create_task(fetch_some())


def _name(href: str) -> str:
    return href.rpartition("/")[2]
