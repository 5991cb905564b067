"""The reader that the steps use: the fast path first, and GDAL for files or CRSs that it cannot read."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import numpy as np

from pixel_gather.core.errors import SourceError, StaleHeaderError
from pixel_gather.core.model.source import Cost, Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.tile_coding import TileRange
from pixel_gather.core.model.window import Window
from pixel_gather.core.ports import LevelledSource, OpenedSource
from pixel_gather.io.gdal.settings import GdalSettings
from pixel_gather.io.geotiff.gdals_crs import GdalsCrs
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.geotiff.reader import GeoTiffReader
from pixel_gather.io.geotiff.unsupported import DamagedTileError, UnsupportedError
from pixel_gather.io.store.fetched import Fetched, Ranges

if TYPE_CHECKING:
    from pixel_gather.io.gdal.reader import GdalReader


_MAY_BE_STALE: Final = frozenset({Status.CHANGED, Status.CORRUPT, Status.UNSUPPORTED, Status.UNLIKE})
"""The statuses of a source that does not match its header."""

_SHAPE_OF: Final = attrgetter("nbytes", "width", "height", "n_bands", "dtype")
"""What both readers must find alike in a file. They may write a CRS, for example, in different ways."""


class FastSource(OpenedSource, Protocol):
    """A source that may raise UnsupportedError, and can fetch the offsets of all its tiles."""

    async def fetch_all_tiles(self) -> None:
        """Fetch the offsets of all tiles, unless there are very many."""

    async def overviews(self) -> Sequence["FastSource"]:
        """Return each overview, largest first."""

    async def stored_span(self, window: Window, bands: Sequence[int]) -> tuple[int, int, int]:
        """Return where the tiles of a window are stored, as ``ports.LevelledSource``."""


class FastReader(Protocol):
    """A source reader that may raise UnsupportedError."""

    async def open_(
        self, href: str, *, overview: int | None, cost: Cost, packed_header: bytes | None = None
    ) -> FastSource:
        """Read a source's header, as ``ports.SourceReader``."""


class FallBack(Protocol):
    """A source reader that can open a given version, and that has to be closed."""

    async def open_(
        self,
        href: str,
        *,
        overview: int | None,
        cost: Cost,
        etag: str | None = None,
        head: Fetched | None = None,
    ) -> LevelledSource:
        """Read a source's header, as ``ports.SourceReader``. Its first bytes may be there already."""

    async def aclose(self) -> None:
        """Release its resources."""


class CogReader(AbstractAsyncContextManager["CogReader"]):
    """A ``SourceReader`` that asks GDAL where the fast path raises UnsupportedError, on opening or reading.

    GDAL has pixels alone: where compressed tiles are wanted as they are stored, it is not asked.
    Both add to the same ``Cost``. Belongs to one event loop. Close it there, or use ``async with``.
    """

    def __init__(self, fast: FastReader, fall_back: FallBack) -> None:
        self._fast = fast
        self._fall_back = fall_back

    @classmethod
    def over(cls, objects: Ranges, *, fast: GeoTiffSettings, fall_back: GdalSettings) -> Self:
        """Create the reader of production over one set of clients."""
        gdal = _GdalWhenNeeded(objects, fall_back)

        async def read_header(href: str, *, overview: int | None, etag: str | None, cost: Cost) -> Header:
            return (await gdal.open_(href, overview=overview, etag=etag, cost=cost)).header

        return cls(GeoTiffReader(objects, settings=fast, gdals_crs=GdalsCrs(read_header)), gdal)

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End GDAL's processes."""
        await self._fall_back.aclose()

    async def open_(
        self, href: str, *, overview: int | None, cost: Cost, packed_header: bytes | None = None
    ) -> LevelledSource:
        """Read a source's header, or decode it from the packed header without a request.

        Raises:
            SourceError: GDAL cannot open it either.
        """
        try:
            opened = await self._fast.open_(href, overview=overview, cost=cost, packed_header=packed_header)
        except UnsupportedError as left_to_gdal:
            return await self._fall_back.open_(href, overview=overview, cost=cost, head=left_to_gdal.head)
        return _SourceWithFallBack(opened, self._fall_back, overview=overview, cost=cost)

    async def packed_header_of(self, href: str, *, overview: int | None, cost: Cost) -> bytes | None:
        """Return a packed header, which opens the source again without reading its header.

        It holds the offsets of all tiles, so it serves any window. It is None if GDAL has to read the
        source, or if the store does not tell versions apart.

        Raises:
            SourceError: It cannot be opened.
        """
        try:
            opened = await self._fast.open_(href, overview=overview, cost=cost)
            await opened.fetch_all_tiles()
        except UnsupportedError as left_to_gdal:
            await self._fall_back.open_(href, overview=overview, cost=cost, head=left_to_gdal.head)
            return None
        return opened.packed_header


class _GdalWhenNeeded:
    """GDAL's reader, imported and created at its first source. Most shards have no such source."""

    def __init__(self, objects: Ranges, settings: GdalSettings) -> None:
        self._objects = objects
        self._settings = settings
        self._reader: GdalReader | None = None

    async def open_(
        self,
        href: str,
        *,
        overview: int | None,
        cost: Cost,
        etag: str | None = None,
        head: Fetched | None = None,
    ) -> LevelledSource:
        """Read a source's header, as `FallBack`."""
        if self._reader is None:
            from pixel_gather.io.gdal.reader import GdalReader  # noqa: PLC0415 # see above

            self._reader = GdalReader(self._objects, settings=self._settings)
        return await self._reader.open_(href, overview=overview, cost=cost, etag=etag, head=head)

    async def aclose(self) -> None:
        """End GDAL's processes, if there are any."""
        if self._reader is not None:
            await self._reader.aclose()


