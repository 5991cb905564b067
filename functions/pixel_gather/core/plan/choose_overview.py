"""Choose the overview of a source that fits a grid: the coarsest one that is not coarser than the grid."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.model.band_meaning import has_classes
from pixel_gather.core.model.source import Header
from pixel_gather.core.plan.common_grid import step_to
from pixel_gather.core.plan.locate_window import Grid
from pixel_gather.core.plan.warped_grid import places_on
from pixel_gather.core.ports import OpenedSource, Projector

_SLACK: Final = 1.01
"""How much coarser than the grid an overview may be: sizes of overviews are rounded to whole pixels."""

_KEEP_CLASSES: Final = ("NEAREST", "MODE")
"""How overviews are made that have no other values than the image."""


async def open_level(
    opened: OpenedSource,
    *,
    target: Grid | None,
    resolution: float,
    keeps_classes: bool,
    projector: Projector,
) -> tuple[OpenedSource, int | None]:
    """Return a source at the level that fits a grid, and the number of the overview; None for the image.

    Args:
        opened: The source.
        target: The grid, if sources are warped onto it.
        resolution: Width of its pixels.
        keeps_classes: Whether its values are classes. An overview is only used if the file says that it has
            no other values.
        projector: Between the CRSs.

    Raises:
        SourceError: The overviews cannot be looked up.
    """
    if keeps_classes and opened.resampling not in _KEEP_CLASSES:
        return opened, None
    levels = await opened.overviews()
    headers = [each.header for each in levels]
    if target is None:
        number = _choose_for_blocks(opened.header, headers, resolution)
    else:
        number = choose_overview(
            opened.header, headers, times_finer(Grid.of(opened.header), target, projector)
        )
    return (opened, None) if number is None else (levels[number], number)


def are_classes(header: Header, name: str | None, *, is_mask: bool) -> bool:
    """Return whether the values of a source are classes, or those of a mask.

    Args:
        header: The source's.
        name: Of its slot.
        is_mask: Whether the mask comes from it.
    """
    return is_mask or has_classes(name or "", header.meaning(1))


def choose_overview(full: Header, overviews: Sequence[Header], times: float) -> int | None:
    """Return the number of the coarsest overview that is not coarser than a grid; None for the image.

    Args:
        full: The image.
        overviews: Largest first.
        times: How many times finer than the grid its pixels are.
    """
    fit = [
        number
        for number, each in enumerate(overviews)
        if max(full.width / each.width, full.height / each.height) <= times * _SLACK
    ]
    return fit[-1] if fit else None


def _choose_for_blocks(full: Header, overviews: Sequence[Header], resolution: float) -> int | None:
    """Return the coarsest overview whose pixels are those of the grid, or whole parts of them."""
    for number in reversed(range(len(overviews))):
        each = overviews[number]
        if full.width % each.width or full.height % each.height:  # it has lines beyond the image
            continue
        try:
            if step_to(each, resolution).times == 1:
                return number
        except SourceError:
            continue
    return None


def times_finer(own: Grid, target: Grid, projector: Projector) -> float:
    """Return how many times finer than a grid a source's pixels are, along the axis where they are coarser.

    It is measured across the middle of the grid. So it does not depend on strips.
    """
    if own.transform is None or own.crs is None or not own.transform.is_usable:
        return 1.0
    width, height = target.width, target.height
    xs = np.array([0.0, width, width / 2, width / 2])
    ys = np.array([height / 2, height / 2, 0.0, height])
    try:
        cols, rows = places_on(target, own, xs, ys, projector)
    except RequestError:  # PROJ does not know its CRS, which is told when it is warped
        return 1.0
    across = math.hypot(cols[1] - cols[0], rows[1] - rows[0]) / width
    down = math.hypot(cols[3] - cols[2], rows[3] - rows[2]) / height
    return min(across, down) if math.isfinite(across + down) else 1.0
