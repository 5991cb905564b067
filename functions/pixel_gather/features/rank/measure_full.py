"""Measure one scene at full resolution, in strips; with every n-th pixel where the request says so."""

import asyncio
import math
from collections.abc import Iterator

import numpy as np

from pixel_gather.core.model.window import Window
from pixel_gather.features.rank.area_share import Counted
from pixel_gather.features.rank.grid import LevelGrid
from pixel_gather.features.rank.measured_scene import MeasuredLevel
from pixel_gather.features.rank.read_on_finest import read_stored_at, read_values_at
from pixel_gather.features.rank.sampling_error import ErrorEstimate
from pixel_gather.features.rank.scene_view import STRIP_PIXELS, SceneView
from pixel_gather.features.rank.strip_totals import StripTotals


async def measure_full(view: SceneView) -> MeasuredLevel:
    """Measure the area at full resolution.

    Raises:
        SourceError: It cannot be read.
    """
    header = view.finest.opened.header
    inside = view.shape.window.clipped(width=header.width, height=header.height)
    if inside is None:
        return MeasuredLevel(ErrorEstimate(math.nan, 0.0, 0), Counted.exactly(0), Counted.exactly(0), 1.0)
    await view.tell_place(view.finest.opened, inside)
    totals = StripTotals(view.request)
    for strip in _strips(inside, header.tile_height):
        async with view.gate.hold(strip.n_pixels):
            await _add_strip(totals, view, strip, first=(inside.col_off, inside.row_off))
    return totals.measure()


async def _add_strip(totals: StripTotals, view: SceneView, strip: Window, *, first: tuple[int, int]) -> None:
    """Add one strip to the totals.

    Args:
        totals: Those of the scene.
        view: The scene.
        strip: Lies on the finest band's image.
        first: Column and row of the area's first pixel, which every n-th pixel is counted from.
    """
    # Which pixels of the strip are looked at, and which of them lie in the area?
    header, every = view.finest.opened.header, view.request.precision.step
    cols, rows = (
        np.arange(start, stop)[(np.arange(start, stop) - origin - every // 2) % every == 0]
        for start, stop, origin in (
            (strip.col_off, strip.col_stop, first[0]),
            (strip.row_off, strip.row_stop, first[1]),
        )
    )
    in_shape = await asyncio.to_thread(view.shape.mask, strip)
    totals.n_whole += int(in_shape.sum())
    area = in_shape[np.ix_(rows - strip.row_off, cols - strip.col_off)]
    if not area.any():
        return
    # What do the bands show there, and what does the mask drop?
    grid = LevelGrid(window=strip, full=header, level=header)
    centres = cols + 0.5, rows + 0.5
    bands = {
        name: await read_values_at(band, band.opened, *centres, of=grid) for name, band in view.bands.items()
    }
    kept, known = area.copy(), area.copy()
    if view.mask is not None and view.request.mask is not None:
        stored, is_valid = await read_stored_at(view.mask, view.mask.opened, *centres, of=grid)
        kept &= is_valid & ~view.request.mask.drops(stored)
        if not bands:
            known &= is_valid
    await asyncio.to_thread(totals.add, bands, known, kept, area)


def _strips(window: Window, tile_height: int) -> Iterator[Window]:
    """Cut a window into runs of rows that end where tiles do."""
    n_rows = max(STRIP_PIXELS // window.width // tile_height * tile_height, tile_height)
    start = window.row_off
    while start < window.row_stop:
        stop = min((start // n_rows + 1) * n_rows, window.row_stop)
        yield window.rows(start - window.row_off, stop - window.row_off)
        start = stop
