"""The joined reader uses the fast path, and GDAL where that raises UnsupportedError."""

import asyncio
from collections.abc import Sequence
from copy import replace
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pytest

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Cost, Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.tile_coding import TileRange
from pixel_gather.core.model.window import Window
from pixel_gather.io.geotiff.unsupported import UnsupportedError
from pixel_gather.io.reader import CogReader
from pixel_gather.io.store.fetched import Fetched

HEADER: Final = Header(
    href="file:///a",
    etag='"1"',
    nbytes=10,
    driver="GTiff",
    width=4,
    height=4,
    n_bands=1,
    dtype="uint8",
    nodata=None,
    scales=(1.0,),
    offsets=(0.0,),
    transform=None,
    crs=None,
    tile_width=4,
    tile_height=4,
    is_tiled=True,
)
WINDOW: Final = Window(col_off=0, row_off=0, width=4, height=4)


@dataclass
class _Source:
    header: Header
    value: int | Exception
    packed_header: bytes | None = None
    from_packed_header: bool = False
    reduced: "_Source | Exception | None" = None
    resampling: str | None = None
    hides_pixels: bool = False

    async def overviews(self) -> Sequence["_Source"]:
        if isinstance(self.reduced, Exception):
            raise self.reduced
        return () if self.reduced is None else (self.reduced,)

    def overview_resampling(self) -> str | None:
        return self.resampling

    def known_reads(self, window: Window, bands: Sequence[int]) -> tuple[int, int] | None:
        del window, bands
        return None

    async def stored_span(self, window: Window, bands: Sequence[int]) -> tuple[int, int, int]:
        del window, bands
        if isinstance(self.value, Exception):
            raise self.value
        return 5, 1, 6

    async def fetch_all_tiles(self) -> None:
        self.packed_header = b"all tiles"

    async def read_into(
        self, wanted: Sequence[tuple[np.ndarray[Any, Any], Window]], bands: Sequence[int], **options: Any
    ) -> None:
        del bands, options
        if isinstance(self.value, Exception):
            raise self.value
        for out, _ in wanted:
            out[...] = self.value

    async def read_tiles(self, window: Window, bands: Sequence[int]) -> list[list[memoryview | None]]:
        del window
        return [[] for _ in bands]

    async def find_tiles(self, window: Window, bands: Sequence[int]) -> list[list[TileRange | None]]:
        del window
        if isinstance(self.value, Exception):
            raise self.value
        return [[] for _ in bands]


@dataclass
class _Reader:
    """Opens one source, or fails. It records the requested versions."""

    opens: _Source | Exception
    etags: list[str | None] = field(default_factory=list)
    is_closed: bool = False

    async def open_(
        self,
        href: str,
        *,
        overview: int | None,
        cost: Cost,
        etag: str | None = None,
        head: Fetched | None = None,
        packed_header: bytes | None = None,
    ) -> _Source:
        del href, overview, head, packed_header
        cost.requests += 1
        self.etags.append(etag)
        if isinstance(self.opens, Exception):
            raise self.opens
        return self.opens

    async def aclose(self) -> None:
        self.is_closed = True


def _read(fast: _Reader, fall_back: _Reader, *, times: int = 1) -> tuple[int, Cost]:
    async def work() -> tuple[int, Cost]:
        cost = Cost()
        async with CogReader(fast, fall_back) as reader:
            source = await reader.open_("file:///a", overview=None, cost=cost)
            out = np.zeros((1, 4, 4), np.uint8)
            for _ in range(times):
                await source.read_into([(out, WINDOW)], [1], masked=False)
        return int(out[0, 0, 0]), cost

    return asyncio.run(work())


def test_reader_does_not_ask_gdal_where_the_fast_path_answers() -> None:
    """GDAL's process is not started if the fast path can read the source."""
    fall_back = _Reader(_Source(HEADER, 2))

    assert _read(_Reader(_Source(HEADER, 1)), fall_back)[0] == 1
    assert fall_back.etags == []
    assert fall_back.is_closed


def test_reader_asks_gdal_when_opening_is_not_fast() -> None:
    """The requests of both readers are counted."""
    value, cost = _read(_Reader(UnsupportedError("JPEG")), _Reader(_Source(HEADER, 2)))

    assert value == 2
    assert cost.requests == 2


def test_reader_asks_gdal_for_the_same_version_when_reading_is_not_fast() -> None:
    """GDAL opens the source once, pinned to the version of the header."""
    fall_back = _Reader(_Source(HEADER, 2))

    assert _read(_Reader(_Source(HEADER, UnsupportedError("broken tile"))), fall_back, times=3)[0] == 2
    assert fall_back.etags == ['"1"']


def test_reader_lets_failures_of_the_store_through() -> None:
    """GDAL is not asked about a missing object."""
    missing = SourceError("no such object", href="file:///a", status=Status.MISSING)
    fall_back = _Reader(_Source(HEADER, 2))

    with pytest.raises(SourceError, match="no such object"):
        _read(_Reader(missing), fall_back)
    assert fall_back.etags == []


def test_reader_refuses_pixels_of_another_shape_than_promised() -> None:
    """GDAL must find the dtype of the fast path's header, by which the cube was planned."""
    fall_back = _Reader(_Source(replace(HEADER, dtype="int16"), 2))

    with pytest.raises(SourceError, match="GDAL finds another"):
        _read(_Reader(_Source(HEADER, UnsupportedError("broken tile"))), fall_back)


def _overview(fast: _Reader, fall_back: _Reader) -> tuple[int, bool, tuple[int, int, int] | None]:
    """Return a pixel of the first overview, whether a mask may hide some, and where its tiles lie."""

    async def work() -> tuple[int, bool, tuple[int, int, int] | None]:
        async with CogReader(fast, fall_back) as reader:
            source = await reader.open_("file:///a", overview=None, cost=Cost())
            (overview,) = await source.overviews()
            out = np.zeros((1, 4, 4), np.uint8)
            await overview.read_into([(out, WINDOW)], [1], masked=True)
            return int(out[0, 0, 0]), overview.hides_pixels, await overview.stored_span(WINDOW, [1])

    return asyncio.run(work())


def test_overviews_are_those_of_the_fast_path() -> None:
    """No GDAL is asked, so nothing is hidden."""
    fast = _Reader(_Source(HEADER, 1, reduced=_Source(HEADER, 2)))

    assert _overview(fast, _Reader(SourceError("x", href="", status=Status.CORRUPT))) == (2, False, (5, 1, 6))


def test_overviews_that_only_gdal_can_read_are_read_by_gdal() -> None:
    """Of the version that the header describes; a mask may hide pixels, and nobody knows where tiles lie."""
    unreadable = _Source(HEADER, UnsupportedError("a mask"))
    fast, fall_back = (
        _Reader(_Source(HEADER, 1, reduced=unreadable)),
        _Reader(_Source(HEADER, 3, hides_pixels=True)),
    )

    assert _overview(fast, fall_back) == (3, True, None)
    assert fall_back.etags == [HEADER.etag]


def test_overviews_that_only_gdal_can_find_are_gdals() -> None:
    """An odd chain of directories is such a case."""
    fast = _Reader(_Source(HEADER, 1, reduced=UnsupportedError("overviews of other kinds")))
    fall_back = _Reader(_Source(HEADER, 4, reduced=_Source(HEADER, 5)))

    assert _overview(fast, fall_back)[0] == 5
