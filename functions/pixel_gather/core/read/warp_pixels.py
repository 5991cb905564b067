"""Warp the pixels of a source onto a grid in another CRS: the one below each middle, or a mean around it.

Thousands of files share few grids. So which pixels are taken is found once for each pair of grids, block by
block, and kept for all files that a process reads.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import groupby
from threading import Lock
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import SourceError
from pixel_gather.core.kept_values import KeptValues
from pixel_gather.core.model.grid_step import Resampling
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window
from pixel_gather.core.pixel_mask import Mask
from pixel_gather.core.plan.locate_window import Grid
from pixel_gather.core.plan.longitudes import Floats
from pixel_gather.core.plan.warped_grid import Warp, lie_inside, pixels_at, places_on
from pixel_gather.core.ports import Projector
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.core.read.valid_pixels import keep_off_nodata, valid_pixels

_BLOCK_PIXELS: Final = 2**18
"""Pixels of the grid that are mapped at once."""

_KEPT_NBYTES: Final = 96 * 2**20
"""Size of the maps that a process keeps: 96 blocks for the nearest pixel, or 9 with weights."""

_CACHED_PIXELS: Final = 2**14
"""Pixels whose means are computed at once."""

_KEPT_CUTS: Final = 1024
"""Pairs of grids, and of lines, of which a process remembers which tiles are touched."""

_STEPS: Final[dict[Resampling, tuple[int, ...]]] = {
    "nearest": (0,),
    "bilinear": (0, 1),
    "cubic": (-1, 0, 1, 2),
}
"""Pixels of a row or column that a mean takes, counted from the last one before the middle."""

_LEAST_WEIGHT: Final = 1e-5
"""Least weight of the pixels that are there, of 1, for a mean. GDAL's."""


class FourPixels(Struct, frozen=True, kw_only=True):
    """The four pixels around each middle of some lines."""

    first: "np.ndarray[Any, np.dtype[np.int32]]"
    """Position of the upper left one, as `WarpedBlock.index`."""

    weights: tuple[Floats, Floats, Floats, Floats]
    """Of the left and the right ones, and of the upper and the lower ones."""

    has_sixteen: Mask | None = None
    """Where 4 x 4 pixels around the middle lie on the source. None unless means are cubic."""


class WarpedBlock(Struct, frozen=True, kw_only=True):
    """Which pixels of a source each pixel of some lines takes."""

    index: "np.ndarray[Any, np.dtype[np.int32]]"
    """Position of the pixel below among those that are read, line by line. Any, where there is none."""

    inside: Mask | None
    """Where the source has one. None for everywhere."""

    extent: tuple[int, int, int, int] | None
    """x_start, y_start, x_stop, y_stop around those inside, on the block; None if none is."""

    four: "FourPixels | None" = None
    """Those around the middle, for means. None if the pixel below is taken."""

    @property
    def nbytes(self) -> int:
        """Size in memory."""
        four = self.four
        around = () if four is None else (four.first, *four.weights, four.has_sixteen)
        return sum(each.nbytes for each in (self.index, self.inside, *around) if each is not None)


def warp_pixels(
    own: Pixels,
    out: Pixels,
    *,
    warp: Warp,
    resampling: Resampling,
    nodata: float | None,
    fill_value: float,
    projector: Projector,
    inside: Mask | None = None,
) -> tuple[int, int, int, int]:
    """Fill pixels of a grid from those of a source.

    The value of a pixel depends on the two grids and the source's pixels around it, and on nothing else.

    Args:
        own: The pixels of ``warp.window``, shape (band, y, x).
        out: The warp's lines, shape (band, y, x). They are overwritten.
        warp: Where they lie.
        resampling: ``nearest``, ``bilinear`` or ``cubic``.
        nodata: What missing pixels of the source hold. They do not count in a mean.
        fill_value: What a pixel holds where the source has none.
        projector: Between the CRSs.
        inside: Overwritten with where the source has pixels, if given: shape (y, x) as ``out``.

    Returns:
        x_start, y_start, x_stop, y_stop around the pixels that lie on the source; zeros if none does.

    Raises:
        SourceError: Some pixels are not where those around them are, as around a pole or at 180 degrees.
    """
    extents = []
    shown = [None if resampling == "nearest" else _shown(pixels, nodata) for pixels in own]
    for (start, stop), block in _map_blocks(warp, resampling, projector):
        lines = slice(start - warp.lines[0], stop - warp.lines[0])
        for band, pixels, are_shown in zip(out[:, lines], own, shown, strict=True):
            if block.four is None:
                _take(pixels, band, block, fill_value)
            else:
                _take_means(pixels, are_shown, band, block, block.four, nodata=nodata, fill_value=fill_value)
        if inside is not None:
            inside[lines] = True if block.inside is None else block.inside
        if block.extent is not None:
            x_start, y_start, x_stop, y_stop = block.extent
            extents.append((x_start, lines.start + y_start, x_stop, lines.start + y_stop))
    if not extents:
        return (0, 0, 0, 0)
    x_starts, y_starts, x_stops, y_stops = zip(*extents, strict=True)
    return min(x_starts), min(y_starts), max(x_stops), max(y_stops)