class _SourceWithFallBack:
    """A source that the fast path opened. GDAL may still have to read its windows."""

    def __init__(self, opened: FastSource, fall_back: FallBack, *, overview: int | None, cost: Cost) -> None:
        self._opened = opened
        self._fall_back = fall_back
        self._overview = overview
        self._cost = cost
        self._by_gdal: LevelledSource | None = None
        self._opening = asyncio.Lock()

    @property
    def header(self) -> Header:
        return self._opened.header

    @property
    def packed_header(self) -> bytes | None:
        return self._opened.packed_header

    @property
    def from_packed_header(self) -> bool:
        return self._opened.from_packed_header

    async def overviews(self) -> Sequence[LevelledSource]:
        """Return each overview, largest first; see `ports.LevelledSource`."""
        try:
            found = await self._opened.overviews()
        except UnsupportedError:
            return await (await self._open_by_gdal()).overviews()
        return tuple(
            _SourceWithFallBack(each, self._fall_back, overview=index, cost=self._cost)
            for index, each in enumerate(found)
        )

    @property
    def resampling(self) -> str | None:
        """How the overviews were made; see `ports.LevelledSource`."""
        try:
            return self._opened.resampling
        except UnsupportedError:
            return None

    def known_reads(self, window: Window, bands: Sequence[int]) -> tuple[int, int] | None:
        """Return how many requests and bytes a read of a window takes; see `ports.OpenedSource`."""
        return self._opened.known_reads(window, bands)

    @property
    def hides_pixels(self) -> bool:
        """Whether a mask may hide pixels that do not hold nodata; see `ports.LevelledSource`."""
        return self._by_gdal is not None and self._by_gdal.hides_pixels

    async def stored_span(self, window: Window, bands: Sequence[int]) -> tuple[int, int, int] | None:
        """Return where the tiles of a window are stored; see `ports.LevelledSource`."""
        try:
            return await self._opened.stored_span(window, bands)
        except UnsupportedError:
            return None

    async def read_into(
        self,
        wanted: Sequence[tuple[np.ndarray[Any, Any], Window]],
        bands: Sequence[int],
        *,
        masked: bool,
        part_nbytes: int | None = None,
    ) -> None:
        """Fill arrays with the pixels of windows, as ``ports.OpenedSource`` promises."""
        with self._staleness():
            try:
                await self._opened.read_into(wanted, bands, masked=masked, part_nbytes=part_nbytes)
            except UnsupportedError as left_to_gdal:
                await self._read_by_gdal(wanted, bands, masked=masked, left_to_gdal=left_to_gdal)

    async def _read_by_gdal(
        self,
        wanted: Sequence[tuple[np.ndarray[Any, Any], Window]],
        bands: Sequence[int],
        *,
        masked: bool,
        left_to_gdal: UnsupportedError,
    ) -> None:
        try:
            opened = await self._open_by_gdal()
            await opened.read_into(wanted, bands, masked=masked)
        except SourceError as error:
            if isinstance(left_to_gdal, DamagedTileError) and error.status is Status.UNSUPPORTED:
                reason = "one of its tiles is damaged: it cannot be decoded"
                raise SourceError(reason, href=self.header.href, status=Status.CORRUPT) from left_to_gdal
            raise

    async def read_tiles(self, window: Window, bands: Sequence[int]) -> list[list[memoryview | None]]:
        """Return compressed tiles, as ``ports.OpenedSource`` promises."""
        with self._no_fall_back():
            return await self._opened.read_tiles(window, bands)

    async def find_tiles(self, window: Window, bands: Sequence[int]) -> list[list[TileRange | None]]:
        """Return where compressed tiles are, as ``ports.OpenedSource`` promises."""
        with self._no_fall_back():
            return await self._opened.find_tiles(window, bands)

    @contextmanager
    def _no_fall_back(self) -> Iterator[None]:
        """Turn what the fast path cannot do into a SourceError: GDAL has no stored tiles either."""
        with self._staleness():
            try:
                yield
            except UnsupportedError as error:
                reason = f"its tiles cannot be kept as they are: {error}"
                raise SourceError(reason, href=self.header.href, status=Status.UNSUPPORTED) from error

    @contextmanager
    def _staleness(self) -> Iterator[None]:
        """Raise StaleHeaderError for what a stale packed header may cause: the source looks damaged."""
        try:
            yield
        except SourceError as error:
            if self.from_packed_header and error.status in _MAY_BE_STALE:
                raise StaleHeaderError(error.reason, href=error.href, status=error.status) from error
            raise

    async def _open_by_gdal(self) -> LevelledSource:
        """Open the version that the header describes, once."""
        async with self._opening:
            if self._by_gdal is None:
                header = self.header
                opened = await self._fall_back.open_(
                    header.href, overview=self._overview, cost=self._cost, etag=header.etag
                )
                if _SHAPE_OF(opened.header) != _SHAPE_OF(header):
                    raise SourceError(
                        "GDAL finds another size, dtype or number of bands than its header says",
                        href=header.href,
                        status=Status.CORRUPT,
                    )
                self._by_gdal = opened
            return self._by_gdal
