"""Find the byte ranges of the blocks that a window touches, so that they are fetched before GDAL reads."""

import itertools
from collections.abc import Sequence
from typing import Any, Final

from rasterio.enums import Interleaving
from rasterio.windows import Window

_MOST_BLOCKS: Final = 4096
"""Most blocks whose offsets are looked up before a read."""


def stored_ranges(dataset: Any, window: Window, bands: Sequence[int]) -> list[tuple[int, int]]:
    """Return the byte ranges of the TIFF blocks that a window touches. Empty for one block or very many."""
    block_height, block_width = dataset.block_shapes[0]
    cols = range(window.col_off // block_width, -(-(window.col_off + window.width) // block_width))
    rows = range(window.row_off // block_height, -(-(window.row_off + window.height) // block_height))
    planes = bands[:1] if dataset.interleaving == Interleaving.pixel else bands
    if not 1 < len(cols) * len(rows) * len(planes) <= _MOST_BLOCKS:
        return []
    ranges = []
    for band, row, col in itertools.product(planes, rows, cols):
        offset = dataset.get_tag_item(f"BLOCK_OFFSET_{col}_{row}", "TIFF", bidx=band)
        nbytes = dataset.get_tag_item(f"BLOCK_SIZE_{col}_{row}", "TIFF", bidx=band)
        if offset and nbytes:
            ranges.append((int(offset), int(offset) + int(nbytes)))
    return ranges
