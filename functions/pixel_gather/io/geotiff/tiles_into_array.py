"""Copy the pixels of decoded tiles into the window's array.

A tile that covers a contiguous part of the array is decoded straight into it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pixel_gather.io.geotiff.decode import decode_block
from pixel_gather.io.geotiff.layout import TileLayout
from pixel_gather.io.geotiff.tile_reads import TileRead

type Pixels = np.ndarray[Any, Any]


def copy_tile(
    content: memoryview,
    tile_reads: Sequence[TileRead],
    layout: TileLayout,
    *,
    outs: Sequence[Pixels],
    bands: Sequence[int],
) -> None:
    """Decode the bytes of one tile, and write its pixels to the array of each window that wants some.

    Raises:
        UnsupportedError: The bytes are damaged. The arrays may then hold anything where the tile lies.
    """
    first, *others = tile_reads
    target = None if others else _direct_target(first, layout, outs[first.window], bands)
    if target is not None:
        decode_block(content, layout, target)
    else:
        block = decode_tile(content, first.n_rows, layout)
        copy_block(block, tile_reads, layout, outs=outs, bands=bands)


def decode_tile(content: memoryview, n_rows: int, layout: TileLayout) -> Pixels:
    """Return the pixels of one tile, shape (rows, columns, numbers per pixel).

    Raises:
        UnsupportedError: The bytes are damaged.
    """
    block = np.empty((n_rows, layout.tile_width, layout.samples), layout.stored.newbyteorder("="))
    decode_block(content, layout, block)
    return block.astype(np.float32).view(layout.dtype) if layout.is_complex_int else block


def copy_block(
    block: Pixels,
    tile_reads: Sequence[TileRead],
    layout: TileLayout,
    *,
    outs: Sequence[Pixels],
    bands: Sequence[int],
) -> None:
    """Write the pixels of a decoded tile to the array of each window that wants some."""
    for each in tile_reads:
        out = outs[each.window]
        for position, sample in _positions(each, layout, bands):
            out[position, each.out_rows, each.out_cols] = block[each.rows, each.cols, sample]


def fill_tile(
    value: float, tile_read: TileRead, layout: TileLayout, *, out: Pixels, bands: Sequence[int]
) -> None:
    """Write one value to all pixels of a tile read."""
    for position, _ in _positions(tile_read, layout, bands):
        out[position, tile_read.out_rows, tile_read.out_cols] = value


def _positions(tile_read: TileRead, layout: TileLayout, bands: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield each band index of ``out`` that a tile read fills, with its sample in the decoded block."""
    for position, band in enumerate(bands):
        if layout.n_planes == 1:
            yield position, band - 1
        elif band - 1 == tile_read.plane:
            yield position, 0


def _direct_target(
    tile_read: TileRead, layout: TileLayout, out: Pixels, bands: Sequence[int]
) -> Pixels | None:
    """Return the part of ``out`` that has the same shape and order as the tile's pixels, or None."""
    is_whole = tile_read.rows == slice(0, tile_read.n_rows) and tile_read.cols == slice(0, layout.tile_width)
    if layout.samples != 1 or layout.is_complex_int or not is_whole:
        return None
    positions = [position for position, _ in _positions(tile_read, layout, bands)]
    target: Pixels = out[positions[0], tile_read.out_rows, tile_read.out_cols]
    return target if len(positions) == 1 and target.flags.c_contiguous else None
