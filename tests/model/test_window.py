"""Windows and transforms."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.core.model.window import Transform, Window
from support.strategies import transforms, windows

positions = st.integers(-1000, 1000)


@given(transform=transforms(), col=positions, row=positions)
def test_colrow_undoes_xy(transform: Transform, col: int, row: int) -> None:
    """A pixel that is converted to map coordinates and back is the same."""
    found = transform.colrow(*transform.xy(col, row))

    assert found == pytest.approx((col, row), abs=1e-4)


@given(transform=transforms())
def test_to_gdal_and_from_gdal_undo_each_other(transform: Transform) -> None:
    """A round trip keeps every coefficient."""
    c, a, b, f, d, e = transform.to_gdal()

    assert Transform.from_gdal((c, a, b, f, d, e)) == transform
    assert transform.xy(0, 0) == (c, f)


@given(transform=transforms(), window=windows(), col=positions, row=positions)
def test_shifted_counts_from_the_windows_corner(
    transform: Transform, window: Window, col: int, row: int
) -> None:
    """A pixel of the window has the same map coordinates as on the raster."""
    shifted = transform.shifted(window.col_off, window.row_off)

    expected = transform.xy(window.col_off + col, window.row_off + row)
    assert shifted.xy(col, row) == pytest.approx(expected, abs=1e-4)


@given(transform=transforms(), col=positions, row=positions)
def test_scaled_keeps_the_corner_and_enlarges_pixels(transform: Transform, col: int, row: int) -> None:
    """Pixel (col, row) of an overview is pixel (2 col, 4 row) of the image."""
    scaled = transform.scaled(2, 4)

    assert scaled.xy(col, row) == pytest.approx(transform.xy(2 * col, 4 * row), abs=1e-4)


@pytest.mark.parametrize(
    ("transform", "is_usable", "is_rectilinear"),
    [
        (Transform(1, 0, 0, 0, -1, 0), True, True),
        (Transform(1, 0.1, 0, 0.1, -1, 0), True, False),
        (Transform(0, 1, 0, 1, 0, 0), True, False),
        (Transform(0, 0, 0, 0, -1, 0), False, True),
        (Transform(1, 1, 0, 1, 1, 0), False, False),
        (Transform(1, 0, math.inf, 0, -1, 0), False, True),
        (Transform(math.nan, 0, 0, 0, -1, 0), False, True),
    ],
)
def test_transform_tells_whether_it_can_be_used(
    transform: Transform, *, is_usable: bool, is_rectilinear: bool
) -> None:
    """A transform without an inverse cannot be used."""
    assert transform.is_usable == is_usable
    assert transform.is_rectilinear == is_rectilinear


@given(transform=transforms(), window=windows())
def test_aligns_with_allows_a_thousandth_of_a_pixel(transform: Transform, window: Window) -> None:
    """Rounding errors do not make another grid, but a fiftieth of a pixel does."""
    side = math.hypot(transform.a, transform.d)
    near = transform._replace(c=transform.c + 5e-4 * side)
    far = transform._replace(c=transform.c + 0.02 * side)

    assert transform.aligns_with(near, width=window.width, height=window.height)
    assert not transform.aligns_with(far, width=window.width, height=window.height)


def test_aligns_with_adds_up_a_pixel_size_that_differs() -> None:
    """Grids whose pixel sizes differ are aligned at the corner but not a thousand pixels on."""
    one = Transform(10.0, 0, 0, 0, -10.0, 0)
    other = Transform(10.0001, 0, 0, 0, -10.0, 0)

    assert one.aligns_with(other, width=10, height=10)
    assert not one.aligns_with(other, width=1000, height=10)


@given(window=windows(), width=st.integers(1, 40), height=st.integers(1, 40))
def test_clipped_holds_exactly_the_pixels_on_both(window: Window, width: int, height: int) -> None:
    """Clipping is the intersection, or None if it is empty."""
    cols = set(range(window.col_off, window.col_stop)) & set(range(width))
    rows = set(range(window.row_off, window.row_stop)) & set(range(height))

    clipped = window.clipped(width=width, height=height)

    if clipped is None:
        assert not cols or not rows
    else:
        assert set(range(clipped.col_off, clipped.col_stop)) == cols
        assert set(range(clipped.row_off, clipped.row_stop)) == rows


@given(window=windows(), cut=st.integers(1, 39))
def test_rows_cut_a_window_in_two_that_meet(window: Window, cut: int) -> None:
    """Two strips share no line and leave none out."""
    cut = min(cut, window.height)
    above = window.rows(0, cut)
    below = window.rows(cut, window.height) if cut < window.height else None

    assert (above.row_off, above.col_off, above.width) == (window.row_off, window.col_off, window.width)
    assert above.row_stop == (below.row_off if below else window.row_stop)
    assert below is None or below.row_stop == window.row_stop


@pytest.mark.parametrize(
    "make",
    [
        lambda: Window(col_off=0, row_off=0, width=0, height=1),
        lambda: Window(col_off=0, row_off=0, width=1, height=-1),
        lambda: Window(col_off=0, row_off=0, width=2, height=2).rows(1, 1),
    ],
)
def test_window_without_pixels_is_refused(make: Callable[[], Window]) -> None:
    """A window has at least one pixel, so that no later step has to check that."""
    with pytest.raises(ValueError, match="at least one pixel"):
        make()
