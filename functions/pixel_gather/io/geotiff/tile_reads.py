"""Which bytes of a file hold the tiles of a window, and where their pixels go. Pure."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Final, NamedTuple

import numpy as np

from pixel_gather.core.model.window import Window
from pixel_gather.io.geotiff.ifd import Ifd
from pixel_gather.io.geotiff.layout import Compression, TileLayout
from pixel_gather.io.geotiff.unsupported import UnsupportedError

_MAX_OFFSETS_TOGETHER: Final = 32_768
"""Most offsets that are fetched at once: 256 KiB."""


class TileRead(NamedTuple):
    """The part of one tile that lies in a window. Of an uncompressed tile, only the rows that are needed."""

    start: int
    stop: int
    """Bytes [start, stop) of the object. Empty where the tile is not stored."""

    n_rows: int
    """Rows that the bytes hold."""

    plane: int
    """Band, from 0, where each band has its own tiles; else 0."""

    rows: slice
    """The decoded rows that lie inside the window."""

    cols: slice
    out_rows: slice
    """The rows of the window that they fill."""

    out_cols: slice
    window: int = 0
    """Which of the windows that are read together it belongs to."""

    @property
    def is_sparse(self) -> bool:
        """Whether the tile is not stored, so that its pixels are nodata."""
        return self.start == self.stop


class Get(NamedTuple):
    """One ranged GET, for one tile or several neighbouring ones."""

    start: int
    stop: int
    tile_reads: tuple[TileRead, ...]


def plan_tile_reads(
    ifd: Ifd,
    layout: TileLayout,
    windows: Sequence[Window],
    bands: Sequence[int],
    *,
    max_tile_nbytes: int,
    max_row_nbytes: int,
    part_nbytes: int,
) -> list[TileRead]:
    """Return a tile read for each tile that each window touches.

    Args:
        ifd: Holds offsets and byte counts.
        layout: How tiles are stored.
        windows: Each lies wholly on the image.
        bands: Which bands, from 1.
        max_tile_nbytes: Largest tile that is decoded at once, compressed or not.
        max_row_nbytes: Longest row of an uncompressed tile or strip.
        part_nbytes: An uncompressed tile is read in parts of this size, or row by row where rows are longer.

    Raises:
        UnsupportedError: A byte range is impossible or over the limit.
        NeedBytes: The offsets of these tiles have not been fetched yet.
    """
    around = window_around(windows)
    tile_reads: list[TileRead] = []
    for plane in _fetched_planes(ifd, layout, around, bands):
        # one look-up for all of them, as each may cost a request
        tiles = _tiles_of_plane(ifd, layout, around, plane)
        of_plane = _reads_of_plane(tiles, layout, tuple(windows), plane)
        if layout.compression is not Compression.NONE:
            for start, stop, n_rows in dict.fromkeys(map(place_of, of_plane)):
                if start < stop and max(stop - start, n_rows * layout.row_nbytes) > max_tile_nbytes:
                    raise UnsupportedError("a tile is over the size limit")
            tile_reads += of_plane
            continue
        for tile_read in of_plane:
            if tile_read.is_sparse:
                tile_reads.append(tile_read)
            else:
                tile_reads += _cut_rows(
                    tile_read, layout, max_row_nbytes=max_row_nbytes, part_nbytes=part_nbytes
                )
    return tile_reads


def window_around(windows: Sequence[Window]) -> Window:
    """Return the smallest window that contains all of them."""
    if len(windows) == 1:
        return windows[0]
    col_off, row_off = min(each.col_off for each in windows), min(each.row_off for each in windows)
    return Window(
        col_off=col_off,
        row_off=row_off,
        width=max(each.col_stop for each in windows) - col_off,
        height=max(each.row_stop for each in windows) - row_off,
    )


def plan_whole_tiles(
    ifd: Ifd, layout: TileLayout, window: Window, bands: Sequence[int], *, max_tile_nbytes: int
) -> list[TileRead]:
    """Return a tile read for each tile that a window touches, each for all of its bytes.

    Args and errors as in `plan_tile_reads`.
    """
    planes = _fetched_planes(ifd, layout, window, bands)
    found = [
        each
        for plane in planes
        for each in _reads_of_plane(_tiles_of_plane(ifd, layout, window, plane), layout, (window,), plane)
    ]
    if any(each.stop - each.start > max_tile_nbytes for each in found):
        raise UnsupportedError("a tile is over the size limit")
    return found


def tile_spans(layout: TileLayout, window: Window, bands: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return for each plane a span of tiles [first, stop) that contains the window's tiles."""
    return tuple(_tile_span(layout, window, plane) for plane in _planes(layout, bands))


