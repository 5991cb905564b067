"""Fetch stored tiles, decode them, and copy their pixels into the arrays of one read."""

from collections.abc import Callable, Sequence
from time import perf_counter

from msgspec import Struct

from pixel_gather.core.in_thread import in_thread
from pixel_gather.core.task_group import all_of
from pixel_gather.io.geotiff.fetch_in_parallel import cut_range, fetch_ranges
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.geotiff.layout import TileLayout
from pixel_gather.io.geotiff.shared_tiles import SharedTiles, TileKey
from pixel_gather.io.geotiff.tiff_file import TiffFile
from pixel_gather.io.geotiff.tile_reads import Get, TileRead, join_tile_reads, place_of, same_tiles
from pixel_gather.io.geotiff.tiles_into_array import Pixels, copy_block, copy_tile, decode_tile

type Keep = Callable[[TileRead, Pixels], None]
"""Takes one read of a tile, and the decoded tile."""


class PixelRead(Struct, frozen=True, kw_only=True):
    """One read of pixels: its file, and the arrays that it fills. Errors are those of `OpenedSource`."""

    file: TiffFile
    layout: TileLayout
    overview: int | None
    """Which overview ``layout`` is of; None for the full resolution."""

    outs: Sequence[Pixels]
    """One for each window, as `TileRead.window` counts them. Each has the shape (band, y, x)."""

    bands: Sequence[int]
    """From 1."""

    limits: GeoTiffSettings

    async def read_all(self, stored: Sequence[TileRead], keep: Keep | None = None) -> float:
        """Fetch and decode tiles concurrently, and copy their pixels into ``outs``.

        Args:
            stored: The tiles.
            keep: Takes each tile that was decoded, if it is given.

        Returns:
            When the last bytes arrived, in seconds of `perf_counter`; 0 if nothing was fetched.
        """
        limits = self.limits
        gets = join_tile_reads(
            stored, max_gap_nbytes=limits.max_gap_nbytes, max_joined_nbytes=limits.cut_nbytes
        )
        if not gets:
            return 0.0
        most_parts = max(limits.max_gets_in_flight // len(gets), 1)
        reads = (self._read_range(get, most_parts=most_parts, keep=keep) for get in gets)
        return max(await all_of(reads, at_once=limits.max_gets_in_flight))

    async def read_shared(self, stored: Sequence[TileRead], tiles: SharedTiles) -> float:
        """Read tiles that other reads may need, too. Returns what `read_all` does.

        A tile that another read has decoded is copied. A tile that another read decodes now is waited for. If
        that read gives up, the tile is read here. Other reads can copy the tiles that are decoded here.
        """
        mine: list[TileRead] = []
        claimed: set[TileKey] = set()
        there: list[tuple[Pixels, list[TileRead]]] = []
        coming: list[tuple[TileKey, list[TileRead]]] = []
        for reads in same_tiles(sorted(stored, key=place_of)):
            key = self._key(reads[0])
            if (block := tiles.find(key)) is not None:
                there.append((block, reads))
            elif tiles.claim(key):
                claimed.add(key)
                mine += reads
            else:
                coming.append((key, reads))

        def keep(tile_read: TileRead, block: Pixels) -> None:
            key = self._key(tile_read)
            claimed.discard(key)
            tiles.put(key, block)

        async def copy(found: Sequence[tuple[Pixels, list[TileRead]]]) -> float:
            seconds = await in_thread(lambda: self._copy(found))
            self.file.cost.decode_s += seconds  # as in _read_range
            return 0.0

        async def wait(key: TileKey, reads: list[TileRead]) -> float:
            block = await tiles.wait(key)
            return await (self.read_shared(reads, tiles) if block is None else copy([(block, reads)]))

        works = [self.read_all(mine, keep), *(wait(*each) for each in coming)]
        try:
            return max(await all_of([*works, copy(there)] if there else works))
        finally:
            tiles.give_up(claimed)

    def _key(self, tile_read: TileRead) -> TileKey:
        return (self.file.href, self.file.etag, self.overview, *place_of(tile_read))

    async def _read_range(self, get: Get, *, most_parts: int, keep: Keep | None) -> float:
        """Fetch one range and decode its tiles. A long range is fetched in parts.

        Returns:
            When the bytes arrived, in seconds of `perf_counter`.
        """
        ranges = cut_range(get.start, get.stop, part_nbytes=self.limits.part_nbytes, most=most_parts)
        content = await fetch_ranges(self.file.get, ranges)
        arrived = perf_counter()
        if keep is None:
            seconds = await in_thread(lambda: self._decode(content, get))
        else:
            found, seconds = await in_thread(lambda: self._decode_whole(content, get))
            for block, reads in found:
                keep(reads[0], block)
        self.file.cost.decode_s += seconds  # `x += await ...` would lose what other tasks add meanwhile
        return arrived

    def _decode(self, content: memoryview, get: Get) -> float:
        """Decode the tiles of one range into ``outs``. Return the seconds that it took."""
        started = perf_counter()
        for reads in same_tiles(get.tile_reads):
            part = content[reads[0].start - get.start : reads[0].stop - get.start]
            copy_tile(part, reads, self.layout, outs=self.outs, bands=self.bands)
        return perf_counter() - started

    def _decode_whole(
        self, content: memoryview, get: Get
    ) -> tuple[list[tuple[Pixels, list[TileRead]]], float]:
        """Decode as `_decode`. Return the tiles, too, and the seconds that it took."""
        started = perf_counter()
        found = []
        for reads in same_tiles(get.tile_reads):
            part = content[reads[0].start - get.start : reads[0].stop - get.start]
            found.append((decode_tile(part, reads[0].n_rows, self.layout), reads))
        self._copy(found)
        return found, perf_counter() - started

    def _copy(self, found: Sequence[tuple[Pixels, list[TileRead]]]) -> float:
        """Copy from decoded tiles. Return the seconds that it took."""
        started = perf_counter()
        for block, reads in found:
            copy_block(block, reads, self.layout, outs=self.outs, bands=self.bands)
        return perf_counter() - started
