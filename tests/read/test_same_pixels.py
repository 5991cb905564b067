"""Windows are compared row by row."""

import numpy as np
import pytest

from pixel_gather.features.replay.read_sources_again import rows_are_same

THEN = np.arange(12, dtype="float32").reshape(3, 2, 2)


def test_a_row_with_one_other_pixel_is_not_the_same() -> None:
    """The others are."""
    now = THEN.copy()
    now[1, 0, 1] += 1

    assert rows_are_same(THEN, now, tolerance=None) == [True, False, True]
    assert rows_are_same(THEN.astype("uint8"), now.astype("uint8"), tolerance=None) == [True, False, True]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_every_bit_counts(dtype: str) -> None:
    """NaN equals itself. Minus zero is not zero."""
    then = np.zeros((3, 1, 2), dtype)
    then[0] = np.nan
    now = then.copy()
    now[1] = -now[1].real

    assert rows_are_same(then, now, tolerance=None) == [True, False, True]


def test_other_shapes_and_dtypes_have_no_row_in_common() -> None:
    """Whatever their pixels are."""
    assert rows_are_same(THEN, THEN[:, :1], tolerance=None) == [False] * 3
    assert rows_are_same(THEN, THEN.astype("float64"), tolerance=None) == [False] * 3
    assert rows_are_same(THEN, THEN.astype("float64"), tolerance=1.0) == [False] * 3


def test_pixels_that_were_stored_with_loss_may_differ_by_the_tolerance() -> None:
    """It is absolute, also for large values. NaN is still only NaN."""
    then = np.array([[[1e6]], [[1e6]], [[np.nan]], [[np.nan]]], "float32")
    now = np.array([[[1e6 + 0.5]], [[1e6 + 0.75]], [[np.nan]], [[0]]], "float32")

    assert rows_are_same(then, now, tolerance=0.5) == [True, False, True, False]
    assert rows_are_same(now[:1], then[:1], tolerance=0.25) == [False]


def test_tolerance_holds_for_the_smallest_integers() -> None:
    """The difference is not computed in their own dtype, in which it would overflow."""
    then, now = np.array([[[0]], [[255]]], "uint8"), np.array([[[255]], [[254]]], "uint8")

    assert rows_are_same(then, now, tolerance=1.0) == [False, True]