def known_parts(warp: Warp, *, resampling: Resampling, projector: Projector) -> tuple[Window, ...] | None:
    """Return `find_parts` if they were found before, else None."""
    return _cuts().get((projector, warp, resampling))


def find_parts(warp: Warp, *, resampling: Resampling, projector: Projector) -> tuple[Window, ...]:
    """Return the parts of a source that `warp_pixels` needs: whole tiles of ``warp.window``, without others.

    Only tiles that hold a wanted pixel, or a pixel of a mean, are in them. The parts do not overlap. Maps
    are made for it.

    Args:
        warp: Its window is not None.
        resampling: As in `warp_pixels`.
        projector: Between the CRSs.

    Returns:
        The parts, row by row. The whole window if a place lies beyond it, so that the row fails when it is
        warped.
    """
    assert warp.window is not None  # noqa: S101 # or nothing is read
    try:
        found = tuple(_runs(_touched_tiles(warp, resampling, projector), warp.own, warp.window))
    except SourceError:
        found = (warp.window,)
    _cuts().put((projector, warp, resampling), found, 1)
    return found


def _touched_tiles(warp: Warp, resampling: Resampling, projector: Projector) -> Pixels:
    """Return which tiles of a warp's window hold wanted pixels: shape (down, across)."""
    own, window = warp.own, warp.window
    assert window is not None  # noqa: S101 # as above
    first_row, first_col = window.row_off // own.tile_height, window.col_off // own.tile_width
    touched = np.zeros(
        (
            (window.row_stop - 1) // own.tile_height - first_row + 1,
            (window.col_stop - 1) // own.tile_width - first_col + 1,
        ),
        dtype=bool,
    )
    for _, block in _map_blocks(warp, resampling, projector):
        at = block.index if block.four is None else block.four.first
        rows, cols = np.divmod(at if block.inside is None else at[block.inside], window.width)
        steps = _STEPS[resampling]
        for down in steps:
            at_rows = np.clip(rows + down, 0, window.height - 1)
            tile_rows = (at_rows + window.row_off) // own.tile_height
            for across in steps:
                at_cols = np.clip(cols + across, 0, window.width - 1)
                tile_cols = (at_cols + window.col_off) // own.tile_width
                touched[tile_rows - first_row, tile_cols - first_col] = True
    return touched


def _runs(touched: Pixels, own: Grid, window: Window) -> Iterator[Window]:
    """Yield rectangles of touched tiles, clipped to a window. Equal rows of tiles are in the same ones."""
    for is_touched, same in groupby(enumerate(touched.tolist()), key=lambda row: row[1]):
        down = [number for number, _ in same]
        top, bottom = _clip_to_tiles(down[0], down[-1], own.tile_height, window.row_off, window.row_stop)
        for here, run in groupby(enumerate(is_touched), key=lambda tile: tile[1]):
            across = [number for number, _ in run]
            if here:
                left, right = _clip_to_tiles(
                    across[0], across[-1], own.tile_width, window.col_off, window.col_stop
                )
                yield Window(col_off=left, row_off=top, width=right - left, height=bottom - top)


def _clip_to_tiles(first: int, last: int, tile: int, start: int, stop: int) -> tuple[int, int]:
    """Return which pixels [start, stop) lie in some tiles, counted from the one that holds the first."""
    base = start // tile
    return max((base + first) * tile, start), min((base + last + 1) * tile, stop)


def _take(pixels: Pixels, out: Pixels, block: WarpedBlock, fill_value: float) -> None:
    """Take the pixel below each of a block."""
    if block.inside is None:
        np.take(pixels, block.index, out=out, mode="clip")  # any other mode would buffer
    else:
        out[...] = fill_value
        np.copyto(out, pixels.take(block.index, mode="clip"), where=block.inside)


def _shown(pixels: Pixels, nodata: float | None) -> Pixels | None:
    """Return which pixels are there; None if all are."""
    is_valid = valid_pixels(pixels, nodata)
    return None if is_valid is None or is_valid.all() else is_valid


