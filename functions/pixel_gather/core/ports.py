"""Interfaces to the outside world. Adapters implement them; tests use fakes."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.band_meaning import BandMeaning
from pixel_gather.core.model.source import Cost, CubeRow, Header, ListColumn, SearchCost, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.tile_coding import TileRange
from pixel_gather.core.model.window import DescribedCrs, Window

type Coordinates = np.ndarray[Any, np.dtype[np.float64]]


class OpenedSource(Protocol):
    """One source whose header is known."""

    @property
    def header(self) -> Header:
        """The header of the version that was opened."""

    @property
    def packed_header(self) -> bytes | None:
        """The packed header: it opens this version again without a read. None if there is none.

        Only the reader that made it can decode it. Packing may take 0.1 ms.
        """

    @property
    def from_packed_header(self) -> bool:
        """Whether a packed header opened it. Its header is unverified until the first read of pixels."""

    async def read_into(
        self,
        wanted: Sequence[tuple[np.ndarray[Any, Any], Window]],
        bands: Sequence[int],
        *,
        masked: bool,
        part_nbytes: int | None = None,
    ) -> None:
        """Fill arrays with the pixels of windows. A tile that several windows touch is read once.

        Args:
            wanted: An array for each window. Its shape is (band, y, x), its dtype that of the header. Each of
                its bands is contiguous, in C order. Pixels that lie on the raster are overwritten. Others
                keep their value. A window is in pixels of the header's grid. If none of them lies on the
                raster, only the version of a packed header is verified.
            bands: Which bands, from 1, in the order of the arrays.
            masked: Pixels that GDAL's masks of these bands hide keep their value, too. The masks are the
                source's own mask, alpha, or nodata. Pixels that hold nodata exactly may be written.
            part_nbytes: Fetch longer ranges in parts of this size, in parallel; see
                `pixel_gather.core.estimate.range_parts`. None for one request per range. Changes no pixel.

        Raises:
            StaleHeaderError: The packed header is out of date. After this, the arrays may hold anything.
            SourceError: The pixels of a window cannot be read. After this, the arrays may hold anything.
        """

    async def read_tiles(self, window: Window, bands: Sequence[int]) -> list[list[memoryview | None]]:
        """Return the compressed tiles that a window touches, as they are stored.

        Args:
            window: It lies on the raster, and begins at a corner of tiles.
            bands: Which bands, from 1.

        Returns:
            For each band, its tiles row by row. None for a tile that is not stored.

        Raises:
            StaleHeaderError: The packed header is out of date.
            SourceError: The tiles cannot be read.
        """

    async def find_tiles(self, window: Window, bands: Sequence[int]) -> list[list[TileRange | None]]:
        """Return where the compressed tiles are that a window touches. No tile is read.

        A packed header of all tiles answers it without a request. Whether the object is still the same is
        then not known.

        Args:
            window: It lies on the raster, and begins at a corner of tiles.
            bands: Which bands, from 1.

        Returns:
            For each band, the ranges of its tiles row by row. None for a tile that is not stored.

        Raises:
            StaleHeaderError: The packed header is out of date.
            SourceError: The tiles cannot be found, or the store does not tell versions apart.
        """

    def known_reads(self, window: Window, bands: Sequence[int]) -> tuple[int, int] | None:
        """Return how many requests and bytes a read of a window takes, as far as the known header tells.

        Args:
            window: It lies on the raster.
            bands: Which bands, from 1.

        Returns:
            None if it would take a request to know.
        """

    @property
    def resampling(self) -> str | None:
        """How the overviews were made, such as ``AVERAGE`` or ``NEAREST``; None if the file does not say."""

    async def overviews(self) -> Sequence["OpenedSource"]:
        """Return each overview, largest first. Only its header is known: no pixel is read.

        Raises:
            SourceError: The overviews cannot be looked up.
        """


class LevelledSource(OpenedSource, Protocol):
    """An opened source that can be read at its overviews, too."""

    @property
    def hides_pixels(self) -> bool:
        """Whether a mask may have hidden pixels in a read. Such pixels need not hold nodata."""

    async def overviews(self) -> Sequence["LevelledSource"]:
        """Return each overview, as `OpenedSource.overviews`."""

    async def stored_span(self, window: Window, bands: Sequence[int]) -> tuple[int, int, int] | None:
        """Return how many bytes a window's tiles take, their first byte, and the byte after the last.

        Args:
            window: It lies on the raster.
            bands: Which bands, from 1.

        Returns:
            None if only GDAL knows.

        Raises:
            SourceError: The offsets of the tiles cannot be read.
        """


class LevelReader(Protocol):
    """Opens sources that can be read at several levels."""

    async def open_(self, href: str, *, overview: int | None, cost: Cost) -> LevelledSource:
        """Read a source's header, as `SourceReader.open_`."""


class SourceReader(Protocol):
    """Opens sources."""

    async def open_(
        self, href: str, *, overview: int | None, cost: Cost, packed_header: bytes | None = None
    ) -> OpenedSource:
        """Read a source's header.

        Args:
            href: A checked href.
            overview: Read from this overview; 0 is the largest. None for full resolution.
            cost: Counts what this source costs, here and in later reads.
            packed_header: From an earlier gather; see `OpenedSource.packed_header`. Untrusted: ignored if it
                does not fit.

        Raises:
            SourceError: It cannot be opened.
        """


