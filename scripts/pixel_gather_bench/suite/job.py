"""The job of one run: engine, sources at one time, and the tile that is read of every source. Pure."""

import re
from copy import replace
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import TileIndex, Window
from pixel_gather.io.store.store_settings import StoreSettings


class Raster(NamedTuple):
    """What an engine knows of an open source. If an image has strips, its tiles are as wide as the image."""

    height: int
    width: int
    tile_height: int
    tile_width: int
    n_bands: int
    dtype: str


class TileTarget(Struct, frozen=True, kw_only=True):
    """What is read from every source. The first good source determines shape and dtype."""

    tile: TileIndex | None
    """None for the tile that holds the middle pixel."""

    band: int
    """Number of the band, from 1."""

    shape: tuple[int, int]
    """(height, width) in pixels. At the lower and right edges it is less than a tile."""

    dtype: str

    @property
    def nbytes(self) -> int:
        """Bytes of one decoded window."""
        import numpy as np  # noqa: PLC0415 # the command's help does without

        return self.shape[0] * self.shape[1] * np.dtype(self.dtype).itemsize

    def window_on(self, raster: Raster, *, href: str) -> Window:
        """Return the window of the tile in a source. It is the same for every engine.

        Raises:
            SourceError: The tile lies outside the source, or the source does not fit the target.
        """
        window = tile_window(raster, self.tile)
        problem = None
        if raster.n_bands < self.band:
            problem = f"it has {raster.n_bands} band(s), not {self.band}"
        elif raster.dtype != self.dtype:
            problem = f"it is {raster.dtype}, the others {self.dtype}"
        elif window is not None and (window.height, window.width) != self.shape:
            problem = f"its tile is {window.height} x {window.width}, the others {_by(self.shape)}"
        if problem is not None:
            raise SourceError(problem, href=href, status=Status.UNLIKE)
        if window is None:
            size = _by((raster.height, raster.width))
            raise SourceError(f"the tile lies outside its {size} pixels", href=href, status=Status.OUTSIDE)
        return window


def tile_window(raster: Raster, tile: TileIndex | None) -> Window | None:
    """Return the part of a tile that lies on the raster, or None."""
    height, width = raster.tile_height, raster.tile_width
    if tile is None:
        tile = TileIndex(column=raster.width // 2 // width, row=raster.height // 2 // height)
    whole = Window(col_off=tile.column * width, row_off=tile.row * height, width=width, height=height)
    return whole.clipped(width=raster.width, height=raster.height)


def _by(shape: tuple[int, int]) -> str:
    return f"{shape[0]} x {shape[1]}"


type EngineName = Literal["fast", "rasterio"]
ENGINES: Final[tuple[EngineName, ...]] = ("fast", "rasterio")
"""``fast`` is this project's reader. ``rasterio`` is GDAL in threads, with the settings published in 2018."""


class Configuration(Struct, frozen=True, kw_only=True):
    """Engine and concurrency of a run."""

    engine: EngineName
    concurrency: int | None
    """Sources, or threads, at one time. None lets the engine find the number."""

    @property
    def name(self) -> str:
        """The name in tables and legends, such as ``fast, 12``."""
        return f"{self.engine}, {self.shown_concurrency}"

    @property
    def shown_concurrency(self) -> str:
        """The number, or ``auto``."""
        return "auto" if self.concurrency is None else str(self.concurrency)


class SuiteJob(Struct, frozen=True, kw_only=True):
    """All that one run needs to know."""

    configuration: Configuration
    round: int
    """Number of the repetition, from 1."""

    target: TileTarget
    stores: StoreSettings
    warm_up: bool
    """Whether the last source is read once before the clock starts."""

    header_nbytes: int | None
    """Size of the first read of each source. None for the engine's own choice."""

    keep_in: str | None
    """Folder for the pixels, or None to forget them."""

    hrefs: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the record's file without its suffix, such as ``fast-12-1``."""
        return f"{self.configuration.engine}-{self.configuration.shown_concurrency}-{self.round}"

    def without_hrefs(self) -> "SuiteJob":
        """Return the job without its list. The suite's folder holds the list once for all jobs."""
        return replace(self, hrefs=())


MOST: Final = 512
_RANGE: Final = re.compile(r"(\d{1,4})(?:-(\d{1,4})(?::(\d{1,4}))?)?")


def parse_concurrencies(text: str) -> tuple[int | None, ...]:
    """Return the numbers, ascending and without repeats. None comes last and stands for ``auto``.

    A range includes both ends. But its step may skip the upper end.

    Raises:
        ValueError: The message says what is wrong.
    """
    parts = [part.strip() for part in text.split(",")]
    numbers = sorted({number for part in parts if part != "auto" for number in _numbers(part)})
    return (*numbers, None) if "auto" in parts else tuple(numbers)


def _numbers(part: str) -> range:
    found = _RANGE.fullmatch(part)
    if found is None:
        raise ValueError(f"{part!r} is neither a number nor a range such as 1-56 or 1-56:5, nor auto")
    start, stop, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
    if not 1 <= start <= stop <= MOST or step < 1:
        raise ValueError(f"{part!r} does not go upwards from 1 or more to {MOST} or less")
    return range(start, stop + 1, step)
