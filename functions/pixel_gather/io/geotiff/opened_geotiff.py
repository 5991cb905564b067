"""Read windows of a GeoTIFF whose header is known."""

from collections.abc import Sequence
from contextlib import suppress
from copy import replace
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from pixel_gather.core.model.source import Header
from pixel_gather.core.model.tile_coding import TileRange
from pixel_gather.core.model.window import Window
from pixel_gather.core.task_group import all_of
from pixel_gather.io.geotiff.decode import check_stored, check_stored_nbytes
from pixel_gather.io.geotiff.fetch_and_decode import PixelRead
from pixel_gather.io.geotiff.gdal_metadata import mentions_mask, overview_resampling
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.geotiff.header import find_overviews, has_mask, reduced_header
from pixel_gather.io.geotiff.header_bytes import NeedBytes
from pixel_gather.io.geotiff.header_read_size import FirstRead
from pixel_gather.io.geotiff.ifd import Ifd, Tag
from pixel_gather.io.geotiff.layout import Compression, TileLayout
from pixel_gather.io.geotiff.nodata_tag import hides_another_value, is_near_nodata
from pixel_gather.io.geotiff.offset_codec import MAX_TILES
from pixel_gather.io.geotiff.packed_header import pack
from pixel_gather.io.geotiff.tiff_file import TiffFile
from pixel_gather.io.geotiff.tile_reads import (
    Get,
    TileRead,
    join_tile_reads,
    plan_tile_reads,
    plan_whole_tiles,
    tile_spans,
    window_around,
)
from pixel_gather.io.geotiff.tiles_into_array import Pixels, fill_tile
from pixel_gather.io.geotiff.unsupported import UnsupportedError
from pixel_gather.io.store.object_store import strong_etag

type _Part = tuple[Pixels, Window]
"""An array, and the window on the raster whose pixels it takes."""


