"""What no reader can beat: fetching alone and decoding alone, by this project's own client and decoder.

Which bytes of a file its centre tile takes is noted before anything is timed.
"""

import asyncio
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import obstore

from benchmarks.workload import default_folder
from pixel_gather.adapters.event_loop import run
from pixel_gather.adapters.geotiff.settings import GeoTiffSettings
from pixel_gather.adapters.object_store.object_store import StoreSettings, open_store, split_href

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
