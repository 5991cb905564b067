"""Read the picture of a scene: its bands in the area, at a level of about so many pixels."""

import asyncio

import numpy as np

from pixel_gather.core.model.scaling import Grid
from pixel_gather.features.rank.grid import LevelGrid
from pixel_gather.features.rank.read_on_finest import read_level
from pixel_gather.features.rank.scene_view import STRIP_PIXELS, SceneView


async def read_picture(view: SceneView, side: int) -> dict[str, Grid]:
    """Return the area's bands at a level of about so many pixels along the longer side."""
    window, full = view.shape.window, view.finest.opened.header
    levels = [view.finest.opened, *view.finest.overviews]
    longer = max(window.width, window.height)
    enough = [each for each in levels if longer * each.header.width / full.width >= side]
    level = enough[-1] if enough else view.finest.opened
    grid = LevelGrid(window=window, full=full, level=level.header)
    part = grid.part
    if part is None or part.n_pixels > STRIP_PIXELS:
        return {}
    step = max(max(part.width, part.height) // side, 1)
    area = await asyncio.to_thread(view.shape.shares, *grid.edges(part))
    shown = view.bands or ({} if view.mask is None else {view.mask.of.source.band or "mask": view.mask})
    found = {name: await read_level(band, grid, part) for name, band in shown.items()}
    return {
        name: np.where(area > 0, band, np.nan)[step // 2 :: step, step // 2 :: step]
        for name, band in found.items()
    }