@dataclass(slots=True, kw_only=True)
class OpenedGeoTiff:
    """A GeoTIFF or one of its overviews: a ``ports.OpenedSource`` that may also raise UnsupportedError."""

    header: Header
    file: TiffFile
    first: Ifd
    """The first directory of the file. Its georeference and metadata hold for the whole file."""

    ifd: Ifd
    """The directory that windows are read from."""

    layout: TileLayout
    overview: int | None
    first_read: FirstRead
    """Learns from this file, unless it was opened from a packed header."""

    is_masked: bool | None = None
    """Whether GDAL hides pixels: by a mask, an alpha band or otherwise. None while not checked."""

    packed: bytes | None = None
    """The packed header that it was opened from, if any. ``file`` may have fetched more since."""

    n_packed_parts: int = 0
    """How many parts of the header came from ``packed``."""

    window_tiles: tuple[tuple[int, int], ...] = ()
    """Tiles [first, stop) that the last window touched."""

    @property
    def from_packed_header(self) -> bool:
        """Whether it was opened without reading its header."""
        return self.packed is not None

    @property
    def packed_header(self) -> bytes | None:
        """Return the packed header, which opens this version again without reading its header."""
        is_new = self.packed is None or self.file.header_bytes.n_parts > self.n_packed_parts
        return self._pack() if is_new else self.packed

    async def read_into(
        self,
        wanted: Sequence[tuple[Pixels, Window]],
        bands: Sequence[int],
        *,
        masked: bool,
        part_nbytes: int | None = None,
    ) -> None:
        """Fill arrays with the pixels of windows, as ``ports.OpenedSource`` says.

        After an error they may hold anything where the windows lie on the raster. With ``masked`` they are
        unchanged.

        Raises:
            UnsupportedError: GDAL has to read it, for example because a tile cannot be decoded.
            SourceError: The object cannot be read.
        """
        limits = self.file.settings.in_parts(part_nbytes if self.file.is_pinned else None)
        inside: list[_Part] = []
        for out, window in wanted:
            part = window.clipped(width=self.layout.width, height=self.layout.height)
            if part is not None:
                row, col = part.row_off - window.row_off, part.col_off - window.col_off
                inside.append((out[:, row : row + part.height, col : col + part.width], part))
        if inside:
            await self._read_inside(inside, bands, masked=masked, limits=limits)
        if not self.file.is_seen:  # no read has shown yet that this version still exists
            await self.file.get(0, 1)

    async def read_tiles(self, window: Window, bands: Sequence[int]) -> list[list[memoryview | None]]:
        """Return the compressed tiles of a window, as ``ports.OpenedSource`` says.

        Raises:
            UnsupportedError: An offset or a size is impossible.
            SourceError: The object cannot be read.
        """
        started, limits = perf_counter(), self.file.settings
        tile_reads = await self._whole_tiles(window, bands)
        gets = join_tile_reads(
            [each for each in tile_reads if not each.is_sparse],
            max_gap_nbytes=limits.max_gap_nbytes,
            max_joined_nbytes=limits.max_get_nbytes,
        )
        stored: dict[TileRead, memoryview] = {}

        async def fetch(get: Get) -> None:
            content = await self.file.get(get.start, get.stop)
            for each in get.tile_reads:
                stored[each] = content[each.start - get.start : each.stop - get.start]

        await all_of((fetch(get) for get in gets), at_once=limits.max_gets_in_flight)
        if not self.file.is_seen:  # as after `read_into`
            await self.file.get(0, 1)
        for tile in stored.values():
            check_stored(tile, self.layout)
        self.file.cost.read_s += perf_counter() - started
        return [[stored.get(each) for each in of_band] for of_band in self._by_band(tile_reads, bands)]

    async def find_tiles(self, window: Window, bands: Sequence[int]) -> list[list[TileRange | None]]:
        """Return where the compressed tiles of a window are, as ``ports.OpenedSource`` says.

        Raises:
            UnsupportedError: An offset or a size is impossible, or the object's version has no name.
            SourceError: The object cannot be read.
        """
        if strong_etag(self.file.etag) is None:
            raise UnsupportedError("its store has no ETag that would tell a later change")
        tile_reads = await self._whole_tiles(window, bands)
        for each in tile_reads:
            if not each.is_sparse:
                check_stored_nbytes(each.stop - each.start, self.layout)
        return [
            [None if each.is_sparse else TileRange(each.start, each.stop - each.start) for each in of_band]
            for of_band in self._by_band(tile_reads, bands)
        ]

    async def _whole_tiles(self, window: Window, bands: Sequence[int]) -> list[TileRead]:
        """Look up the tiles of a window, and fetch the offsets that are not known."""
        limit = self.file.settings.max_tile_nbytes
        found = await self.file.parse(
            lambda: plan_whole_tiles(self.ifd, self.layout, window, bands, max_tile_nbytes=limit)
        )
        self.window_tiles = tile_spans(self.layout, window, bands)
        if self.packed is None:
            self.first_read.learn(self.file.header_bytes.seen_stop)
        return found

    def _by_band(self, tile_reads: Sequence[TileRead], bands: Sequence[int]) -> list[list[TileRead]]:
        planes = [band - 1 if self.layout.n_planes > 1 else 0 for band in bands]
        return [[each for each in tile_reads if each.plane == plane] for plane in planes]

    async def _read_inside(
        self, inside: Sequence[_Part], bands: Sequence[int], *, masked: bool, limits: GeoTiffSettings
    ) -> None:
        """Fill the arrays of windows that lie on the raster."""
        if not masked:
            await self._fill(inside, bands, limits)
            return
        await self.file.parse(self._refuse_masks)
        unmasked = [(np.empty_like(out), window) for out, window in inside]
        await self._fill(unmasked, bands, limits)
        if any(is_near_nodata(pixels, self.header.nodata) for pixels, _ in unmasked):
            raise UnsupportedError("values close to nodata, which GDAL may hide")
        for (out, _), (pixels, _) in zip(inside, unmasked, strict=True):
            if self.header.nodata == 0 and pixels.dtype.kind in "fc":
                np.copyto(out, pixels, where=pixels != 0)  # GDAL hides -0.0 as well
            else:
                out[...] = pixels

    async def _fill(self, parts: Sequence[_Part], bands: Sequence[int], limits: GeoTiffSettings) -> None:
        """Fill arrays with windows that lie on the raster. Each tile is fetched and decoded once."""
        started = perf_counter()
        outs, windows = [out for out, _ in parts], [window for _, window in parts]
        tile_reads = await self.file.parse(lambda: self._cut(windows, bands, limits))
        self.window_tiles = tile_spans(self.layout, window_around(windows), bands)
        if self.packed is None:
            self.first_read.learn(self.file.header_bytes.seen_stop)
        stored = [tile_read for tile_read in tile_reads if not tile_read.is_sparse]
        if len(stored) < len(tile_reads):
            self._fill_sparse([tile_read for tile_read in tile_reads if tile_read.is_sparse], outs, bands)
        read = PixelRead(
            file=self.file, layout=self.layout, overview=self.overview, outs=outs, bands=bands, limits=limits
        )
        tiles = None if self.layout.compression is Compression.NONE else self.file.tiles
        arrived = await (read.read_all(stored) if tiles is None else read.read_shared(stored, tiles))
        self.file.cost.read_s += max(arrived - started, 0.0)

    def _cut(
        self, windows: Sequence[Window], bands: Sequence[int], limits: GeoTiffSettings
    ) -> list[TileRead]:
        return plan_tile_reads(
            self.ifd,
            self.layout,
            windows,
            bands,
            max_tile_nbytes=limits.max_tile_nbytes,
            max_row_nbytes=limits.max_get_nbytes,
            part_nbytes=limits.cut_nbytes,
        )

    def _fill_sparse(
        self, tile_reads: Sequence[TileRead], outs: Sequence[Pixels], bands: Sequence[int]
    ) -> None:
        """Write the value that GDAL returns for tiles that are not stored."""
        nodata = self.header.nodata
        if nodata is None and Tag.GDAL_NODATA in self.first.entries:
            raise UnsupportedError("absent tiles, with a nodata value that the dtype cannot hold")
        value = 0 if nodata is None else nodata
        if self.layout.is_complex_int:
            if value != int(value):
                raise UnsupportedError("absent tiles of integers, with a nodata that GDAL rounds")
            value = int(value)  # they have no negative zero
        for tile_read in tile_reads:
            fill_tile(value, tile_read, self.layout, out=outs[tile_read.window], bands=bands)

    def _refuse_masks(self) -> None:
        """Leave a file to GDAL if more is masked than pixels of exactly the nodata value."""
        if self.is_masked is None:
            self.is_masked = (
                self.layout.has_alpha
                or mentions_mask(self.first)
                or hides_another_value(self.first, self.layout.dtype)
                or has_mask(self.first)
            )
        if self.is_masked:
            raise UnsupportedError("a mask or an alpha band")

    async def overviews(self) -> tuple["OpenedGeoTiff", ...]:
        """Return each overview, largest first. They share the parts of the file that have been read.

        Raises:
            UnsupportedError: GDAL has to read it.
            SourceError: The object cannot be read.
        """
        found = await self.file.parse(lambda: find_overviews(self.first, self.layout))
        full = replace(self.header, overviews=tuple((each.width, each.height) for _, each in found))
        return tuple(
            replace(
                self,
                header=reduced_header(full, layout),
                ifd=ifd,
                layout=layout,
                overview=index,
                packed=None,
                window_tiles=(),
            )
            for index, (ifd, layout) in enumerate(found)
        )

    @property
    def resampling(self) -> str | None:
        """Return how the file says that its overviews were made, such as ``AVERAGE``; None if it does not."""
        try:
            return overview_resampling(self.first)
        except NeedBytes:  # the header was made from this text, so this is seldom
            return None

    def known_reads(self, window: Window, bands: Sequence[int]) -> tuple[int, int] | None:
        """Return how many requests and bytes a read of a window takes, as ``ports.OpenedSource`` says."""
        limits = self.file.settings
        try:
            reads = self._cut([window], bands, limits)
        except (NeedBytes, UnsupportedError):
            return None
        gets = join_tile_reads(
            [each for each in reads if not each.is_sparse],
            max_gap_nbytes=limits.max_gap_nbytes,
            max_joined_nbytes=limits.cut_nbytes,
        )
        return len(gets), sum(each.stop - each.start for each in gets)

    async def stored_span(self, window: Window, bands: Sequence[int]) -> tuple[int, int, int]:
        """Return how many bytes the tiles of a window take, and their first byte and the byte after the last.

        Raises:
            UnsupportedError: GDAL has to read it.
            SourceError: The object cannot be read.
        """
        reads = await self.file.parse(lambda: self._cut([window], bands, self.file.settings))
        stored = [read for read in reads if not read.is_sparse]
        if not stored:
            return 0, 0, 0
        nbytes = sum(read.stop - read.start for read in stored)
        return nbytes, min(read.start for read in stored), max(read.stop for read in stored)

    async def fetch_all_tiles(self) -> None:
        """Fetch the offsets of all tiles, unless there are more than an index takes.

        Raises:
            UnsupportedError: GDAL has to read it.
            SourceError: The object cannot be read.
        """
        layout = self.layout
        if layout.n_tiles <= MAX_TILES:
            await self.file.parse(  # looking the values up fetches them
                lambda: [
                    self.ifd.array(tag, 0, layout.n_tiles) for tag in (layout.offsets_tag, layout.counts_tag)
                ]
            )
            self.first_read.learn(self.file.header_bytes.seen_stop)

    def _pack(self) -> bytes | None:
        if self.is_masked is None:
            with suppress(NeedBytes, UnsupportedError):  # then a later read checks it
                self._refuse_masks()
        return pack(
            self.header,
            self.layout,
            first=self.first,
            ifd=self.ifd,
            overview=self.overview,
            is_masked=self.is_masked,
            wanted=self.window_tiles,
        )
