"""Measure one scene at an overview: its statistic, with the error that a coarser level has."""

import asyncio
import math
from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np

from pixel_gather.core.model.scaling import Grid
from pixel_gather.core.model.window import Window
from pixel_gather.core.ports import LevelledSource
from pixel_gather.features.rank.area_share import SHARE, all_of, counted_on, indicator, pixels_counted_by
from pixel_gather.features.rank.grid import LevelGrid, mean_by_cell, pixel_size
from pixel_gather.features.rank.measured_scene import MeasuredLevel
from pixel_gather.features.rank.read_on_finest import LevelledBand, edges_on, read_level, window_around
from pixel_gather.features.rank.sampling_error import LevelSample, Resampling, estimate
from pixel_gather.features.rank.scene_view import STRIP_PIXELS, SceneView
from pixel_gather.features.rank.usable_levels import resampling_of
from pixel_gather.tables.read_bands import Mask, read_stored

_KEEPS_MEANS: Final = "the overviews keep means"
_IN_PATCHES: Final = "pixels without data lie together"


async def measure_overview(view: SceneView, level: int) -> MeasuredLevel:
    """Measure the area at an overview, 0 being the largest.

    Raises:
        SourceError: It cannot be read.
    """
    opened, grid = view.finest.overviews[level], view.grid(level)
    part = grid.part
    assert part is not None  # noqa: S101 # a level without a part is not chosen
    of_mask = 0 if view.mask is None else min(view.shape.window.n_pixels, STRIP_PIXELS)
    async with view.gate.hold(max(part.n_pixels, of_mask)):
        return await _measure_part(view, opened, grid, part)


async def _measure_part(
    view: SceneView, opened: LevelledSource, grid: LevelGrid, part: Window
) -> MeasuredLevel:
    await view.tell_place(opened, part)
    area = await asyncio.to_thread(view.shape.shares, *grid.edges(part))
    bands = {name: await read_level(band, grid, part) for name, band in view.bands.items()}
    across, down = grid.factors
    factor = math.sqrt(across * down)
    if not bands:  # a share of classes, of a file whose overviews hold classes
        assert view.mask is not None and view.request.mask is not None  # noqa: S101, PT018 # as above
        stored, is_valid = await read_stored(opened, part, view.mask.of.number)
        clear = is_valid & ~view.request.mask.drops(stored)
        return await asyncio.to_thread(
            _measure_classes, view, area, is_valid, clear, resampling_of(view.mask.opened), factor
        )
    kept = None if view.mask is None else await _kept_shares(view, view.mask, grid, part)
    return await asyncio.to_thread(_measure_bands, view, bands, area, kept, factor)


def _measure_bands(
    view: SceneView, bands: Mapping[str, Grid], area: Grid, kept: Grid | None, factor: float
) -> MeasuredLevel:
    # How much of the area has data, and how much of that does the mask keep?
    is_valid = np.logical_and.reduce([np.isfinite(band) for band in bands.values()])
    count = partial(counted_on, resampling=view.resampling, factor=factor)
    n_area = all_of(area, factor)
    valid = count(is_valid, area)
    clear = valid if kept is None else count(is_valid, area * kept)
    if view.request.expression is None:
        sample = indicator(is_valid, area, view.resampling, factor)
        return MeasuredLevel(estimate(sample, SHARE, view.request.statistic), valid, clear, n_area, factor)
    # What is the statistic of these pixels, and how far may it be from that of full resolution?
    sample = LevelSample(
        bands=dict(bands),
        weights=area,
        kept=kept,
        resampling=view.resampling,
        factor=factor,
        quantum=_quantum(view),
    )
    found = estimate(sample, view.request.expression, view.request.statistic)
    return MeasuredLevel(found, valid, clear, n_area, factor, _remarks(view))


def _measure_classes(
    view: SceneView, area: Grid, is_valid: Mask, kept: Mask, resampling: Resampling, factor: float
) -> MeasuredLevel:
    counted, of = pixels_counted_by(view.request.by, area, is_valid, kept)
    found = estimate(indicator(counted, of, resampling, factor), SHARE, view.request.statistic)
    valid, clear = (counted_on(each, area, resampling=resampling, factor=factor) for each in (is_valid, kept))
    return MeasuredLevel(found, valid, clear, all_of(area, factor), factor)


def _remarks(view: SceneView) -> str | None:
    """Say what the error of an overview relies on."""
    said = [_KEEPS_MEANS] if view.resampling == "unknown" else []
    if view.resampling != "nearest" and any(band.may_lack_data for band in view.bands.values()):
        said.append(_IN_PATCHES)
    return "; ".join(said) or None


def _quantum(view: SceneView) -> float:
    """Return the smallest step of a value that is one band of integers; 0 for other values."""
    expression = view.request.expression
    if expression is None or not expression.is_linear:
        return 0.0
    (band,) = view.bands.values()
    return abs(band.scaling.scale) if np.dtype(band.opened.header.dtype).kind in "iu" else 0.0


async def _kept_shares(view: SceneView, mask: LevelledBand, grid: LevelGrid, part: Window) -> Grid:
    """Return which share of each of a level's pixels the mask keeps. It is read in strips."""
    assert view.request.mask is not None  # noqa: S101 # of the caller
    wanted = view.level_of_mask(mask, pixel_size(grid.level))
    shares: list[Grid] = []
    n_rows = max(1, int(STRIP_PIXELS / max(part.width * grid.factors[0] * grid.factors[1], 1)))
    for start in range(0, part.height, n_rows):
        strip = part.rows(start, min(start + n_rows, part.height))
        cols, rows = edges_on(wanted, strip, of=grid)
        window = window_around(cols, rows).clipped(width=wanted.header.width, height=wanted.header.height)
        if window is None:
            shares.append(np.zeros((strip.height, strip.width)))
            continue
        stored, is_valid = await read_stored(wanted, window, mask.of.number)
        kept = is_valid & ~view.request.mask.drops(stored)
        cols, rows = cols - window.col_off, rows - window.row_off
        shares.append(await asyncio.to_thread(partial(mean_by_cell, kept, cols, rows)))
    return np.asarray(np.clip(np.concatenate(shares), 0.0, 1.0))
