"""Pixels of decoded tiles into the window's array, without a copy where a tile is just a part of it."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pixel_gather.adapters.geotiff.decode import decode_block
from pixel_gather.adapters.geotiff.layout import Layout
from pixel_gather.adapters.geotiff.tile_reads import TileRead

type Pixels = np.ndarray[Any, Any]


def copy_tile(
    content: memoryview, piece: TileRead, layout: Layout, *, out: Pixels, bands: Sequence[int]
) -> None:
    """Decode one piece's bytes and write its pixels to their place in ``out``.

    Raises:
        UnsupportedError: The bytes are damaged; ``out`` may then hold anything where the piece lies.
    """
    target = _direct_target(piece, layout, out, bands)
    if target is not None:
        decode_block(content, layout, target)
        return
    shape = (piece.n_rows, layout.tile_width, layout.samples)
    block = np.empty(shape, layout.stored.newbyteorder("="))
    decode_block(content, layout, block)
    if layout.is_complex_int:
        block = block.astype(np.float32).view(layout.dtype)
    for position, sample in _positions(piece, layout, bands):
        out[position, piece.out_rows, piece.out_cols] = block[piece.rows, piece.cols, sample]


def fill_tile(value: float, piece: TileRead, layout: Layout, *, out: Pixels, bands: Sequence[int]) -> None:
    """Write one value to all pixels of a piece."""
    for position, _ in _positions(piece, layout, bands):
        out[position, piece.out_rows, piece.out_cols] = value


def _positions(piece: TileRead, layout: Layout, bands: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the places in ``out`` that a piece fills, each with its sample in the decoded block."""
    for position, band in enumerate(bands):
        if layout.n_planes == 1:
            yield position, band - 1
        elif band - 1 == piece.plane:
            yield position, 0


def _direct_target(piece: TileRead, layout: Layout, out: Pixels, bands: Sequence[int]) -> Pixels | None:
    """Return the part of ``out`` that is just this piece's pixels in their order, or None."""
    is_whole = piece.rows == slice(0, piece.n_rows) and piece.cols == slice(0, layout.tile_width)
    if layout.samples != 1 or layout.is_complex_int or not is_whole:
        return None
    positions = [position for position, _ in _positions(piece, layout, bands)]
    target: Pixels = out[positions[0], piece.out_rows, piece.out_cols]
    return target if len(positions) == 1 and target.flags.c_contiguous else None
