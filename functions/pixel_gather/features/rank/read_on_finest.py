"""Read a band of a scene on the pixels of the scene's finest band."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from pixel_gather.core.model.scaling import Grid, Scaling
from pixel_gather.core.model.window import Window
from pixel_gather.core.ports import LevelledSource
from pixel_gather.features.rank.grid import LevelGrid, lookup, nearest, pixel_size
from pixel_gather.tables.find_bands import BandOf
from pixel_gather.tables.read_bands import Mask, read_stored


class LevelledBand(Struct, frozen=True):
    """One band of a scene, whose file and overviews are open."""

    of: BandOf
    opened: LevelledSource
    overviews: Sequence[LevelledSource]
    scaling: Scaling

    @property
    def may_lack_data(self) -> bool:
        """Whether the file can say that a pixel has no data."""
        header = self.opened.header
        has_nodata = header.nodata is not None or self.scaling.nodata is not None
        return has_nodata or self.opened.hides_pixels or np.dtype(header.dtype).kind == "f"

    def near(self, size: float) -> LevelledSource:
        """Return the level whose pixels are closest to a size on the map."""
        levels = [self.opened, *self.overviews]
        return min(levels, key=lambda level: abs(math.log(pixel_size(level.header) / size)))


async def read_level(band: LevelledBand, grid: LevelGrid, part: Window) -> Grid:
    """Return a band's scaled values on the pixels of a level of the finest band; NaN outside."""
    level = band.near(pixel_size(grid.level))
    cols = np.arange(part.col_off, part.col_stop) + 0.5
    rows = np.arange(part.row_off, part.row_stop) + 0.5
    return await read_values_at(band, level, cols, rows, of=grid)


async def read_values_at(
    band: LevelledBand, level: LevelledSource, cols: Grid, rows: Grid, *, of: LevelGrid
) -> Grid:
    """Return a band's scaled values at positions on the finest band's level; NaN outside."""
    stored, is_valid = await read_stored_at(band, level, cols, rows, of=of)
    band.scaling.check(stored, is_valid)
    return await asyncio.to_thread(band.scaling.apply, stored, is_valid)


async def read_stored_at(
    band: LevelledBand, level: LevelledSource, cols: Grid, rows: Grid, *, of: LevelGrid
) -> tuple[np.ndarray[Any, Any], Mask]:
    """Return a band's stored values at positions on the finest band's level; not valid outside."""
    x, y = lookup(cols, rows, of=of.level, on=level.header)
    at_x, used_x = nearest(x, level.header.width)
    at_y, used_y = nearest(y, level.header.height)
    found = np.zeros((rows.size, cols.size), level.header.dtype)
    is_valid = np.zeros(found.shape, np.bool_)
    if used_x.stop == used_x.start or used_y.stop == used_y.start:
        return found, is_valid
    window = Window(
        col_off=used_x.start,
        row_off=used_y.start,
        width=used_x.stop - used_x.start,
        height=used_y.stop - used_y.start,
    )
    stored, known = await read_stored(level, window, band.of.number, nodata=band.scaling.nodata)
    inside_x, inside_y = at_x >= 0, at_y >= 0
    at = np.ix_(at_y[inside_y] - used_y.start, at_x[inside_x] - used_x.start)
    inside = np.ix_(inside_y, inside_x)
    found[inside], is_valid[inside] = stored[at], known[at]
    return found, is_valid


def edges_on(other: LevelledSource, part: Window, *, of: LevelGrid) -> tuple[Grid, Grid]:
    """Return the edges of a level's pixels in the pixels of another image."""
    edges = (
        np.arange(part.col_off, part.col_stop + 1).astype(np.float64),
        np.arange(part.row_off, part.row_stop + 1).astype(np.float64),
    )
    return lookup(*edges, of=of.level, on=other.header)


def window_around(cols: Grid, rows: Grid) -> Window:
    """Return the whole pixels around positions."""
    left, top = math.floor(cols.min()), math.floor(rows.min())
    return Window(
        col_off=left,
        row_off=top,
        width=max(math.ceil(cols.max()) - left, 1),
        height=max(math.ceil(rows.max()) - top, 1),
    )
