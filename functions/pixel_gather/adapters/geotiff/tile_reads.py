"""A window's tiles as byte ranges: which bytes to get and where their pixels go. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pixel_gather.adapters.geotiff.ifd import Ifd
from pixel_gather.adapters.geotiff.layout import Compression, Layout
from pixel_gather.adapters.geotiff.unsupported import UnsupportedError
from pixel_gather.model.window import Window

_MAX_TOGETHER: Final = 32_768
"""Offsets: 256 KiB at most."""


class TileRead(NamedTuple):
    """One tile's part in a window; where it is stored uncompressed, only the rows that are wanted."""

    start: int
    stop: int
    """Bytes [start, stop) of the object; empty where the tile is not stored."""

    n_rows: int
    """Rows that the bytes hold."""

    plane: int
    """Band from 0 where bands are stored by themselves, else 0."""

    rows: slice
    """Of the decoded rows, those inside the window."""

    cols: slice
    out_rows: slice
    """Where they go in the window."""

    out_cols: slice

    @property
    def is_sparse(self) -> bool:
        """Whether the tile is not stored, so that its pixels are nodata."""
        return self.start == self.stop


class Get(NamedTuple):
    """One request: neighbouring pieces."""

    start: int
    stop: int
    pieces: tuple[TileRead, ...]


def plan_tile_reads(
    ifd: Ifd,
    layout: Layout,
    window: Window,
    bands: Sequence[int],
    *,
    max_tile_nbytes: int,
    max_row_nbytes: int,
    part_nbytes: int,
) -> list[TileRead]:
    """Cut a window, which lies on the image, into the pieces of the tiles that it touches.

    Args:
        ifd: Where offsets and byte counts stand.
        layout: What they mean.
        window: Wholly on the image.
        bands: From 1.
        max_tile_nbytes: Largest tile that is decoded at once, compressed or not.
        max_row_nbytes: Longest row of an uncompressed tile or strip.
        part_nbytes: Of such a tile, so much is read at once, or one row where that is longer.

    Raises:
        UnsupportedError: A range that is impossible or over the limit.
        NeedBytes: The offsets of these tiles were not fetched yet.
    """
    planes = _planes(layout, bands)
    pieces: list[TileRead] = []
    spans = tile_spans(layout, window, bands)
    _fetch_together(ifd, layout, min(spans)[0], max(spans)[1])
    for plane in planes:
        for piece in _pieces_of_plane(ifd, layout, window, plane):
            if piece.is_sparse:
                pieces.append(piece)
            elif layout.compression is Compression.NONE:
                pieces += _cut_rows(piece, layout, max_row_nbytes=max_row_nbytes, part_nbytes=part_nbytes)
            elif max(piece.stop - piece.start, piece.n_rows * layout.row_nbytes) > max_tile_nbytes:
                raise UnsupportedError("a tile is over the size limit")
            else:
                pieces.append(piece)
    return pieces


