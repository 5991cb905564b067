"""Where an area lies on a level of an image, and how another grid's pixels fall onto it. Pure."""

import math
from typing import Any

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Transform, Window

type Positions = np.ndarray[Any, np.dtype[np.floating[Any]]]
type Indexes = np.ndarray[Any, np.dtype[np.integer[Any]]]


def transform_or_square(header: Header) -> Transform:
    """Return an image's transform; without a georeference, that of a square of side 1."""
    if header.transform is not None and header.transform.is_usable:
        return header.transform
    return Transform(1 / header.width, 0, 0, 0, 1 / header.height, 0)


def pixel_size(header: Header) -> float:
    """Return the side of a pixel in units of the map."""
    a, b, _, d, e, _ = transform_or_square(header)
    return math.sqrt(abs(a * e - b * d))


class LevelGrid(Struct, frozen=True, kw_only=True):
    """The part of a level that an area touches."""

    window: Window
    """The area on the image at full resolution. It may extend beyond the image."""

    full: Header
    level: Header
    """``full`` itself at full resolution."""

    @property
    def factors(self) -> tuple[float, float]:
        """Pixels of full resolution along a pixel of the level, across and down."""
        return self.full.width / self.level.width, self.full.height / self.level.height

    @property
    def part(self) -> Window | None:
        """The level's pixels that the area touches; None if there are none."""
        across, down = self.factors
        col_off, row_off = math.floor(self.window.col_off / across), math.floor(self.window.row_off / down)
        touched = Window(
            col_off=col_off,
            row_off=row_off,
            width=max(math.ceil(self.window.col_stop / across) - col_off, 1),
            height=max(math.ceil(self.window.row_stop / down) - row_off, 1),
        )
        return touched.clipped(width=self.level.width, height=self.level.height)

    def edges(self, part: Window) -> tuple[Positions, Positions]:
        """Return the edges of the part's columns and rows, in pixels of full resolution."""
        across, down = self.factors
        return (
            np.arange(part.col_off, part.col_stop + 1) * across,
            np.arange(part.row_off, part.row_stop + 1) * down,
        )


def overlap(edges: Positions, start: float, stop: float) -> Positions:
    """Return which share of each run between two edges lies in [start, stop)."""
    inside = np.minimum(edges[1:], stop) - np.maximum(edges[:-1], start)
    return np.asarray(np.clip(inside, 0, None) / np.diff(edges))


def lookup(cols: Positions, rows: Positions, *, of: Header, on: Header) -> tuple[Positions, Positions]:
    """Return the same columns and rows on another image, in its pixels.

    Args:
        cols: Positions on ``of``, in pixels, 0 at the left edge.
        rows: Positions, 0 at the upper edge.
        of: The image that the positions are on.
        on: The other image.

    Raises:
        SourceError: Its grid is turned against this one, or in another CRS.
    """
    a, b = transform_or_square(of), transform_or_square(on)
    if (of.transform is None) != (on.transform is None) or of.crs != on.crs:
        raise _unlike(on, "its CRS is not that of the scene's finest band")
    if not (a.is_rectilinear and b.is_rectilinear):
        if a.aligns_with(b, width=of.width, height=of.height):
            return cols, rows
        raise _unlike(on, "its grid is turned, so its pixels cannot be laid over the scene's finest band")
    return (a.a * cols + a.c - b.c) / b.a, (a.e * rows + a.f - b.f) / b.e


def nearest(positions: Positions, n: int) -> tuple[Indexes, slice]:
    """Return the index of the pixel at each position, -1 outside, and the run of indexes that it needs."""
    found = np.floor(positions + 1e-9).astype(np.int64)
    found[(found < 0) | (found >= n)] = -1
    used = found[found >= 0]
    return found, slice(int(used.min()), int(used.max()) + 1) if used.size else slice(0, 0)


def mean_by_cell(
    shares: np.ndarray[Any, Any], cols: Positions, rows: Positions
) -> np.ndarray[Any, np.dtype[np.floating[Any]]]:
    """Return the mean of an array of shares within each cell of another grid, (y, x).

    Args:
        shares: (y, x), 0 to 1. Beyond its edges it is 0.
        cols: Edges of the cells in its pixels, ascending or descending.
        rows: As ``cols``.
    """
    across = _means(np.asarray(shares, np.float64), cols, axis=1)
    return _means(across, rows, axis=0)


def _means(values: Positions, edges: Positions, *, axis: int) -> Positions:
    totals = np.concatenate(
        [np.zeros_like(np.take(values, [0], axis=axis)), np.cumsum(values, axis=axis)], axis=axis
    )
    n = values.shape[axis]
    at = np.clip(edges, 0, n)
    below = np.minimum(at.astype(np.int64), n - 1)
    share = (at - below).reshape((-1, 1) if axis == 0 else (1, -1))
    low, high = np.take(totals, below, axis=axis), np.take(totals, below + 1, axis=axis)
    integrals = low + share * (high - low)
    widths = np.diff(edges).reshape((-1, 1) if axis == 0 else (1, -1))
    return np.asarray(np.diff(integrals, axis=axis) / widths)


def _unlike(header: Header, why: str) -> SourceError:
    return SourceError(why, href=header.href, status=Status.UNLIKE)
