"""At which levels a scene may be read: from the coarsest overview that shows the area to full resolution."""

from collections.abc import Sequence
from typing import Final

from pixel_gather.model.window import Window
from pixel_gather.ports import LevelledSource
from pixel_gather.ranking.grid import LevelGrid
from pixel_gather.ranking.sampling_error import Resampling

_FEWEST: Final = 1000
"""Pixels in the area at the coarsest level that is read."""

_MOST: Final = 4_000_000
"""Most pixels of a level. Finer overviews are left out, as only full resolution is read in strips."""

_SAVES: Final = 0.8
"""An overview is read if its tiles take less than this share of full resolution's bytes."""

_CATEGORICAL: Final = frozenset({"NEAREST", "MODE"})
_OF_GDAL: Final[dict[str, Resampling]] = {"NEAREST": "nearest", "AVERAGE": "average"}

type Level = int | None
"""Number of an overview, 0 being the largest; None for full resolution."""


def resampling_of(opened: LevelledSource) -> Resampling:
    """Return how the overviews were made, as far as the file says."""
    return _OF_GDAL.get(opened.resampling or "", "unknown")


def is_categorical_safe(opened: LevelledSource) -> bool:
    """Tell whether the overviews of classes hold classes: the file has to say so."""
    return opened.resampling in _CATEGORICAL


async def levels_of(
    opened: LevelledSource, overviews: Sequence[LevelledSource], window: Window, number: int
) -> tuple[Level, ...]:
    """Return the levels that a scene may be read at, coarsest first and full resolution last.

    Args:
        opened: At full resolution.
        overviews: Largest first.
        window: The area at full resolution.
        number: The band that is read.

    Raises:
        SourceError: The offsets of the tiles cannot be read.
    """
    full_nbytes = await _nbytes(opened, opened, window, number)
    found: list[Level] = []
    for index in reversed(range(len(overviews))):
        level = overviews[index]
        part = LevelGrid(window=window, full=opened.header, level=level.header).part
        if part is None or not _FEWEST <= part.n_pixels <= _MOST:
            continue
        if await _nbytes(opened, level, part, number) < _SAVES * full_nbytes:
            found.append(index)
    return (*found, None)


async def _nbytes(full: LevelledSource, level: LevelledSource, part: Window, number: int) -> float:
    """Return how many bytes a window of a level takes: as stored, or in proportion to its pixels."""
    header = level.header
    inside = part.clipped(width=header.width, height=header.height)
    if inside is None:
        return 0.0
    span = await level.stored_span(inside, [number])
    if span is not None:
        return float(span[0])
    return full.header.nbytes * inside.n_pixels / (full.header.width * full.header.height)
