"""The tile that a suite reads from every source, and which sources have it. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window


class Raster(NamedTuple):
    """What an engine knows of an open source. If an image has strips, its tiles are as wide as the image."""

    height: int
    width: int
    tile_height: int
    tile_width: int
    n_bands: int
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is read from every source. The first good source determines shape and dtype."""

    tile: tuple[int, int] | None
    """(row, column) in the source's own tiling; None for the tile that holds the middle pixel."""

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


def tile_window(raster: Raster, tile: tuple[int, int] | None) -> Window | None:
    """Return the part of a tile that lies on the raster, or None."""
    height, width = raster.tile_height, raster.tile_width
    row, column = (raster.height // 2 // height, raster.width // 2 // width) if tile is None else tile
    whole = Window(col_off=column * width, row_off=row * height, width=width, height=height)
    return whole.clipped(width=raster.width, height=raster.height)


def _by(shape: tuple[int, int]) -> str:
    return f"{shape[0]} x {shape[1]}"