class ReadPermit(Protocol):
    """Permission to read one source, held while it is read."""

    def record_read(self, *, n_requests: int) -> None:
        """Report that the source was read.

        Its duration then helps to set the number of concurrent reads. Do not report missing or denied
        sources: their answers come too fast to be a measure.

        Args:
            n_requests: Requests that it needed, without retries and hedges.
        """


class SourceLimiter(Protocol):
    """Limits how many sources are read at one time. Each back end has its own limit."""

    def permit(self, href: str, *, weight: int) -> AbstractAsyncContextManager[ReadPermit]:
        """Wait until the source's back end may be read, and hold that permission.

        Args:
            href: A checked href.
            weight: Approximate number of requests that the source sends at one time.
        """


class Projector(Protocol):
    """Transforms coordinates between CRSs. x is always easting or longitude."""

    def check(self, crs: str, *, field: str) -> None:
        """Raise a RequestError, which names the field, if the CRS is unknown."""

    def describe(self, crs: str) -> DescribedCrs | None:
        """Return the description of a CRS that the cube stores; None if the CRS is unknown."""

    def points(
        self, xs: Sequence[float], ys: Sequence[float], *, source_crs: str, target_crs: str
    ) -> tuple[list[float], list[float]]:
        """Transform points."""

    def point_arrays(
        self, xs: Coordinates, ys: Coordinates, *, source_crs: str, target_crs: str
    ) -> tuple[Coordinates, Coordinates]:
        """Transform many points. A point that cannot be transformed becomes infinite."""

    def bounds(
        self, bounds: tuple[float, float, float, float], *, source_crs: str, target_crs: str
    ) -> tuple[float, float, float, float]:
        """Transform (west, south, east, north), following the curves of the edges."""


@asynccontextmanager
async def opening_in_time(href: str, timeout_s: float) -> AsyncGenerator[None]:
    """Let a source be opened within so many seconds.

    Raises:
        SourceError: It takes longer.
    """
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError as error:
        raise SourceError(f"not opened within {timeout_s:g} s", href=href, status=Status.TIMED_OUT) from error


class SourceAccess(Struct, frozen=True, kw_only=True):
    """How the sources of a gather are read: one value, which every step passes on."""

    reader: SourceReader
    """Opens them."""

    projector: Projector
    """For windows that are boxes and points."""

    limiter: SourceLimiter
    """Limits how many of them are read at one time."""

    timeout_s: float
    """Longest time for one source, retries included."""

    async def open_(self, href: str, *, overview: int | None, cost: Cost) -> OpenedSource:
        """Open a source within the longest time.

        Raises:
            SourceError: It cannot be opened, or not in time.
        """
        async with opening_in_time(href, self.timeout_s):
            return await self.reader.open_(href, overview=overview, cost=cost)


class SourceTable(Protocol):
    """The list of sources, read once and kept on disk in the order of the cube's rows."""

    @property
    def digest(self) -> str:
        """Changes when any line of the list changes."""

    @property
    def n_sources(self) -> int:
        """Lines of the list."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user about the list, such as scenes that were left out."""

    def found_list(self) -> bytes | None:
        """Return what a search found, as the content of ``sources.parquet``; None if nothing was searched."""

    @property
    def n_repeated(self) -> int:
        """Sources whose href is in an earlier line of the list, too."""

    @property
    def n_rows(self) -> int:
        """Rows of the cube: one per source, or one per scene if the list has a ``band`` column."""

    @property
    def bands(self) -> tuple[str, ...]:
        """Names in the ``band`` column in order of first appearance; empty if there is no such column."""

    @property
    def search_cost(self) -> SearchCost | None:
        """Requests of the search that the list comes from; None if nothing was searched."""

    @property
    def band_numbers(self) -> Mapping[str, int]:
        """Which band of its sources each name in ``bands`` is, from 1, where the request says so."""

    @property
    def band_meanings(self) -> Mapping[str, BandMeaning]:
        """What the catalog that it was found in says of each name in ``bands``, where it says something."""

    @property
    def has_time(self) -> bool:
        """Whether every row has a time. The cube's first axis is then ``time``."""

    @property
    def n_timeless(self) -> int:
        """Rows without a time, if other rows have one. If no row has a time, 0."""

    @property
    def columns(self) -> tuple[ListColumn, ...]:
        """The list's other columns, with ``scene`` and, if only some rows have a time, ``time``."""

    def rows(self, start: int, stop: int) -> Iterator[CubeRow]:
        """Yield rows [start, stop) in the cube's order."""

    @property
    def n_by_bucket(self) -> Mapping[str, int]:
        """Number of sources in each S3 bucket, by its name."""

    @property
    def n_known(self) -> int:
        """Sources that the header index has a packed header for."""

    def packed_headers(self, start: int, stop: int) -> Iterator[tuple[bytes | None, ...]]:
        """Yield the packed headers of each row's sources for rows [start, stop); None where there is none."""

    def spread(self, n: int, *, band: str | None) -> tuple[Source, ...]:
        """Return up to ``n`` sources spread evenly over the rows, first and last among them."""