def tile_spans(layout: Layout, window: Window, bands: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return, for each plane that is read, the tiles [first, stop) among which the window's lie."""
    return tuple(_tile_span(layout, window, plane) for plane in _planes(layout, bands))


def _planes(layout: Layout, bands: Sequence[int]) -> tuple[int, ...]:
    return (0,) if layout.n_planes == 1 else tuple(dict.fromkeys(band - 1 for band in bands))


def _tile_span(layout: Layout, window: Window, plane: int) -> tuple[int, int]:
    """Return the first tile of one plane that the window touches, and the one after the last."""
    base = plane * layout.n_across * layout.n_down
    first = window.row_off // layout.tile_height * layout.n_across + window.col_off // layout.tile_width
    last_row, last_col = window.row_stop - 1, window.col_stop - 1
    last = last_row // layout.tile_height * layout.n_across + last_col // layout.tile_width
    return base + first, base + last + 1


def _fetch_together(ifd: Ifd, layout: Layout, first: int, stop: int) -> None:
    """Ask for the offsets of all planes at once where that is not much more than what is wanted."""
    if stop - first <= _MAX_TOGETHER:
        ifd.array(layout.offsets_tag, first, stop)
        ifd.array(layout.counts_tag, first, stop)


def _pieces_of_plane(ifd: Ifd, layout: Layout, window: Window, plane: int) -> Iterator[TileRead]:
    """Yield one piece per touched tile of one plane, row by row."""
    tile_width, tile_height, n_across = layout.tile_width, layout.tile_height, layout.n_across
    tile_rows = range(window.row_off // tile_height, (window.row_stop - 1) // tile_height + 1)
    tile_cols = range(window.col_off // tile_width, (window.col_stop - 1) // tile_width + 1)
    base = plane * n_across * layout.n_down
    first, stop = _tile_span(layout, window, plane)
    starts = ifd.array(layout.offsets_tag, first, stop)
    counts = ifd.array(layout.counts_tag, first, stop)
    for tile_row in tile_rows:
        rows, out_rows = _overlap(tile_row * tile_height, tile_height, window.row_off, window.row_stop)
        for tile_col in tile_cols:
            cols, out_cols = _overlap(tile_col * tile_width, tile_width, window.col_off, window.col_stop)
            at = base + tile_row * n_across + tile_col - first
            start, nbytes = int(starts[at]), int(counts[at])
            _check_range(start, nbytes, ifd.fragments.object_nbytes)
            n_rows = layout.tile_rows(tile_row)
            yield TileRead(start, start + nbytes, n_rows, plane, rows, cols, out_rows, out_cols)


def _overlap(start: int, length: int, window_start: int, window_stop: int) -> tuple[slice, slice]:
    """Return the part of a tile that a window touches, in the tile and in the window."""
    first, last = max(start, window_start), min(start + length, window_stop)
    return slice(first - start, last - start), slice(first - window_start, last - window_start)


def _check_range(start: int, nbytes: int, object_nbytes: int) -> None:
    """Refuse what lies outside the object, and half a sign of a sparse tile."""
    if (start == 0) is not (nbytes == 0):
        raise UnsupportedError("a tile with an offset or a byte count, not both")
    if start + nbytes > object_nbytes:
        raise UnsupportedError("a tile lies outside the file")


def _cut_rows(
    piece: TileRead, layout: Layout, *, max_row_nbytes: int, part_nbytes: int
) -> Iterator[TileRead]:
    """Yield an uncompressed tile's wanted rows, in parts of bounded size."""
    row_nbytes = layout.row_nbytes
    if piece.stop - piece.start != piece.n_rows * row_nbytes:
        raise UnsupportedError("an uncompressed tile of another size than its shape")
    if row_nbytes > max_row_nbytes:
        raise UnsupportedError("a tile is over the size limit")
    step = max(1, part_nbytes // row_nbytes)
    for first in range(piece.rows.start, piece.rows.stop, step):
        stop = min(first + step, piece.rows.stop)
        out_first = piece.out_rows.start + first - piece.rows.start
        yield piece._replace(
            start=piece.start + first * row_nbytes,
            stop=piece.start + stop * row_nbytes,
            n_rows=stop - first,
            rows=slice(0, stop - first),
            out_rows=slice(out_first, out_first + stop - first),
        )


def join_tile_reads(pieces: Sequence[TileRead], *, max_gap_nbytes: int, max_joined_nbytes: int) -> list[Get]:
    """Join neighbouring pieces into requests, in the order of the file.

    Args:
        pieces: None of them sparse.
        max_gap_nbytes: Unwanted bytes that cost less than another request.
        max_joined_nbytes: No request of several pieces grows beyond this.
    """
    groups: list[list[TileRead]] = []
    start = stop = 0
    for piece in sorted(pieces, key=_start):
        grown = max(stop, piece.stop)
        if groups and piece.start - stop <= max_gap_nbytes and grown - start <= max_joined_nbytes:
            groups[-1].append(piece)
            stop = grown
        else:
            groups.append([piece])
            start, stop = piece.start, piece.stop
    return [Get(group[0].start, max(map(_stop, group)), tuple(group)) for group in groups]


def _start(piece: TileRead) -> int:
    return piece.start


def _stop(piece: TileRead) -> int:
    return piece.stop
