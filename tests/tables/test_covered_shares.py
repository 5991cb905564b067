"""Shares of cells that polygons cover, by GEOS."""

from typing import Any, Final

import numpy as np
import pytest
import shapely
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from shapely.geometry.base import BaseGeometry

from pixel_gather.tables.covered_shares import covered_shares

EPS: Final = float(np.finfo(float).eps)

NOISE: Final = st.integers(-2, 2)
"""By how many last digits a coordinate differs."""

SIDE: Final = st.floats(-20, 30, allow_subnormal=False)


def _shares(shape: BaseGeometry, n: int = 10) -> np.ndarray[Any, Any]:
    """Return which share of each cell of a grid from 0 to n a shape covers."""
    return covered_shares(shape, wkb=shape.wkb, box=(0, 0, n, n), width=n, height=n)


@settings(max_examples=50)
@given(
    low=st.tuples(SIDE, SIDE),
    lengths=st.tuples(st.floats(0.1, 50), st.floats(0.1, 50)),
    noise=st.lists(NOISE, min_size=8, max_size=8),
)
@example(low=(0.75, 0.68), lengths=(22.35, 36.42), noise=[0, 0, 0, 0, 0, 0, 0, 1])
def test_a_rectangle_that_was_warped_covers_its_area(
    low: tuple[float, float], lengths: tuple[float, float], noise: list[int]
) -> None:
    """Edges that are level but for the last digit, also beyond the grid, as those of boxes in another CRS.

    GEOS writes to memory that is not its own if it gets them as they are. That ends the process.
    """
    (west, south), (wide, high) = low, lengths
    east, north = west + wide, south + high
    corners = np.array([[west, south], [east, south], [east, north], [west, north]])
    corners += np.spacing(np.maximum(np.abs(corners), 1)) * np.reshape(noise, (4, 2))
    shape = shapely.Polygon(corners)

    wanted = shapely.intersection(shape, shapely.box(0, 0, 10, 10)).area
    assert _shares(shape).sum(dtype=float) == pytest.approx(wanted, abs=1e-3)


def test_cells_outside_are_not_left_over() -> None:
    """GEOS leaves cells that a polygon does not touch as they were."""
    far = _shares(shapely.box(50, 50, 60, 60))
    near = _shares(shapely.box(0.5, 0, 1, 1))

    assert not far.any()
    assert near.sum() == near[9, 0] == 0.5


@pytest.mark.parametrize(
    "shape",
    [
        shapely.Polygon([(5, 6), (4, 4), (0, 4), (7 / 3, 26 / 3)]),
        shapely.union_all([shapely.Polygon([(2, 4), (10 / 3, 16 / 3), (2, 5), (5, 9), (9, 1), (3.4, 2.6)])]),
    ],
)
def test_no_cell_is_lost_where_corners_lie_on_edges_of_cells(shape: BaseGeometry) -> None:
    """GEOS takes a whole cell for none, or the reverse."""
    cells = shapely.box(*np.broadcast_arrays(*_corners(10)))

    np.testing.assert_allclose(_shares(shape), shapely.area(shapely.intersection(cells, shape)), atol=1e-6)


def _corners(n: int) -> tuple[np.ndarray[Any, Any], ...]:
    """Return west, south, east and north of each cell of a grid from 0 to n."""
    across, down = np.arange(n), np.arange(n)[::-1, None]
    return across, down, across + 1, down + 1


@pytest.mark.parametrize(
    "shape",
    [
        shapely.Polygon([(5.000000000000003, 13), (-3.000000000000001, 12.999999999999995), (EPS, EPS)]),
        shapely.Polygon([(13, 2.5 - 4e-16), (10 + 2e-15, -3), (5 - 9e-16, 2.2e-16), (13, 10), (10, 2.5)]),
        shapely.Polygon([(8, 8), (8, 8), (8, 8), (5, 4), (6, 3), (8, 2), (14, 3)]),
        shapely.Polygon([(4.2, 9.2), (9, 9.2 + 2e-15), (9 + 2e-15, 2), (4.2 + 3e-15, 2 + 1e-15)]),
        shapely.Polygon([(2, 2), (8, 2), (8, 8), (8, 8 - 1e-16), (5, 8), (5 - 1e-16, 8 + 2e-15), (2, 8)]),
    ],
)
def test_corners_beside_those_of_cells_do_not_end_the_process(shape: BaseGeometry) -> None:
    """If GEOS got them or repeated points as they are, it would write to memory that is not its own."""
    wanted = shapely.intersection(shape.buffer(0), shapely.box(0, 0, 10, 10)).area
    assert _shares(shape).sum(dtype=float) == pytest.approx(wanted, abs=1e-4)


@settings(max_examples=100, suppress_health_check=[HealthCheck.filter_too_much])
@example(corners=[(0, 2), (0, 0), (1, 3), (0, 0), (2, 5)], noise=-17, seed=0)
@example(corners=[(5, 6), (4, 4), (0, 4), (3, 9)], noise=-17, seed=0)
@given(
    corners=st.lists(st.tuples(st.integers(-3, 13), st.integers(-3, 13)), min_size=3, max_size=8),
    noise=st.integers(-18, -7),
    seed=st.integers(0, 1000),
)
def test_a_polygon_on_the_corners_of_cells_covers_its_area(
    corners: list[tuple[int, int]], noise: int, seed: int
) -> None:
    """Whether its corners lie there exactly, or were warped there."""
    exact = shapely.Polygon(corners).buffer(0)
    turns = np.random.default_rng(seed).uniform(10, 100, (2, 2))  # the same place has the same noise
    shape = shapely.transform(exact, lambda places: places + 10.0**noise * np.sin(places @ turns + seed))
    assume(shape.is_valid and not shape.is_empty)

    wanted = shapely.intersection(exact, shapely.box(0, 0, 10, 10)).area
    assert _shares(shape).sum(dtype=float) == pytest.approx(wanted, abs=1e-4)
