"""The grid of bins that have rows, and the rows of each bin."""

from typing import Any

import numpy as np
import pytest

from pixel_gather.core.errors import RequestError
from pixel_gather.core.results.presence import _in_order, cross_axes, make_axis
from pixel_gather.core.results.row_coordinates import NO_TIME
from pixel_gather.core.results.rows_where import NumberedTexts

DAY_US = 86_400_000_000


def all_of(n: int) -> Any:
    """Every row counts."""
    return np.ones(n, dtype=bool)


def test_days_have_no_gaps_and_rows_keep_their_order() -> None:
    """Two rows may share a day. A row without time is left out."""
    time = np.array([3 * DAY_US, 5, NO_TIME, 3 * DAY_US + 7, DAY_US])

    found = cross_axes([make_axis("day", time)], counts=all_of(5))

    assert found.labels[0].astype(str).tolist() == ["1970-01-01", "1970-01-02", "1970-01-03", "1970-01-04"]
    assert found.grid.tolist() == [1, 1, 0, 1]
    assert found.present.tolist() == [0, 1, 3]
    assert [found.rows(day).tolist() for day in range(4)] == [[1], [4], [], [0, 3]]
    assert found.n_left_out == 1


def test_months_and_days_before_1970_are_rounded_down() -> None:
    """The last microsecond of a month is in that month."""
    time = np.array([-1, 0, 31 * DAY_US])

    months = cross_axes([make_axis("month", time)], counts=all_of(3))

    assert months.labels[0].astype(str).tolist() == ["1969-12", "1970-01", "1970-02"]
    assert [months.rows(month).tolist() for month in range(3)] == [[0], [1], [2]]


def test_two_axes_make_a_grid_of_all_combinations() -> None:
    """Rows that do not count, and rows with a missing value, are in no bin."""
    time = np.array([0, 0, DAY_US, DAY_US])
    tile = np.array(["b", "a", "", "a"], dtype=object)

    found = cross_axes(
        [make_axis("day", time), make_axis("tile", tile)], counts=np.array([True, True, True, False])
    )

    assert found.names == ("day", "tile")
    assert found.grid.tolist() == [[1, 1], [0, 0]]
    assert found.rows(0, 1).tolist() == [0]
    assert found.n_left_out == 2


def test_rows_are_in_their_own_bins_of_a_large_sparse_grid() -> None:
    """Each row is in one bin."""
    rng = np.random.default_rng(4)
    one, other = rng.integers(0, 150, 3000), rng.integers(0, 90, 3000).astype("float64")
    other[::50] = np.nan

    found = cross_axes([make_axis("one", one), make_axis("other", other)], counts=all_of(3000))

    grid = found.grid
    seen = []
    for place in np.ndindex(*found.shape):
        assert bool(len(found.rows(*place))) == bool(grid[place])
        for row in found.rows(*place):
            assert found.labels[0][place[0]] == one[row]
            assert found.labels[1][place[1]] == other[row]
            seen.append(row)
    assert sorted(seen) == np.flatnonzero(~np.isnan(other)).tolist()


def test_no_rows_make_an_empty_grid() -> None:
    """A cube whose sources all failed has no bin."""
    found = cross_axes([make_axis("day", np.array([NO_TIME]))], counts=all_of(1))

    assert found.shape == (0,)
    assert found.grid.tolist() == []
    assert found.n_left_out == 1


def test_axes_that_make_no_bins_or_too_many_are_refused() -> None:
    """A grid of a billion bins would not fit into memory."""
    many = make_axis("many", np.arange(40_000))

    with pytest.raises(RequestError, match="by: it makes 1,600,000,000 bins"):
        cross_axes([many, many], counts=all_of(40_000))
    with pytest.raises(RequestError, match="status has several values for each row"):
        make_axis("status", np.zeros((3, 2)))


def test_numbered_texts_make_the_bins_of_their_texts() -> None:
    """A text that no row has, and the empty text, have none."""
    values = NumberedTexts(
        texts=np.array(["c", "", "none", "a"], dtype=object), numbers=np.array([3, 0, 1, 3], dtype="uint32")
    )

    found = make_axis("tile", values)

    assert found.labels.tolist() == ["a", "c"]
    assert found.bins.tolist() == [0, 1, -1, 0]


@pytest.mark.parametrize("n_bins", [1 << 16, (1 << 16) + 1, 1 << 30])
def test_rows_of_a_bin_stay_in_order(n_bins: int) -> None:
    """Few and many bins are sorted in other ways."""
    rng = np.random.default_rng(n_bins)
    near = [7, 8, 1 << 16, (1 << 16) + 7, 1 << 17, 1 << 29]  # some differ in one bit of the upper half alone
    few = [each for each in near if each < n_bins]
    index = rng.choice([*few, *rng.integers(0, n_bins, 50)], 1000)

    assert _in_order(index, n_bins).tolist() == np.argsort(index, kind="stable").tolist()
