"""Long ranges are fetched in parts, also from files that change or fail meanwhile."""

import asyncio
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from geotiff.small_tiffs import Array, MemoryObject, noise, opened, tiff
from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window
from pixel_gather.io.geotiff.fetch_in_parallel import fetch_ranges
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.geotiff.opened_geotiff import OpenedGeoTiff
from pixel_gather.io.geotiff.unsupported import UnsupportedError
from pixel_gather.io.store.fetched import Fetched

IMAGE = noise((160, 130), "uint16")
WINDOW = Window(col_off=0, row_off=0, width=130, height=160)
SETTINGS = GeoTiffSettings(head_nbytes=1024, learns_head=False)


@dataclass(slots=True)
class Shared(MemoryObject):
    """Answers slowly, so that requests overlap. It may change or fail at one of them."""

    under_way: int = 0
    most_under_way: int = 0
    changes_at: int | None = None
    """This request, from 0, finds another version of the same size."""

    fails_at: int | None = None
    n_asked: int = 0

    async def get_range(self, href: str, start: int, stop: int, *, etag: str | None, cost: Cost) -> Fetched:
        """Answer as ``object_store.Objects`` does."""
        position, self.n_asked = self.n_asked, self.n_asked + 1
        if position == self.changes_at:
            self.etag, self.content = "v2", bytes(len(self.content))
        if position == self.fails_at:
            raise SourceError("denied", href=href, status=Status.DENIED)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(0.001)  # requests of the same window overlap
            return await MemoryObject.get_range(self, href, start, stop, etag=etag, cost=cost)
        finally:
            self.under_way -= 1


def strip(path: Path, **options: object) -> Shared:
    """Return a file of a single long strip."""
    return Shared(tiff(path / "a.tif", IMAGE, rowsperstrip=160, **options))


def read(source: OpenedGeoTiff, *, part_nbytes: int | None) -> Array:
    """Read the whole image."""
    out = np.zeros((1, 160, 130), np.uint16)
    asyncio.run(source.read_into([(out, WINDOW)], (1,), masked=False, part_nbytes=part_nbytes))
    pixels: Array = out[0]
    return pixels


@pytest.mark.parametrize("part_nbytes", [1, 1000, 5000, 10_000_000])
@pytest.mark.parametrize("options", [{"compression": "zlib"}, {}, {"tile": (64, 64)}], ids=str)
def test_parts_of_any_size_give_the_same_pixels(
    tmp_path: Path, part_nbytes: int, options: dict[str, object]
) -> None:
    """Parts of compressed strips are joined. Uncompressed strips are cut by rows, others between tiles."""
    content = tiff(tmp_path / "a.tif", IMAGE, **({"rowsperstrip": 160} | options))

    got = read(opened(content, settings=SETTINGS), part_nbytes=part_nbytes)

    np.testing.assert_array_equal(got, IMAGE)


def test_a_long_compressed_strip_is_fetched_side_by_side_and_each_part_is_counted(tmp_path: Path) -> None:
    """Each byte is fetched once, from one version. The cost counts the requests."""
    stored = strip(tmp_path, compression="zlib")
    source = opened(stored, settings=SETTINGS)
    before = len(stored.ranges), source.file.cost.requests

    read(source, part_nbytes=-(-len(stored.content) // 4))

    parts = sorted(stored.ranges[before[0] :])
    assert stored.most_under_way == len(parts) == 4
    assert all(one[1] == other[0] for one, other in pairwise(parts))
    assert source.file.cost.requests - before[1] == 4
    assert set(stored.etags[before[0] :]) == {"v1"}


@pytest.mark.parametrize(("n_rows", "most"), [(160, 3), (80, 3), (20, 3)])
def test_never_more_requests_in_flight_than_a_window_may_have(tmp_path: Path, n_rows: int, most: int) -> None:
    """One long strip, two and eight keep to the limit."""
    stored = Shared(tiff(tmp_path / "a.tif", IMAGE, rowsperstrip=n_rows, compression="zlib"))
    settings = GeoTiffSettings(head_nbytes=1024, learns_head=False, max_gets_in_flight=most)

    got = read(opened(stored, settings=settings), part_nbytes=300)

    np.testing.assert_array_equal(got, IMAGE)
    assert stored.most_under_way <= most


@pytest.mark.parametrize(("has_etag", "part_nbytes"), [(True, None), (False, 1000)])
def test_a_long_strip_is_a_single_range(tmp_path: Path, *, has_etag: bool, part_nbytes: int | None) -> None:
    """So it is without parts. Without an etag, parts of two versions could not be told apart."""
    stored = strip(tmp_path, compression="zlib")
    stored.etag = stored.etag if has_etag else None
    source = opened(stored, settings=SETTINGS)
    before = len(stored.ranges)

    read(source, part_nbytes=part_nbytes)

    assert len(stored.ranges) - before == 1


@pytest.mark.parametrize(
    ("kind", "part", "status"), [("changes_at", 2, "CHANGED"), ("fails_at", 1, "DENIED")]
)
def test_a_part_that_fails_or_has_changed_ends_the_others(
    tmp_path: Path, kind: str, part: int, status: str
) -> None:
    """The source gets the status of the part. Versions are never mixed. No request stays in flight."""
    stored = strip(tmp_path, compression="zlib")
    source = opened(stored, settings=SETTINGS)
    setattr(stored, kind, stored.n_asked + part)

    with pytest.raises(SourceError) as raised:
        read(source, part_nbytes=len(stored.content) // 6)

    assert raised.value.status is Status[status]
    assert stored.under_way == 0


def test_a_short_part_is_not_fast(tmp_path: Path) -> None:
    """A file whose server sends too few bytes is left to GDAL."""

    class Short(Shared):
        async def get_range(
            self, href: str, start: int, stop: int, *, etag: str | None, cost: Cost
        ) -> Fetched:
            stop -= start > 1024
            return await MemoryObject.get_range(self, href, start, stop, etag=etag, cost=cost)

    source = opened(Short(strip(tmp_path, compression="zlib").content), settings=SETTINGS)

    with pytest.raises(UnsupportedError):
        read(source, part_nbytes=2000)


def test_ranges_are_joined_in_order_and_a_single_one_is_not_copied() -> None:
    """Whichever arrives first. Nothing follows the last byte."""
    content = memoryview(bytes(range(100)))
    arrived = []

    async def fetch(start: int, stop: int) -> memoryview:
        await asyncio.sleep((100 - start) / 1e5)
        arrived.append(start)
        return content[start:stop]

    async def whole() -> memoryview:
        return content

    ranges = [(10, 30), (30, 35), (35, 90)]
    assert bytes(asyncio.run(fetch_ranges(fetch, ranges))) == bytes(range(10, 90))
    assert sorted(arrived) == [10, 30, 35]
    assert asyncio.run(fetch_ranges(lambda *_: whole(), [(0, 100)])) is content


@pytest.mark.parametrize(("n_strips", "most"), [(1, 6), (2, 6), (4, 4), (5, 5), (8, 6)])
def test_long_strips_share_the_requests_of_a_window(tmp_path: Path, n_strips: int, most: int) -> None:
    """Each strip is cut into as many parts as its share has. No request of the limit stays unused."""
    stored = Shared(tiff(tmp_path / "a.tif", IMAGE, rowsperstrip=160 // n_strips, compression="zlib"))
    limits = GeoTiffSettings(head_nbytes=1024, learns_head=False, max_gets_in_flight=6, max_gap_nbytes=0)
    source = opened(stored, settings=limits)

    np.testing.assert_array_equal(read(source, part_nbytes=300), IMAGE)

    assert stored.most_under_way == most
