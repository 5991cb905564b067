"""Warp the pixels of a source onto a grid in another CRS: the pixel below the middle of each of the grid's.

Thousands of files share few grids. So which pixels are taken is found once for each pair of grids, block by
block, and kept for all files that a process reads.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from threading import Lock
from typing import Any, Final

import numpy as np

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window
from pixel_gather.core.plan.warped_grid import Warp, lie_inside, pixels_at, places_on
from pixel_gather.core.ports import Projector

type Pixels = np.ndarray[Any, np.dtype[Any]]

_BLOCK_PIXELS: Final = 2**18
"""Pixels of the grid that are mapped at once."""

_KEPT_NBYTES: Final = 64 * 2**20
"""Size of the maps that a process keeps: 64 blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpedBlock:
    """Which pixel of a source each pixel of some lines takes."""

    index: "np.ndarray[Any, np.dtype[np.int32]]"
    """Position among the pixels that are read, line by line. Any, where the source has none."""

    inside: "np.ndarray[Any, np.dtype[np.bool_]] | None"
    """Where the source has one. None for everywhere."""

    extent: tuple[int, int, int, int] | None
    """x_start, y_start, x_stop, y_stop around those inside, on the block; None if none is."""

    @property
    def nbytes(self) -> int:
        """Size in memory."""
        return self.index.nbytes + (0 if self.inside is None else self.inside.nbytes)


def warp_pixels(
    own: Pixels, out: Pixels, *, warp: Warp, fill_value: float, projector: Projector
) -> tuple[int, int, int, int]:
    """Fill pixels of a grid from those of a source.

    The value of a pixel depends on the two grids, and on nothing else.

    Args:
        own: The pixels of ``warp.window``, shape (band, y, x).
        out: The warp's lines, shape (band, y, x). They are overwritten.
        warp: Where they lie.
        fill_value: What a pixel holds where the source has none.
        projector: Between the CRSs.

    Returns:
        x_start, y_start, x_stop, y_stop around the pixels that the source has; zeros if it has none.

    Raises:
        SourceError: Some pixels are not where those around them are, as around a pole or at 180 degrees.
    """
    flat = own.reshape(len(own), -1)
    extents = []
    for start, stop in _blocks(warp):
        make = partial(_map_block, warp, start, stop, projector)
        block = _maps().get((projector, warp, start), make)
        lines = slice(start - warp.lines[0], stop - warp.lines[0])
        for band, pixels in zip(out, flat, strict=True):
            if block.inside is None:
                np.take(pixels, block.index, out=band[lines], mode="clip")  # any other mode would buffer
            else:
                band[lines] = fill_value
                np.copyto(band[lines], pixels.take(block.index, mode="clip"), where=block.inside)
        if block.extent is not None:
            x_start, y_start, x_stop, y_stop = block.extent
            extents.append((x_start, lines.start + y_start, x_stop, lines.start + y_stop))
    if not extents:
        return (0, 0, 0, 0)
    x_starts, y_starts, x_stops, y_stops = zip(*extents, strict=True)
    return min(x_starts), min(y_starts), max(x_stops), max(y_stops)


def _blocks(warp: Warp) -> Iterator[tuple[int, int]]:
    """Yield lines [start, stop) of each block."""
    start, stop = warp.lines
    n_lines = max(_BLOCK_PIXELS // warp.target.width, 1)
    for first in range(start, stop, n_lines):
        yield first, min(first + n_lines, stop)


def _map_block(warp: Warp, start: int, stop: int, projector: Projector) -> WarpedBlock:
    """Find which pixels some lines take."""
    own, window = warp.own, warp.window
    assert window is not None  # noqa: S101 # some pixels were read
    shape = stop - start, warp.target.width
    xs = np.broadcast_to(np.arange(shape[1]) + 0.5, shape).ravel()
    ys = np.repeat(np.arange(start, stop) + 0.5, shape[1])
    cols, rows = places_on(warp.target, own, xs, ys, projector)
    inside = lie_inside(cols, rows, width=own.width, height=own.height)
    if not inside.any():
        return WarpedBlock(index=np.zeros(shape, np.int32), inside=inside.reshape(shape), extent=None)
    at_cols = pixels_at(np.where(inside, cols, window.col_off), own.width) - window.col_off
    at_rows = pixels_at(np.where(inside, rows, window.row_off), own.height) - window.row_off
    _check_read(at_cols, at_rows, window)
    index = (at_rows * window.width + at_cols).astype(np.int32).reshape(shape)
    return _block_of(index, inside.reshape(shape))


def _block_of(index: Pixels, inside: Pixels) -> WarpedBlock:
    columns, lines = np.flatnonzero(inside.any(axis=0)), np.flatnonzero(inside.any(axis=1))
    return WarpedBlock(
        index=index,
        inside=None if inside.all() else inside,
        extent=(int(columns[0]), int(lines[0]), int(columns[-1]) + 1, int(lines[-1]) + 1),
    )


def _check_read(cols: Pixels, rows: Pixels, window: Window) -> None:
    """Refuse places that are not among the pixels that were read."""
    if cols.min() < 0 or rows.min() < 0 or cols.max() >= window.width or rows.max() >= window.height:
        raise SourceError(
            "the window has places that do not lie between those of its edges, such as a pole or 180 degrees",
            href="",
            status=Status.UNSUPPORTED,
        )


class _Maps:
    """Blocks of maps that a process keeps. Each is made once, also if several threads ask for it."""

    def __init__(self, most_nbytes: int) -> None:
        self._most_nbytes = most_nbytes
        self._lock = Lock()
        self._kept: OrderedDict[object, WarpedBlock] = OrderedDict()
        self._making: dict[object, Lock] = {}

    def get(self, key: object, make: Callable[[], WarpedBlock]) -> WarpedBlock:
        """Return a block: that which is kept, or a new one."""
        with self._lock:
            if (block := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                return block
            making = self._making.setdefault(key, Lock())
        with making:
            with self._lock:
                if (block := self._kept.get(key)) is not None:
                    return block
            try:
                block = make()
            finally:
                with self._lock:
                    self._making.pop(key, None)
            with self._lock:
                self._kept[key] = block
                while (
                    sum(each.nbytes for each in self._kept.values()) > self._most_nbytes
                    and len(self._kept) > 1
                ):
                    self._kept.popitem(last=False)
        return block


@cache
def _maps() -> _Maps:
    return _Maps(_KEPT_NBYTES)