def _planes(layout: TileLayout, bands: Sequence[int]) -> tuple[int, ...]:
    return (0,) if layout.n_planes == 1 else tuple(dict.fromkeys(band - 1 for band in bands))


def _tile_span(layout: TileLayout, window: Window, plane: int) -> tuple[int, int]:
    """Return the first tile of one plane that the window touches, and the tile after the last."""
    base = plane * layout.n_across * layout.n_down
    first = window.row_off // layout.tile_height * layout.n_across + window.col_off // layout.tile_width
    last_row, last_col = window.row_stop - 1, window.col_stop - 1
    last = last_row // layout.tile_height * layout.n_across + last_col // layout.tile_width
    return base + first, base + last + 1


def _fetched_planes(ifd: Ifd, layout: TileLayout, window: Window, bands: Sequence[int]) -> tuple[int, ...]:
    """Return the planes that hold the bands.

    The offsets of several planes are looked up at once, unless there are too many, so that one GET fetches
    them.
    """
    planes = _planes(layout, bands)
    if len(planes) > 1:
        spans = tile_spans(layout, window, bands)
        first, stop = min(spans)[0], max(spans)[1]
        if stop - first <= _MAX_OFFSETS_TOGETHER:
            ifd.array(layout.offsets_tag, first, stop)
            ifd.array(layout.counts_tag, first, stop)
    return planes


class _Tiles(NamedTuple):
    """Where the tiles of a part of one plane are stored."""

    first: int
    """The first tile, counted from the first one of the plane."""

    starts: np.ndarray[Any, Any]
    counts: np.ndarray[Any, Any]
    object_nbytes: int

    def span(self, tile: int) -> tuple[int, int]:
        """Return the bytes [start, stop) of the file that hold a tile.

        ``tile`` counts from the first one of the plane. A sparse tile has neither an offset nor a byte count.

        Raises:
            UnsupportedError: They are impossible.
        """
        start, nbytes = int(self.starts[tile - self.first]), int(self.counts[tile - self.first])
        if (start == 0) is not (nbytes == 0):
            raise UnsupportedError("a tile with an offset or a byte count, not both")
        if start + nbytes > self.object_nbytes:
            raise UnsupportedError("a tile lies outside the file")
        return start, start + nbytes


def _tiles_of_plane(ifd: Ifd, layout: TileLayout, window: Window, plane: int) -> _Tiles:
    first, stop = _tile_span(layout, window, plane)
    return _Tiles(
        first - plane * layout.n_across * layout.n_down,
        ifd.array(layout.offsets_tag, first, stop),
        ifd.array(layout.counts_tag, first, stop),
        ifd.header_bytes.object_nbytes,
    )


