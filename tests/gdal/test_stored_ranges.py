"""GDAL finds the bytes of a window fetched, and while it reads one file, those of others are fetched."""

import asyncio
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, override

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rasterio.io import MemoryFile
from rasterio.windows import Window as RasterioWindow

from gdal.images import image, tiff
from gdal.store import MemoryObjects
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.window import Window
from pixel_gather.io.gdal.pinned_object import PinnedObject
from pixel_gather.io.gdal.reader import GdalReader
from pixel_gather.io.gdal.settings import GdalSettings
from pixel_gather.io.gdal.stored_ranges import find_stored_ranges
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.reader import CogReader
from pixel_gather.io.store.fetched import Fetched
from support.in_loop import in_loop

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
]

SIDE: Final = 1024
WINDOW: Final = Window(col_off=300, row_off=420, width=200, height=120)
SETTINGS: Final = GdalSettings(max_children=1)
HREFS: Final = ("file:///a", "file:///b", "file:///c")


@cache
def stored(kind: str) -> bytes:
    """Return a file of noise, far longer than the first read."""
    pixels = image(bands=3, height=SIDE, width=SIDE)
    if kind.startswith("TIFF"):
        profiles: dict[str, dict[str, Any]] = {
            "TIFF, tiles": {},
            "TIFF, planes": {"interleave": "band"},
            "TIFF, strips": {"tiled": False, "blockysize": 16},
            "TIFF, big": {"BIGTIFF": "YES"},
            "TIFF, overviews": {"driver": "COG", "blocksize": 128, "interleave": "PIXEL"},
        }
        return tiff(pixels, **profiles[kind])
    more = {"TLM": "YES" if "lengths" in kind else "NO", "CODEC": "J2K" if "bare" in kind else "JP2"}
    with MemoryFile() as file:
        with file.open(
            driver="JP2OpenJPEG", width=SIDE, height=SIDE, count=3, dtype="uint16",
            blockxsize=128, blockysize=128, QUALITY="100", REVERSIBLE="YES", YCC="NO",
            RESOLUTIONS="4", **more,
        ) as dataset:  # fmt: skip
            dataset.write(pixels)
        return bytes(file.read())


KINDS: Final = (
    "TIFF, tiles",
    "TIFF, planes",
    "TIFF, strips",
    "TIFF, big",
    "TIFF, overviews",
    "JPEG 2000",
    "JPEG 2000, lengths told",
    "JPEG 2000, bare codestream",
)
HAVE_OVERVIEWS: Final = ("TIFF, overviews", "JPEG 2000")


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "overview"),
    [*((kind, None) for kind in KINDS), *((kind, 1) for kind in KINDS if kind.startswith(HAVE_OVERVIEWS))],
)
def test_gdal_finds_all_bytes_of_a_window_fetched(
    kind: str, overview: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child process asks for nothing while it reads pixels: all came with the request."""
    objects, n_when_fetched, asked = MemoryObjects({HREFS[0]: stored(kind)}), [], []
    whole, part = PinnedObject.prefetch, PinnedObject.read

    async def prefetch(pinned: PinnedObject, ranges: Any) -> None:
        assert ranges
        await whole(pinned, ranges)
        n_when_fetched.append(len(objects.ranges))

    async def read(pinned: PinnedObject, start: int, stop: int) -> bytes:
        asked.extend([(start, stop)] * len(n_when_fetched))
        return await part(pinned, start, stop)

    monkeypatch.setattr(PinnedObject, "read", read)
    monkeypatch.setattr(PinnedObject, "prefetch", prefetch)
    window = WINDOW if overview is None else Window(col_off=60, row_off=100, width=90, height=70)

    async def work() -> np.ndarray[Any, Any]:
        async with GdalReader(objects, settings=SETTINGS) as reader:
            source = await reader.open_(HREFS[0], overview=overview, cost=Cost())
            out = np.zeros((2, window.height, window.width), np.uint16)
            await source.read_into([(out, window)], [3, 1], masked=False)
            return out

    pixels = asyncio.run(work())

    assert n_when_fetched == [len(objects.ranges)]
    assert asked == []
    with MemoryFile(stored(kind)) as file:
        options = {} if overview is None else {"overview_level": overview}
        with file.open(**options) as dataset:
            rows, cols = (
                (window.row_off, window.row_off + window.height),
                (
                    window.col_off,
                    window.col_off + window.width,
                ),
            )
            np.testing.assert_array_equal(pixels, dataset.read([3, 1], window=(rows, cols)))


def in_rasterio(window: Window) -> RasterioWindow:
    """Return rasterio's window of the same pixels."""
    return RasterioWindow(window.col_off, window.row_off, window.width, window.height)


@dataclass
class Crossing(MemoryObjects):
    """Answers a request for pixels only when as many files have asked for some."""

    n_files: int = 3
    asked: set[str] = field(default_factory=set)
    all_asked: asyncio.Event = field(default_factory=asyncio.Event)

    @override
    async def get_range(self, href: str, start: int, stop: int, *, etag: str | None, cost: Cost) -> Fetched:
        if start > 0:
            self.asked.add(href)
            if len(self.asked) == self.n_files:
                self.all_asked.set()
            await asyncio.wait_for(self.all_asked.wait(), 20)
        return await super().get_range(href, start, stop, etag=etag, cost=cost)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["TIFF, tiles", "JPEG 2000"])
