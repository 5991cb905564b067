"""Pixels of a source become those of a grid as NumPy's repeat and means of blocks say."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.core.model.grid_step import GridStep
from pixel_gather.core.model.window import Window
from pixel_gather.core.read.put_on_grid import put_on_grid
from support.strategies import FLOATS, INTEGERS

type Pixels = np.ndarray[Any, np.dtype[Any]]

INTEGER_DTYPES = tuple(each for each in INTEGERS if each not in ("int64", "uint64"))


def on_grid(own: Pixels, step: GridStep, resampling: Any = "average", nodata: float | None = None) -> Pixels:
    """Return all pixels of the grid below the pixels of a source, shape (band, y, x)."""
    height, width = (length * step.times // step.over for length in own.shape[1:])
    out = np.empty((len(own), height, width), dtype=own.dtype)
    out.view("u1")[...] = 0xAB
    put_on_grid(own, out, step=step, offset=(0, 0), resampling=resampling, nodata=nodata)
    return out


def blocks_of(own: Pixels, over: int) -> Pixels:
    """Return the pixels of each block in the last axis."""
    n_bands, height, width = own.shape
    cut = own.reshape(n_bands, height // over, over, width // over, over)
    return cut.transpose(0, 1, 3, 2, 4).reshape(n_bands, height // over, width // over, over * over)


@st.composite
def rasters(draw: st.DrawFn, over: int = 1) -> Pixels:
    """Return small rasters of few values, so that some are equal, whose sides are whole blocks."""
    dtype = draw(st.sampled_from(INTEGER_DTYPES + FLOATS))
    shape = (2, over * draw(st.integers(1, 3)), over * draw(st.integers(1, 3)))
    low, high = (0, 200) if dtype.startswith("u") else (-100, 100)
    seed, is_extreme = draw(st.integers(0, 2**16)), draw(st.booleans())
    random = np.random.default_rng(seed)
    if is_extreme and dtype in INTEGER_DTYPES:
        limits = np.iinfo(dtype)
        return random.choice(np.array([limits.min, limits.max], dtype=dtype), shape)
    return random.integers(low, high, shape, dtype="int64").astype(dtype)


@pytest.mark.long
@given(own=rasters(), times=st.integers(2, 7), data=st.data())
def test_coarser_pixels_are_repeated(own: Pixels, times: int, data: st.DataObject) -> None:
    """Any part of the grid holds what the same part of NumPy's repeat does."""
    repeated = own.repeat(times, axis=1).repeat(times, axis=2)
    (top, bottom), (left, right) = (
        sorted(data.draw(st.sets(st.integers(0, length), min_size=2, max_size=2)))
        for length in repeated.shape[1:]
    )
    window = Window(col_off=left, row_off=top, width=right - left, height=bottom - top)
    below = GridStep(times=times).on_source(window)
    out = np.empty((len(own), window.height, window.width), dtype=own.dtype)

    put_on_grid(
        own[:, below.row_off : below.row_stop, below.col_off : below.col_stop],
        out,
        step=GridStep(times=times),
        offset=(top % times, left % times),
        resampling="average",
        nodata=None,
    )

    np.testing.assert_array_equal(out, repeated[:, top:bottom, left:right])


@given(over=st.integers(2, 6), data=st.data())
def test_finer_pixels_are_averaged_over_whole_blocks(over: int, data: st.DataObject) -> None:
    """Integers are rounded, halves up. Sums are exact, also of the largest values."""
    own = data.draw(rasters(over))
    blocks = blocks_of(own, over)
    if own.dtype.kind == "f":
        expected = blocks.astype("float64").sum(axis=-1) / over**2
    else:
        total = blocks.astype("int64").sum(axis=-1)
        expected = (2 * total + over**2) // (2 * over**2)

    np.testing.assert_array_equal(on_grid(own, GridStep(over=over)), expected.astype(own.dtype))