def _reads_of_plane(
    tiles: _Tiles, layout: TileLayout, windows: tuple[Window, ...], plane: int
) -> list[TileRead]:
    """Return one tile read for each tile of a plane that each window touches, row by row."""
    pieces = _pieces(layout.tile_width, layout.tile_height, layout.n_across, windows)
    places = {
        tile: (*tiles.span(tile), layout.tile_rows(tile // layout.n_across), plane)
        for tile in dict.fromkeys(piece[0] for piece in pieces)
    }
    return [
        TileRead(*places[tile], rows, cols, out_rows, out_cols, number)
        for tile, rows, cols, out_rows, out_cols, number in pieces
    ]


type _Piece = tuple[int, slice, slice, slice, slice, int]
"""A tile of a plane, its rows and columns, those of the window that they fill, and the window's number."""


@lru_cache(maxsize=4)
def _pieces(
    tile_width: int, tile_height: int, n_across: int, windows: tuple[Window, ...]
) -> tuple[_Piece, ...]:
    """Cut windows along tiles. Remembered, as images of one grid have the same windows."""
    pieces: list[_Piece] = []
    for number, window in enumerate(windows):
        tile_cols = [
            (tile_col, *_overlap(tile_col * tile_width, tile_width, window.col_off, window.col_stop))
            for tile_col in range(window.col_off // tile_width, (window.col_stop - 1) // tile_width + 1)
        ]
        for tile_row in range(window.row_off // tile_height, (window.row_stop - 1) // tile_height + 1):
            rows, out_rows = _overlap(tile_row * tile_height, tile_height, window.row_off, window.row_stop)
            for tile_col, cols, out_cols in tile_cols:
                pieces.append((tile_row * n_across + tile_col, rows, cols, out_rows, out_cols, number))
    return tuple(pieces)


def _overlap(start: int, length: int, window_start: int, window_stop: int) -> tuple[slice, slice]:
    """Return the overlap of a tile and a window along one axis: inside the tile, and inside the window."""
    first, last = max(start, window_start), min(start + length, window_stop)
    return slice(first - start, last - start), slice(first - window_start, last - window_start)


def _cut_rows(
    tile_read: TileRead, layout: TileLayout, *, max_row_nbytes: int, part_nbytes: int
) -> Iterator[TileRead]:
    """Yield the needed rows of an uncompressed tile, in parts of bounded size."""
    row_nbytes = layout.row_nbytes
    if tile_read.stop - tile_read.start != tile_read.n_rows * row_nbytes:
        raise UnsupportedError("the byte count of an uncompressed tile does not fit its shape")
    if row_nbytes > max_row_nbytes:
        raise UnsupportedError("a tile is over the size limit")
    step = max(1, part_nbytes // row_nbytes)
    for first in range(tile_read.rows.start, tile_read.rows.stop, step):
        stop = min(first + step, tile_read.rows.stop)
        out_first = tile_read.out_rows.start + first - tile_read.rows.start
        yield tile_read._replace(
            start=tile_read.start + first * row_nbytes,
            stop=tile_read.start + stop * row_nbytes,
            n_rows=stop - first,
            rows=slice(0, stop - first),
            out_rows=slice(out_first, out_first + stop - first),
        )


def join_tile_reads(
    tile_reads: Sequence[TileRead], *, max_gap_nbytes: int, max_joined_nbytes: int
) -> list[Get]:
    """Join neighbouring tile reads into GETs, in file order.

    Args:
        tile_reads: Not sparse.
        max_gap_nbytes: Most unneeded bytes between two tiles of one GET.
        max_joined_nbytes: Longest GET of several tiles.
    """
    groups: list[list[TileRead]] = []
    start = stop = 0
    for tile_read in sorted(tile_reads, key=place_of):
        grown = max(stop, tile_read.stop)
        is_near = tile_read.start - stop <= max_gap_nbytes and grown - start <= max_joined_nbytes
        if groups and (is_near or place_of(tile_read) == place_of(groups[-1][-1])):
            groups[-1].append(tile_read)
            stop = grown
        else:
            groups.append([tile_read])
            start, stop = tile_read.start, tile_read.stop
    return [Get(group[0].start, max(each.stop for each in group), tuple(group)) for group in groups]


def place_of(tile_read: TileRead) -> tuple[int, int, int]:
    """Return which bytes it decodes, and into how many rows: equal for reads of the same tile."""
    return tile_read[:3]


def same_tiles(tile_reads: Sequence[TileRead]) -> Iterator[list[TileRead]]:
    """Yield the reads of each tile of one GET: of several windows, or of a single one."""
    for _, group in groupby(tile_reads, key=place_of):
        yield list(group)
