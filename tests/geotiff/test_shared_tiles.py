"""Decoded tiles that the reads of one process share."""

import asyncio
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from geotiff.small_tiffs import HREF, MemoryObject, geotiff, noise
from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.geotiff.reader import GeoTiffReader
from pixel_gather.io.geotiff.shared_tiles import SharedTiles
from pixel_gather.io.store.fetched import Fetched
from support.in_loop import in_loop

IMAGE = noise((2, 96, 96), "uint16")
TILED = {"tiled": True, "blockxsize": 32, "blockysize": 32, "compress": "deflate", "interleave": "band"}
WINDOWS = [Window(col_off=3 * n, row_off=5 * n, width=50, height=40) for n in range(6)]


def reader_of(source: MemoryObject, nbytes: int = 1 << 20) -> GeoTiffReader:
    """Return a reader whose windows share tiles of this size together. No two tiles come in one request."""
    settings = GeoTiffSettings(
        shared_nbytes=nbytes, head_nbytes=1024, learns_head=False, max_gap_nbytes=0, max_get_nbytes=1
    )
    return GeoTiffReader(source, settings=settings)


async def read(reader: GeoTiffReader, window: Window) -> None:
    """Open the file, read one window and compare it."""
    opened = await reader.open_(HREF, overview=None, cost=Cost())
    out = np.zeros((2, window.height, window.width), "uint16")
    await opened.read_into([(out, window)], [1, 2], masked=False)
    rows, cols = slice(window.row_off, window.row_stop), slice(window.col_off, window.col_stop)
    np.testing.assert_array_equal(out, IMAGE[:, rows, cols])


async def read_all(reader: GeoTiffReader) -> None:
    """Read all windows at one time."""
    await asyncio.gather(*(read(reader, window) for window in WINDOWS))


def repeated(source: MemoryObject) -> int:
    """Return how often the tile that was fetched most often was fetched."""
    return max(Counter(each for each in source.ranges if each[0]).values())


@pytest.mark.parametrize("at_once", [True, False])
def test_windows_of_one_process_fetch_each_tile_once(tmp_path: Path, *, at_once: bool) -> None:
    """A tile that is under way is awaited, and one that is there is copied."""
    source = MemoryObject(geotiff(tmp_path / "a.tif", IMAGE, **TILED))
    reader = reader_of(source)

    async def one_by_one() -> None:
        for window in WINDOWS:
            await read(reader, window)

    asyncio.run(read_all(reader) if at_once else one_by_one())

    assert repeated(source) == 1


@pytest.mark.parametrize(("nbytes", "etag"), [(1, "v1"), (3 * 32 * 32 * 2, "v1"), (1 << 20, None)])
def test_pixels_are_right_where_tiles_are_not_kept(tmp_path: Path, nbytes: int, etag: str | None) -> None:
    """With little room tiles are read again. Without an etag, two reads may be of two versions."""
    source = MemoryObject(geotiff(tmp_path / "a.tif", IMAGE, **TILED), etag=etag)
    reader = reader_of(source, nbytes)

    asyncio.run(read_all(reader))
    asyncio.run(read_all(reader))

    assert repeated(source) > 1


def test_another_version_has_its_own_tiles(tmp_path: Path) -> None:
    """Its pixels are not those of the version before."""
    source = MemoryObject(geotiff(tmp_path / "a.tif", IMAGE + np.uint16(1), **TILED), etag="v0")
    reader = reader_of(source)
    with pytest.raises(AssertionError):
        asyncio.run(read(reader, WINDOWS[0]))
    source.content, source.etag = geotiff(tmp_path / "a.tif", IMAGE, **TILED), "v1"

    asyncio.run(read(reader, WINDOWS[0]))


class Unsteady(MemoryObject):
    """An object whose first request for a tile fails, or never ends."""

    is_late = False

    async def get_range(self, href: str, start: int, stop: int, *, etag: str | None, cost: Cost) -> Fetched:
        """Answer like any other object, from the second tile on."""
        is_first = start > 0 and not any(each[0] for each in self.ranges)
        found = await MemoryObject.get_range(self, href, start, stop, etag=etag, cost=cost)
        if is_first and self.is_late:
            await asyncio.sleep(3600)
        if is_first:
            await asyncio.sleep(0.01)  # others wait meanwhile
            raise SourceError("busy", href=href, status=Status.TIMED_OUT)
        return found


@pytest.mark.parametrize("is_late", [True, False])
@in_loop
async def test_others_read_what_a_failed_read_had_claimed(tmp_path: Path, *, is_late: bool) -> None:
    """A read that fails or is given up costs its own window alone."""
    source = Unsteady(geotiff(tmp_path / "a.tif", IMAGE, **TILED))
    source.is_late = is_late
    reader = reader_of(source)

    async def in_time(window: Window, timeout_s: float) -> None:
        async with asyncio.timeout(timeout_s):
            await read(reader, window)

    limits = [0.2 if at == 0 else 60.0 for at in range(len(WINDOWS))]
    reads = (in_time(window, limit) for window, limit in zip(WINDOWS, limits, strict=True))
    failures = [each for each in await asyncio.gather(*reads, return_exceptions=True) if each is not None]

    assert [type(each) for each in failures] == [TimeoutError if is_late else SourceError]


@in_loop
async def test_the_tiles_used_last_are_kept_within_the_bound() -> None:
    """Memory does not grow with the number of tiles."""
    tiles = SharedTiles(2000)
    keys = [(HREF, "v1", None, n, n + 1, 1) for n in range(4)]
    for key in keys:
        assert tiles.claim(key)
        assert not tiles.claim(key)
        tiles.put(key, np.zeros(1000, "u1"))
        tiles.find(keys[0])
    assert [tiles.find(key) is not None for key in keys] == [True, False, False, True]
