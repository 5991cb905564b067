"""At which levels a scene may be read: from the coarsest overview that shows the area to full resolution."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from pixel_gather.core.model.window import Window
from pixel_gather.core.ports import LevelledSource
from pixel_gather.features.rank.grid import LevelGrid
from pixel_gather.features.rank.sampling_error import Resampling

_FEWEST: Final = 1000
"""Pixels in the area at the coarsest level that is read."""

_MOST: Final = 4_000_000
"""Most pixels of a level. Finer overviews are left out, as only full resolution is read in strips."""

_SAVES: Final = 0.65
"""An overview is read if it and the coarser ones take less than this share of full resolution's bytes.

Scenes whose rank it leaves open are read again at full resolution. Measured with the default precision on 30
random boxes in each of three lists, two of them made up: 0.8 leaves more ranks open, and more boxes take more
bytes than at full resolution alone. 0.5 takes up to 15 % more bytes.
"""

_OF_GDAL: Final[dict[str, Resampling]] = {
    "NEAREST": "nearest",
    "AVERAGE": "average",
    "RMS": "moves means",
    "MODE": "moves means",
}

type Level = int | None
"""Number of an overview, 0 being the largest; None for full resolution."""


class LevelBytes(NamedTuple):
    """One level of a scene's finest band, compared with full resolution."""

    level: Level
    part: Window
    """The area on it."""

    nbytes: float
    """Size of the tiles that the area touches."""

    why_not: str | None
    """Why a ranking does not read it; None if it does."""


class LevelCost(Struct, frozen=True, kw_only=True):
    """One level of one scene."""

    level: int | None
    """Number of the overview, 0 being the largest; None for full resolution."""

    factor: float
    """Pixels of full resolution along one side of a pixel."""

    n_pixels: int
    """Pixels of the finest band in the area."""

    nbytes: int
    """Size of all bands and of the mask, as stored."""

    decoded_nbytes: int
    """Size of the area's pixels: all bands and the mask."""

    why_not: str | None
    """Why a ranking does not read it; None if it does."""

    @property
    def name(self) -> str:
        """As in the table of a ranking."""
        return "full" if self.level is None else f"overview {self.level}"


def resampling_of(opened: LevelledSource) -> Resampling:
    """Return how the overviews were made, as far as the file says."""
    return _OF_GDAL.get(opened.resampling or "", "unknown")


def worst_resampling(files: Iterable[LevelledSource]) -> Resampling:
    """Return how the overviews of files were made, of which one value is computed."""
    made = {resampling_of(each) for each in files}
    if len(made) == 1:
        return made.pop()
    return "moves means" if "moves means" in made else "unknown"


async def usable_levels(
    opened: LevelledSource,
    overviews: Sequence[LevelledSource],
    window: Window,
    number: int,
    *,
    compares_all: bool = False,
) -> list[LevelBytes]:
    """Return the levels of a scene, coarsest first and full resolution last, and which of them are read.

    Args:
        opened: At full resolution.
        overviews: Largest first.
        window: The area at full resolution.
        number: The band that is read.
        compares_all: Whether to return also the levels that are not read because of their number of pixels.
            Looking up where their tiles lie may take requests.

    Raises:
        SourceError: The offsets of the tiles cannot be read.
    """
    full_nbytes = await stored_nbytes(opened, opened, window, number)
    found: list[LevelBytes] = []
    before = 0.0
    for index in reversed(range(len(overviews))):
        level = overviews[index]
        part = LevelGrid(window=window, full=opened.header, level=level.header).part
        if part is None:
            continue
        why_not = _why_not(part.n_pixels)
        if why_not is not None and not compares_all:
            continue
        nbytes = await stored_nbytes(opened, level, part, number)
        if why_not is None and nbytes >= _SAVES * full_nbytes:
            why_not = f"it takes over {100 * _SAVES:.0f} % of the bytes of full resolution"
        elif why_not is None and before + nbytes >= _SAVES * full_nbytes:
            why_not = (
                f"it and the coarser levels take over {100 * _SAVES:.0f} % of the bytes of full resolution"
            )
        if why_not is None:
            before += nbytes
        found.append(LevelBytes(index, part, nbytes, why_not))
    inside = window.clipped(width=opened.header.width, height=opened.header.height) or window
    return [*found, LevelBytes(None, inside, full_nbytes, None)]


def _why_not(n_pixels: int) -> str | None:
    if n_pixels < _FEWEST:
        return f"it has under {_FEWEST:,} pixels in the area"
    return f"it has over {_MOST:,} pixels in the area" if n_pixels > _MOST else None


async def stored_nbytes(full: LevelledSource, level: LevelledSource, part: Window, number: int) -> float:
    """Return how many bytes a window of a level takes: as stored, or in proportion to its pixels."""
    header = level.header
    inside = part.clipped(width=header.width, height=header.height)
    if inside is None:
        return 0.0
    span = await level.stored_span(inside, [number])
    if span is not None:
        return float(span[0])
    return full.header.nbytes * inside.n_pixels / (full.header.width * full.header.height)