@in_loop
async def test_bytes_of_files_are_asked_for_side_by_side(kind: str) -> None:
    """One process reads many files. It would wait for each of their requests, one after the other."""
    objects = Crossing(dict.fromkeys(HREFS, stored(kind)), n_files=len(HREFS))

    async with GdalReader(objects, settings=SETTINGS) as reader:
        sources = [await reader.open_(href, overview=None, cost=Cost()) for href in HREFS]
        outs = [np.zeros((1, WINDOW.height, WINDOW.width), np.uint16) for _ in sources]
        async with asyncio.TaskGroup() as group:
            for source, out in zip(sources, outs, strict=True):
                group.create_task(source.read_into([(out, WINDOW)], [1], masked=False))
        for out in outs:
            np.testing.assert_array_equal(out, outs[0])


@pytest.mark.long
@pytest.mark.parametrize("kind", ["TIFF, tiles", "JPEG 2000"])
def test_a_window_that_does_not_fit_the_cache_is_fetched_in_long_steps(kind: str) -> None:
    """Of tiles that lie side by side, half of the cache is fetched at once."""
    objects = MemoryObjects({HREFS[0]: stored(kind)})
    half = 2 * 2**20
    limits = GdalSettings(max_children=1, max_cached_nbytes=2 * half)

    async def work() -> np.ndarray[Any, Any]:
        async with GdalReader(objects, settings=limits) as reader:
            source = await reader.open_(HREFS[0], overview=None, cost=Cost())
            out = np.zeros((3, SIDE, SIDE), np.uint16)
            whole = Window(col_off=0, row_off=0, width=SIDE, height=SIDE)
            await source.read_into([(out, whole)], [1, 2, 3], masked=False)
            return out

    np.testing.assert_array_equal(asyncio.run(work()), image(bands=3, height=SIDE, width=SIDE))

    fetched = [stop - start for start, stop in objects.ranges]
    assert sum(fetched) < 1.2 * len(stored(kind))
    assert max(fetched) <= half + 2 * limits.block_nbytes
    assert sum(nbytes > half / 2 for nbytes in fetched) >= len(stored(kind)) // half - 1


@pytest.mark.long
def test_the_way_to_the_tiles_is_known_to_later_windows() -> None:
    """Of a file with tiles that tell only the next one's place, another window takes one request."""
    objects = MemoryObjects({HREFS[0]: stored("JPEG 2000")})

    async def work() -> list[int]:
        async with GdalReader(objects, settings=SETTINGS) as reader:
            source = await reader.open_(HREFS[0], overview=None, cost=Cost())
            n_requests = []
            for col_off in (900, 640):
                window = Window(col_off=col_off, row_off=900, width=20, height=20)
                before = len(objects.ranges)
                await source.read_into([(np.zeros((1, 20, 20), np.uint16), window)], [1], masked=False)
                n_requests.append(len(objects.ranges) - before)
            return n_requests

    first, second = asyncio.run(work())
    assert first > 20  # of 64 tiles
    assert second == 1


def test_a_mask_is_fetched_with_the_pixels() -> None:
    """With ``masked``, the ranges of the mask of the same size follow those of the image."""
    pixels = image(bands=1, height=512, width=512).astype("uint8")
    with MemoryFile() as file:
        with file.open(
            driver="COG", height=512, width=512, count=1, dtype="uint8", blocksize=128, compress="lzma"
        ) as dataset:
            dataset.write(pixels)
            dataset.write_mask(pixels[0] > 99)  # any share of them
        content = bytes(file.read())

    async def found(*, masked: bool) -> list[tuple[int, int]]:
        pinned = await _pinned(content)
        window = Window(col_off=10, row_off=10, width=200, height=20)
        return await find_stored_ranges(pinned, "GTiff", window, [1], size=(512, 512), masked=masked)

    image_alone, with_mask = asyncio.run(found(masked=False)), asyncio.run(found(masked=True))

    assert len(image_alone) == 2  # tiles that the window touches
    assert with_mask[:2] == image_alone
    assert len(with_mask) == 4  # of the mask as many


async def _pinned(content: bytes) -> PinnedObject:
    objects = MemoryObjects({HREFS[0]: content})
    return await PinnedObject.open_(objects, HREFS[0], etag=None, cost=Cost(), settings=SETTINGS)


@pytest.mark.long
@settings(max_examples=200)
@given(data=st.data(), kind=st.sampled_from([("TIFF, overviews", "GTiff"), ("JPEG 2000", "JP2OpenJPEG")]))
@in_loop
async def test_what_is_wrong_in_a_file_is_left_to_gdal(data: st.DataObject, kind: tuple[str, str]) -> None:
    """Whatever bytes a header has, the ranges lie in the file, or none are found."""
    content = bytearray(stored(kind[0]))
    near = st.integers(0, 4095)
    for at, byte in data.draw(st.lists(st.tuples(near, st.integers(0, 255)), min_size=1, max_size=4)):
        content[at] = byte
    if data.draw(st.booleans()):
        del content[data.draw(near) + 64 :]

    pinned = await _pinned(bytes(content))
    ranges = await find_stored_ranges(pinned, kind[1], WINDOW, [1], size=(SIDE, SIDE), masked=True)
    assert all(0 <= start < stop <= len(content) for start, stop in ranges)


@pytest.mark.long
@in_loop
async def test_a_file_that_gdal_reads_is_opened_by_one_request() -> None:
    """The bytes by which the fast path has seen that it cannot read a file serve GDAL, too."""
    objects = MemoryObjects({HREFS[0]: stored("JPEG 2000")})

    cost = Cost()
    async with CogReader.over(objects, fast=GeoTiffSettings(), fall_back=SETTINGS) as reader:
        await reader.open_(HREFS[0], overview=None, cost=cost)
    assert cost.requests == len(objects.ranges) == 1