@given(over=st.integers(2, 4), data=st.data(), resampling=st.sampled_from(["average", "mode"]))
def test_missing_pixels_do_not_count(over: int, data: st.DataObject, resampling: str) -> None:
    """A pixel is missing only if the whole block is."""
    own = data.draw(rasters(over))
    nodata = data.draw(st.sampled_from(sorted(set(own.ravel().tolist()))))
    if own.dtype.kind == "f":
        own.ravel()[:: data.draw(st.integers(2, 5))] = np.nan

    found = on_grid(own, GridStep(over=over), resampling, nodata)

    for place in np.ndindex(found.shape):
        block = blocks_of(own, over)[place].tolist()
        there = [each for each in block if each != nodata and each == each]  # noqa: PLR0124 # NaN
        if not there:
            expected = nodata
        elif resampling == "mode":
            counts = Counter(there)
            expected = min(each for each in counts if counts[each] == max(counts.values()))
        elif own.dtype.kind == "f":
            expected = float(own.dtype.type(sum(there) / len(there)))
        else:
            expected = (2 * sum(there) + len(there)) // (2 * len(there))
        if there and expected == nodata:  # a mean
            expected = nodata - 1
            if own.dtype.kind == "f":
                expected = float(np.nextafter(own.dtype.type(nodata), own.dtype.type(-np.inf)))
        assert found[place] == expected


@pytest.mark.parametrize(
    ("dtype", "block", "nodata", "stored"),
    [
        ("int16", [0, -1, 1, 0], 0, -1),
        ("uint8", [5, 4, 6, 5], 5, 4),
        ("float32", [-2, 2, 0, 0], 0, float(np.nextafter(np.float32(0), np.float32(-1)))),
    ],
)
def test_a_mean_that_is_nodata_counts(dtype: str, block: list[float], nodata: float, stored: float) -> None:
    """It is the next lower number, as in a grid in another CRS."""
    own = np.array(block, dtype).reshape(1, 2, 2)

    assert on_grid(own, GridStep(over=2), nodata=nodata).item() == stored


@given(over=st.integers(2, 5), data=st.data())
def test_modes_are_the_most_frequent_values(over: int, data: st.DataObject) -> None:
    """Of several, it is the least one."""
    own = data.draw(rasters(over))
    found = on_grid(own, GridStep(over=over), "mode")

    for place in np.ndindex(found.shape):
        values, counts = np.unique(blocks_of(own, over)[place], return_counts=True)
        assert found[place] == values[counts.argmax()]


@pytest.mark.parametrize("resampling", ["average", "mode"])
def test_blocks_of_nan_alone_are_nan(resampling: str) -> None:
    """No nodata is declared."""
    assert np.isnan(on_grid(np.full((1, 4, 4), np.nan, "float32"), GridStep(over=2), resampling)).all()


@given(over=st.integers(2, 6), data=st.data())
def test_nearest_is_the_pixel_right_below_the_middle(over: int, data: st.DataObject) -> None:
    """So does GDAL, whose middle of an even block is a corner."""
    own = data.draw(rasters(over))

    expected = own[:, over // 2 :: over, over // 2 :: over]
    np.testing.assert_array_equal(on_grid(own, GridStep(over=over), "nearest"), expected)


@given(
    times=st.integers(1, 9),
    over=st.integers(1, 9),
    corner=st.tuples(st.integers(-50, 50), st.integers(-50, 50)),
    size=st.tuples(st.integers(1, 30), st.integers(1, 30)),
)
def test_step_reads_the_pixels_below_a_window_and_no_others(
    times: int, over: int, corner: tuple[int, int], size: tuple[int, int]
) -> None:
    """They cover the window, and each of them touches it."""
    step = GridStep(times=times) if times > over else GridStep(over=over)
    window = Window(col_off=corner[0], row_off=corner[1], width=size[0], height=size[1])

    below = step.on_source(window)

    k = step.times / step.over
    for start, stop, first, last in (
        (below.col_off, below.col_stop, window.col_off, window.col_stop),
        (below.row_off, below.row_stop, window.row_off, window.row_stop),
    ):
        assert start * k <= first < (start + step.over) * k
        assert (stop - step.over) * k < last <= stop * k
