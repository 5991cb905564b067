"""Which pixels of an image an area holds. Adapters rasterise shapes; this is what a ranking needs of them."""

from typing import Any, Protocol

import numpy as np
from msgspec import Struct

from pixel_gather.core.model.source import Header
from pixel_gather.core.model.window import Window
from pixel_gather.features.rank.grid import Positions, overlap

type Mask = np.ndarray[Any, np.dtype[np.bool_]]


class ShapeOnImage(Protocol):
    """A shape on one image at full resolution."""

    @property
    def window(self) -> Window:
        """The pixels that the shape touches. They may lie beyond the image."""

    @property
    def n_pixels(self) -> float:
        """The shape's size in pixels, also of its parts beyond the image."""

    def share_on(self, *, width: int, height: int) -> float:
        """Return which share of the shape lies on an image of such a size."""

    def mask(self, part: Window) -> Mask:
        """Return for a part of the image which pixels have their centre in the shape, (y, x)."""

    def shares(self, cols: Positions, rows: Positions) -> Positions:
        """Return which share of each pixel of an overview lies in the shape, (y, x).

        Args:
            cols: The edges of its columns, in pixels of full resolution, evenly spaced.
            rows: As ``cols``.
        """


class Shapes(Protocol):
    """Lays a ranking's area on images."""

    def on(self, header: Header) -> ShapeOnImage:
        """Return the area on one image.

        Raises:
            SourceError: The image is not placed on the map, or the area is not on it.
        """


class WholeWindow(Struct, frozen=True):
    """A shape that is a window: a box, or the whole image."""

    window: Window

    @property
    def n_pixels(self) -> float:
        """All of the window's pixels."""
        return float(self.window.n_pixels)

    def share_on(self, *, width: int, height: int) -> float:
        """Return which share of the window lies on an image of such a size."""
        return self.window.share_on(width=width, height=height)

    def mask(self, part: Window) -> Mask:
        """Return which pixels of a part lie in the window."""
        found = np.zeros((part.height, part.width), np.bool_)
        rows = slice(max(self.window.row_off - part.row_off, 0), max(self.window.row_stop - part.row_off, 0))
        cols = slice(max(self.window.col_off - part.col_off, 0), max(self.window.col_stop - part.col_off, 0))
        found[rows, cols] = True
        return found

    def shares(self, cols: Positions, rows: Positions) -> Positions:
        """Return which share of each pixel of an overview lies in the window."""
        down = overlap(rows, self.window.row_off, self.window.row_stop)
        across = overlap(cols, self.window.col_off, self.window.col_stop)
        return np.asarray(np.outer(down, across))


class TwoSides(Struct, frozen=True):
    """A shape across 180 degrees: its two sides on one image."""

    sides: tuple[ShapeOnImage, ShapeOnImage]

    @property
    def window(self) -> Window:
        """The window around both."""
        one, other = (each.window for each in self.sides)
        left, top = min(one.col_off, other.col_off), min(one.row_off, other.row_off)
        right, bottom = max(one.col_stop, other.col_stop), max(one.row_stop, other.row_stop)
        return Window(col_off=left, row_off=top, width=right - left, height=bottom - top)

    @property
    def n_pixels(self) -> float:
        """The pixels of both."""
        return sum(each.n_pixels for each in self.sides)

    def share_on(self, *, width: int, height: int) -> float:
        """Return which share of both lies on an image of such a size."""
        on = sum(each.n_pixels * each.share_on(width=width, height=height) for each in self.sides)
        return on / self.n_pixels

    def mask(self, part: Window) -> Mask:
        """Return which pixels of a part lie in either."""
        one, other = self.sides
        return np.asarray(one.mask(part) | other.mask(part))

    def shares(self, cols: Positions, rows: Positions) -> Positions:
        """Return which share of each pixel of an overview lies in either."""
        return np.asarray(np.minimum(sum(each.shares(cols, rows) for each in self.sides), 1.0))