@np.errstate(invalid="ignore")  # infinity less infinity is NaN, as of GDAL
def _take_means(
    pixels: Pixels,
    shown: Pixels | None,
    out: Pixels,
    block: WarpedBlock,
    around: FourPixels,
    *,
    nodata: float | None,
    fill_value: float,
) -> None:
    """Take the weighted mean of the pixels around each middle, in the order of GDAL's operations.

    A cubic mean is that of 4 x 4 pixels. If one of these is missing or lies beyond the source's edge, the
    bilinear mean of the nearest four takes its place. A bilinear mean leaves missing pixels out. If the
    pixel below the middle is missing, there is no mean. A few lines are computed at a time, so that the
    arrays in between fit the processor's cache.
    """
    n_lines = max(_CACHED_PIXELS // out.shape[1], 1)
    all_shown = None if shown is None or around.has_sixteen is None else _where_sixteen(shown)
    for start in range(0, len(out), n_lines):
        lines = slice(start, start + n_lines)
        means, has_mean = _means_of_four(pixels, shown, around, lines)
        if shown is not None:
            has_mean &= shown.take(block.index[lines], mode="clip")
        if block.inside is not None:
            has_mean &= block.inside[lines]
        if around.has_sixteen is not None:
            is_cubic = around.has_sixteen[lines]
            if all_shown is not None:
                is_cubic = is_cubic & all_shown.take(around.first[lines], mode="clip")
            np.copyto(means, _cubic_means(pixels, around, lines), where=is_cubic)
        if has_mean.all():
            out[lines] = _convert_means(means, out.dtype, nodata)
        else:
            out[lines] = fill_value
            out[lines][has_mean] = _convert_means(means[has_mean], out.dtype, nodata)


def _means_of_four(
    pixels: Pixels, shown: Pixels | None, around: FourPixels, lines: slice
) -> tuple[Floats, Mask]:
    """Return the bilinear means of some lines, and where enough pixels are there for a mean."""
    left, right, upper, lower = (each[lines] for each in around.weights)
    total, of_all = np.zeros(left.shape), np.zeros(left.shape)
    wide = pixels.shape[1]
    four = (0, left, upper), (1, right, upper), (wide, left, lower), (wide + 1, right, lower)
    for step, across, down in four:
        at = around.first[lines] + step
        weight, values = across * down, pixels.take(at, mode="clip")
        if shown is not None:
            is_there = shown.take(at, mode="clip")
            weight *= is_there
            values[~is_there] = 0
        of_all += weight
        weight *= values
        total += weight
    has_mean: Mask = of_all >= _LEAST_WEIGHT
    return np.divide(total, of_all, out=total, where=has_mean), has_mean


def _cubic_means(pixels: Pixels, around: FourPixels, lines: slice) -> Floats:
    """Return the cubic means of some lines. They mean nothing where one of the 4 x 4 pixels is not there."""
    _, right, _, lower = (each[lines] for each in around.weights)
    across, total = _cubic_weights(right), np.zeros(right.shape)
    for down, of_row in zip(_STEPS["cubic"], _cubic_weights(lower), strict=True):
        of_pixels = np.zeros(right.shape)
        for step, weight in zip(_STEPS["cubic"], across, strict=True):
            at = around.first[lines] + (down * pixels.shape[1] + step)
            of_pixels += weight * pixels.take(at, mode="clip")
        total += of_row * of_pixels
    return total


def _cubic_weights(share: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the weights of four pixels in a row.

    ``share`` is how far the middle lies from the second pixel to the third, 0 to 1. The weights are those of
    Keys, Cubic convolution interpolation for digital image processing (1981), with a = -1/2.
    """
    half = 0.5 * share
    half_square, three = half * share, 3.0 * share
    return (
        half * (share * (2 - share) - 1),
        half_square * (three - 5) + 1,
        half * (share * (4 - three) + 1),
        half_square * (share - 1),
    )


def _where_sixteen(shown: Pixels) -> Pixels:
    """Return where all 4 x 4 pixels are there: from one before to two after, down and across."""
    found = np.zeros_like(shown)
    across = shown[:, :-3] & shown[:, 1:-2] & shown[:, 2:-1] & shown[:, 3:]
    found[1:-2, 1:-2] = across[:-3] & across[1:-2] & across[2:-1] & across[3:]
    return found


def _convert_means(means: Floats, dtype: "np.dtype[Any]", nodata: float | None) -> Pixels:
    """Return means in a dtype: integers are rounded, halves up. What would be nodata gets the next value."""
    is_float = dtype.kind == "f"
    if dtype == np.float16:  # GDAL rounds these twice
        means = means.astype(np.float32)
    if not is_float:  # a cubic mean may lie beyond the pixels that it is made of
        means = np.floor(np.clip(means, np.iinfo(dtype).min, np.iinfo(dtype).max) + 0.5)
    found: Pixels = means.astype(dtype)
    keep_off_nodata(found, nodata)
    return found


def _blocks(warp: Warp) -> Iterator[tuple[int, int]]:
    """Yield lines [start, stop) of each block."""
    start, stop = warp.lines
    n_lines = max(_BLOCK_PIXELS // warp.target.width, 1)
    for first in range(start, stop, n_lines):
        yield first, min(first + n_lines, stop)


def _map_blocks(
    warp: Warp, resampling: Resampling, projector: Projector
) -> Iterator[tuple[tuple[int, int], WarpedBlock]]:
    """Yield lines [start, stop) of each block, and its map."""
    for start, stop in _blocks(warp):
        make = partial(_map_block, warp, start, stop, projector, resampling=resampling)
        yield (start, stop), _maps().get((projector, warp, resampling, start), make)


def _map_block(
    warp: Warp, start: int, stop: int, projector: Projector, *, resampling: Resampling
) -> WarpedBlock:
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
    some = inside.argmax()
    cols, rows = np.where(inside, cols, cols[some]), np.where(inside, rows, rows[some])
    at_cols, at_rows = pixels_at(cols, own.width), pixels_at(rows, own.height)
    return _block_of(
        _positions(at_cols, at_rows, window).reshape(shape),
        inside.reshape(shape),
        None if resampling == "nearest" else _around_places(cols, rows, warp, window, shape, resampling),
    )


def _around_places(
    cols: Floats, rows: Floats, warp: Warp, window: Window, shape: tuple[int, int], resampling: Resampling
) -> FourPixels:
    at_cols, left, right = _neighbours(cols, warp.own.width)
    at_rows, upper, lower = _neighbours(rows, warp.own.height)
    steps, has_sixteen = _STEPS[resampling], None
    for step in (steps[0], steps[-1]):  # an error if the outermost pixels were not read
        beside_cols = np.clip(at_cols + step, 0, warp.own.width - 1)
        _positions(beside_cols, np.clip(at_rows + step, 0, warp.own.height - 1), window)
    if resampling == "cubic":
        has_sixteen = (at_cols >= 1) & (at_cols + 2 < warp.own.width)
        has_sixteen &= (at_rows >= 1) & (at_rows + 2 < warp.own.height)
        has_sixteen = has_sixteen.reshape(shape)
    return FourPixels(
        first=_positions(at_cols, at_rows, window).reshape(shape),
        weights=(left.reshape(shape), right.reshape(shape), upper.reshape(shape), lower.reshape(shape)),
        has_sixteen=has_sixteen,
    )


def _neighbours(places: Floats, size: int) -> tuple[Pixels, Floats, Floats]:
    """Return the pixel before each place, its weight, and that of the one after it.

    Before the first pixel and after the last one there is none.
    """
    before = np.floor(places - 0.5)
    weight = 1.5 - (places - before)
    weight[before < 0] = 1.0
    before = np.maximum(before, 0).astype(np.int64)
    after = 1.0 - weight
    after[before + 1 >= size] = 0.0
    return before, weight, after


def _block_of(index: Pixels, inside: Pixels, four: FourPixels | None) -> WarpedBlock:
    columns, lines = np.flatnonzero(inside.any(axis=0)), np.flatnonzero(inside.any(axis=1))
    return WarpedBlock(
        index=index,
        inside=None if inside.all() else inside,
        extent=(int(columns[0]), int(lines[0]), int(columns[-1]) + 1, int(lines[-1]) + 1),
        four=four,
    )


def _positions(cols: Pixels, rows: Pixels, window: Window) -> Pixels:
    """Return the positions of pixels among those that are read.

    Raises:
        SourceError: Some are not among them.
    """
    cols, rows = cols - window.col_off, rows - window.row_off
    if cols.min() < 0 or rows.min() < 0 or cols.max() >= window.width or rows.max() >= window.height:
        raise SourceError(
            "the window has places that do not lie between those of its edges, such as a pole or 180 degrees",
            href="",
            status=Status.UNSUPPORTED,
        )
    return (rows * window.width + cols).astype(np.int32)


class _Maps:
    """Blocks of maps that a process keeps. Each is made once, also if several threads ask for it."""

    def __init__(self, most_nbytes: int) -> None:
        self._lock = Lock()
        self._kept = KeptValues[object, WarpedBlock](most_nbytes)
        self._making: dict[object, Lock] = {}

    def get(self, key: object, make: Callable[[], WarpedBlock]) -> WarpedBlock:
        """Return a block: that which is kept, or a new one."""
        with self._lock:
            if (block := self._kept.get(key)) is not None:
                return block
            making = self._making.setdefault(key, Lock())
        with making:
            if (block := self._kept.get(key)) is not None:
                return block
            try:
                block = make()
                self._kept.put(key, block, block.nbytes)
            finally:
                with self._lock:
                    self._making.pop(key, None)
        return block


@cache
def _maps() -> _Maps:
    return _Maps(_KEPT_NBYTES)


@cache
def _cuts() -> KeptValues[object, tuple[Window, ...]]:
    return KeptValues(_KEPT_CUTS)
