"""Chunks and shards of a cube."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pixel_gather.errors import BudgetError
from pixel_gather.plan.layout import (
    FEW_SHARDS,
    LARGE_SHARD_NBYTES,
    MAX_SHARD_ROWS,
    MAX_SHARDS,
    SHARD_NBYTES,
    Layout,
    plan_layout,
)
from pixel_gather.request.request import ExplicitLayout, LayoutName

MIB = 2**20
shapes = st.tuples(
    st.integers(1, 1_000_000) | st.integers(1, 50),
    st.integers(1, 5000) | st.integers(1, 40),
    st.integers(1, 5000) | st.integers(1, 40),
)
explicit = st.builds(
    ExplicitLayout,
    chunk=st.tuples(st.integers(1, 2000), st.integers(1, 600), st.integers(1, 600)),
    shard_rows=st.none() | st.integers(1, 5000),
)
names = st.sampled_from(("balanced", "slice", "series"))
itemsizes = st.sampled_from((1, 2, 4, 8, 16))


def task_nbytes(layout: Layout, itemsize: int, n_measurements: int) -> int:
    """Return the decoded size of one task."""
    return math.prod(layout.shard) * itemsize * n_measurements


@given(
    shape=shapes,
    itemsize=itemsizes,
    n_measurements=st.integers(1, 12),
    wanted=names | explicit,
    max_task_mib=st.sampled_from((1, 64, 512, 4096)),
)
def test_plan_layout_keeps_its_promises(
    shape: tuple[int, int, int],
    itemsize: int,
    n_measurements: int,
    wanted: LayoutName | ExplicitLayout,
    max_task_mib: int,
) -> None:
    """Every accepted layout fits the memory and the map, and Zarr can store it."""
    try:
        layout = plan_layout(
            shape,
            itemsize=itemsize,
            n_measurements=n_measurements,
            wanted=wanted,
            max_task_nbytes=max_task_mib * MIB,
        )
    except BudgetError:
        return

    assert task_nbytes(layout, itemsize, n_measurements) <= max_task_mib * MIB
    assert math.prod(layout.n_shards(shape)) <= MAX_SHARDS
    assert all(shard % chunk == 0 for shard, chunk in zip(layout.shard, layout.chunk, strict=True))
    assert all(
        side < length + chunk for side, length, chunk in zip(layout.shard, shape, layout.chunk, strict=True)
    )
    assert layout.shard[2] >= shape[2]
    assert min(layout.chunk) >= 1
    if isinstance(wanted, ExplicitLayout):
        assert layout.chunk == tuple(map(min, wanted.chunk, shape))


@pytest.mark.slow
@given(shape=shapes, itemsize=itemsizes, n_measurements=st.integers(1, 12), wanted=names)
def test_plan_layout_refuses_nothing_that_fits(
    shape: tuple[int, int, int], itemsize: int, n_measurements: int, wanted: LayoutName
) -> None:
    """Few small rows always have a layout."""
    window_nbytes = shape[1] * shape[2] * itemsize * n_measurements
    max_task_nbytes = 512 * MIB
    if window_nbytes * 2 > max_task_nbytes or shape[0] > MAX_SHARDS:
        return

    plan_layout(
        shape,
        itemsize=itemsize,
        n_measurements=n_measurements,
        wanted=wanted,
        max_task_nbytes=max_task_nbytes,
    )


@given(
    shape=st.tuples(st.integers(1, 2000), st.integers(1, 2000), st.integers(1, 2000)),
    itemsize=itemsizes,
    n_measurements=st.integers(1, 12),
    wanted=names,
    room=st.floats(2, 30),
)
@example(shape=(1612, 94, 1696), itemsize=4, n_measurements=1, wanted="balanced", room=19.18295)
def test_plan_layout_rounds_no_task_over_the_limit(
    shape: tuple[int, int, int], itemsize: int, n_measurements: int, wanted: LayoutName, room: float
) -> None:
    """Rounding to whole chunks never turns a plan that fits into one that is refused."""
    window_nbytes = shape[1] * shape[2] * itemsize * n_measurements
    most = int(window_nbytes * room)

    layout = plan_layout(
        shape, itemsize=itemsize, n_measurements=n_measurements, wanted=wanted, max_task_nbytes=most
    )

    assert task_nbytes(layout, itemsize, n_measurements) <= most


def test_plan_layout_balanced_reads_a_slice_and_a_series_from_few_chunks() -> None:
    """For 1,000 tiles of 512 x 512 uint16, both ways of reading need a few percent of the bytes."""
    layout = plan_layout(
        (1000, 512, 512), itemsize=2, n_measurements=1, wanted="balanced", max_task_nbytes=512 * MIB
    )

    rows, y, x = layout.chunk
    assert (y, x) == (128, 128)
    assert 8 <= rows <= 32
    assert 0.5 * SHARD_NBYTES <= task_nbytes(layout, 2, 1) <= SHARD_NBYTES * 1.3


def test_plan_layout_slice_reads_one_row_alone() -> None:
    """Each chunk holds a single row."""
    layout = plan_layout(
        (1000, 512, 512), itemsize=2, n_measurements=1, wanted="slice", max_task_nbytes=512 * MIB
    )

    assert layout.chunk == (1, 512, 512)


def test_plan_layout_fans_a_single_pixel_out() -> None:
    """A million single pixels are more than one task."""
    layout = plan_layout(
        (1_000_000, 1, 1), itemsize=2, n_measurements=1, wanted="balanced", max_task_nbytes=512 * MIB
    )

    assert layout.shard[0] <= MAX_SHARD_ROWS


def test_plan_layout_makes_shards_larger_where_they_would_be_too_many() -> None:
    """A million tiles are 9,804 tasks of 102, not 15,625 of 64, because each shard costs requests."""
    layout = plan_layout(
        (1_000_000, 512, 512), itemsize=2, n_measurements=1, wanted="balanced", max_task_nbytes=512 * MIB
    )

    assert FEW_SHARDS * 0.9 < layout.n_shards((1_000_000, 512, 512))[0] <= FEW_SHARDS
    assert SHARD_NBYTES < task_nbytes(layout, 2, 1) < 2 * SHARD_NBYTES


@pytest.mark.parametrize("max_task_nbytes", [139 * MIB, 512 * MIB])
def test_plan_layout_cuts_ten_million_tiles_to_what_the_smallest_workers_hold(max_task_nbytes: int) -> None:
    """Above 128 MiB there are more shards, not larger ones. Each child of the map fills several of them."""
    layout = plan_layout(
        (10_000_000, 512, 512),
        itemsize=2,
        n_measurements=1,
        wanted="balanced",
        max_task_nbytes=max_task_nbytes,
    )

    assert LARGE_SHARD_NBYTES * 0.9 < task_nbytes(layout, 2, 1) <= LARGE_SHARD_NBYTES
    assert FEW_SHARDS < layout.n_shards((10_000_000, 512, 512))[0] <= MAX_SHARDS


def test_plan_layout_says_to_make_shards_larger_where_the_request_made_them_too_many() -> None:
    """If the request sets too few rows per shard, the error says so."""
    wanted = ExplicitLayout(chunk=(5, 128, 128), shard_rows=5)

    with pytest.raises(BudgetError, match=r"200,000 tasks of 2 MiB; .*, or for more rows in a shard$"):
        plan_layout(
            (1_000_000, 512, 512), itemsize=2, n_measurements=1, wanted=wanted, max_task_nbytes=512 * MIB
        )


def test_plan_layout_cuts_a_large_window_into_strips() -> None:
    """A scene that is too large for a worker is read in strips along y."""
    layout = plan_layout(
        (3, 10_980, 10_980), itemsize=2, n_measurements=1, wanted="balanced", max_task_nbytes=100 * MIB
    )

    assert layout.shard[0] == 1
    assert layout.n_shards((3, 10_980, 10_980))[1] >= 3


@pytest.mark.parametrize(
    ("shape", "max_task_nbytes"),
    [((10, 100, 2**30), 512 * MIB), ((1_000_000, 16_384, 16_384), 512 * MIB), ((1, 1, 1), 1)],
)
def test_plan_layout_refuses_what_cannot_be_cut(shape: tuple[int, int, int], max_task_nbytes: int) -> None:
    """The error says what the plan would need and what to request instead."""
    with pytest.raises(BudgetError, match="ask for a smaller window"):
        plan_layout(shape, itemsize=2, n_measurements=1, wanted="balanced", max_task_nbytes=max_task_nbytes)
