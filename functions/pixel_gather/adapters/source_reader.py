"""The reader that the steps get: the fast path first, GDAL for what it leaves and for odd CRSs."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np

from pixel_gather.adapters.gdal.reader import GdalReader
from pixel_gather.adapters.gdal.settings import GdalSettings
from pixel_gather.adapters.geotiff.gdals_crs import GdalsCrs
from pixel_gather.adapters.geotiff.not_fast import NotFast
from pixel_gather.adapters.geotiff.reader import GeoTiffReader
from pixel_gather.adapters.geotiff.settings import GeoTiffSettings
from pixel_gather.adapters.object_store import Fetched
from pixel_gather.errors import SourceError
from pixel_gather.ports import OpenedSource, SourceReader
from pixel_gather.source import Cost, Header
from pixel_gather.status import Status
from pixel_gather.window import Window


class Ranges(Protocol):
    """What is needed of ``object_store.Objects``."""

    async def get_range(self, href: str, start: int, stop: int, *, etag: str | None, cost: Cost) -> Fetched:
        """Read bytes [start, stop) of one version of an object."""


class FallBack(Protocol):
    """A source reader that can be told which version to open, and that has something to close."""

    async def open_(
        self, href: str, *, overview: int | None, cost: Cost, etag: str | None = None
    ) -> OpenedSource:
        """Read a source's header, as ``ports.SourceReader``."""

    async def aclose(self) -> None:
        """Let go of what it holds."""


class CogReader(AbstractAsyncContextManager["CogReader"]):
    """A ``SourceReader`` that asks GDAL where the fast path says NotFast, at opening or at reading.

    Both add to the same ``Cost``. Belongs to one event loop; close it there, or use ``async with``.
    """

    def __init__(self, fast: SourceReader, fall_back: FallBack) -> None:
        self._fast = fast
        self._fall_back = fall_back

    @classmethod
    def over(cls, objects: Ranges, *, fast: GeoTiffSettings, fall_back: GdalSettings) -> Self:
        """Make the reader of production over one set of clients."""
        gdal = GdalReader(objects, settings=fall_back)

        async def read_header(href: str, *, overview: int | None, etag: str | None, cost: Cost) -> Header:
            return (await gdal.open_(href, overview=overview, etag=etag, cost=cost)).header

        return cls(GeoTiffReader(objects, settings=fast, gdals_crs=GdalsCrs(read_header)), gdal)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End GDAL's processes."""
        await self._fall_back.aclose()

    async def open_(self, href: str, *, overview: int | None, cost: Cost) -> OpenedSource:
        """Read a source's header.

        Raises:
            SourceError: It cannot be opened; the fall-back's word is the last.
        """
        try:
            opened = await self._fast.open_(href, overview=overview, cost=cost)
        except NotFast:
            return await self._fall_back.open_(href, overview=overview, cost=cost)
        return _FastSource(opened, self._fall_back, overview=overview, cost=cost)


class _FastSource:
    """A source that the fast path opened, and whose windows GDAL may still have to read."""

    def __init__(
        self, opened: OpenedSource, fall_back: FallBack, *, overview: int | None, cost: Cost
    ) -> None:
        self._opened = opened
        self._fall_back = fall_back
        self._overview = overview
        self._cost = cost
        self._by_gdal: OpenedSource | None = None
        self._opening = asyncio.Lock()

    @property
    def header(self) -> Header:
        return self._opened.header

    async def read_into(
        self, out: np.ndarray[Any, Any], window: Window, bands: Sequence[int], *, masked: bool
    ) -> None:
        """Fill ``out`` with the window's pixels, as ``ports.OpenedSource`` promises."""
        try:
            await self._opened.read_into(out, window, bands, masked=masked)
        except NotFast:
            opened = await self._open_by_gdal()
            await opened.read_into(out, window, bands, masked=masked)

    async def _open_by_gdal(self) -> OpenedSource:
        """Open the version that the header tells of, once."""
        async with self._opening:
            if self._by_gdal is None:
                header = self.header
                opened = await self._fall_back.open_(
                    header.href, overview=self._overview, cost=self._cost, etag=header.etag
                )
                seen = opened.header
                if (seen.nbytes, seen.width, seen.height, seen.n_bands, seen.dtype) != (
                    header.nbytes,
                    header.width,
                    header.height,
                    header.n_bands,
                    header.dtype,
                ):
                    raise SourceError(
                        "is read otherwise by GDAL than its header promised",
                        href=header.href,
                        status=Status.CORRUPT,
                    )
                self._by_gdal = opened
            return self._by_gdal
