"""Chunks and shards of a cube."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pixel_gather.core.errors import BudgetError, RequestError
from pixel_gather.core.plan.choose_layout import (
    FEW_SHARDS,
    LARGE_SHARD_NBYTES,
    MAX_SHARD_ROWS,
    MAX_SHARDS,
    SHARD_NBYTES,
    Layout,
    plan_layout,
    tile_layout,
)
from pixel_gather.core.request.output import ExplicitLayout, LayoutName

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


def layout_of(
    shape: tuple[int, int, int],
    wanted: LayoutName | ExplicitLayout = "balanced",
    *,
    pixel: tuple[int, int] = (2, 1),
    max_task_nbytes: int = 512 * MIB,
    is_sharded: bool = True,
) -> Layout:
    """Return the layout of one uint16 measurement for workers of 512 MiB, or of other pixels and workers.

    A pixel is the bytes of a value, and the number of measurements.
    """
    return plan_layout(
        shape,
        itemsize=pixel[0],
        n_measurements=pixel[1],
        wanted=wanted,
        max_task_nbytes=max_task_nbytes,
        is_sharded=is_sharded,
    )


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
        layout = layout_of(
            shape, wanted, pixel=(itemsize, n_measurements), max_task_nbytes=max_task_mib * MIB
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

    layout_of(shape, wanted, pixel=(itemsize, n_measurements), max_task_nbytes=max_task_nbytes)


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

    layout = layout_of(shape, wanted, pixel=(itemsize, n_measurements), max_task_nbytes=most)

    assert task_nbytes(layout, itemsize, n_measurements) <= most


def test_plan_layout_balanced_reads_a_slice_and_a_series_from_few_chunks() -> None:
    """For 1,000 tiles of 512 x 512 uint16, both ways of reading need a few percent of the bytes."""
    layout = layout_of((1000, 512, 512), "balanced")

    rows, y, x = layout.chunk
    assert (y, x) == (128, 128)
    assert 8 <= rows <= 32
    assert 0.5 * SHARD_NBYTES <= task_nbytes(layout, 2, 1) <= SHARD_NBYTES * 1.3


def test_plan_layout_slice_reads_one_row_alone() -> None:
    """Each chunk holds a single row."""
    layout = layout_of((1000, 512, 512), "slice")

    assert layout.chunk == (1, 512, 512)


def test_plan_layout_fans_a_single_pixel_out() -> None:
    """A million single pixels are more than one task."""
    layout = layout_of((1_000_000, 1, 1), "balanced")

    assert layout.shard[0] <= MAX_SHARD_ROWS


def test_plan_layout_makes_shards_larger_where_they_would_be_too_many() -> None:
    """A million tiles are 9,804 tasks of 102, not 15,625 of 64, because each shard costs requests."""
    layout = layout_of((1_000_000, 512, 512), "balanced")

    assert FEW_SHARDS * 0.9 < layout.n_shards((1_000_000, 512, 512))[0] <= FEW_SHARDS
    assert SHARD_NBYTES < task_nbytes(layout, 2, 1) < 2 * SHARD_NBYTES


@pytest.mark.parametrize("max_task_nbytes", [139 * MIB, 512 * MIB])
def test_plan_layout_cuts_ten_million_tiles_to_what_the_smallest_workers_hold(max_task_nbytes: int) -> None:
    """Above 128 MiB there are more shards, not larger ones. Each child of the map fills several of them."""
    layout = layout_of((10_000_000, 512, 512), max_task_nbytes=max_task_nbytes)

    assert LARGE_SHARD_NBYTES * 0.9 < task_nbytes(layout, 2, 1) <= LARGE_SHARD_NBYTES
    assert FEW_SHARDS < layout.n_shards((10_000_000, 512, 512))[0] <= MAX_SHARDS


def test_plan_layout_makes_shards_large_before_it_refuses_a_cube_of_many_large_rows() -> None:
    """Workers hold ten rows of 20 MiB. Shards of 128 MiB would be more than a gather may have."""
    shape = (MAX_SHARDS * 10, 2048, 5120)

    layout = layout_of(shape, "slice")

    assert layout.shard[0] == 10
    assert layout.n_shards(shape) == (MAX_SHARDS, 1)


def test_plan_layout_says_to_make_shards_larger_where_the_request_made_them_too_many() -> None:
    """If the request sets too few rows per shard, the error says so."""
    wanted = ExplicitLayout(chunk=(5, 128, 128), shard_rows=5)

    with pytest.raises(BudgetError, match=r"200,000 tasks of 2 MiB\. .*, or for more rows in a shard$"):
        layout_of((1_000_000, 512, 512), wanted)


def test_plan_layout_cuts_a_large_window_into_strips() -> None:
    """A scene that is too large for a worker is read in strips along y."""
    layout = layout_of((3, 10_980, 10_980), max_task_nbytes=100 * MIB)

    assert layout.shard[0] == 1
    assert layout.n_shards((3, 10_980, 10_980))[1] >= 3


@pytest.mark.parametrize(
    ("shape", "max_task_nbytes"),
    [((10, 100, 2**30), 512 * MIB), ((1_000_000, 16_384, 16_384), 512 * MIB), ((1, 1, 1), 1)],
)
def test_plan_layout_refuses_what_cannot_be_cut(shape: tuple[int, int, int], max_task_nbytes: int) -> None:
    """The error says what the plan would need and what to request instead."""
    with pytest.raises(BudgetError, match="Ask for a smaller window"):
        layout_of(shape, max_task_nbytes=max_task_nbytes)


ANY = 512 * MIB


@pytest.mark.parametrize(
    ("shape", "pixel", "wanted", "max_task_mib", "expected"),
    [
        ((1000, 512, 512), (2, 1), "balanced", 512, Layout(chunk=(16, 128, 128), shard=(64, 512, 512))),
        ((1000, 512, 512), (2, 1), "slice", 512, Layout(chunk=(1, 512, 512), shard=(63, 512, 512))),
        ((1000, 512, 512), (2, 1), "series", 512, Layout(chunk=(63, 64, 64), shard=(63, 512, 512))),
        ((5000, 64, 64), (2, 1), "series", 512, Layout(chunk=(1000, 64, 64), shard=(1000, 64, 64))),
        ((1000, 300, 500), (1, 4), "balanced", 512, Layout(chunk=(29, 150, 125), shard=(203, 300, 500))),
        ((7, 40, 50), (4, 2), "balanced", 512, Layout(chunk=(7, 40, 50), shard=(7, 40, 50))),
        ((50, 512, 512), (2, 1), "balanced", 3, Layout(chunk=(6, 128, 128), shard=(6, 512, 512))),
        ((40, 128, 128), (4, 5), "balanced", 5, Layout(chunk=(7, 128, 128), shard=(14, 128, 128))),
        ((3, 10_980, 10_980), (2, 1), "balanced", 100, Layout(chunk=(1, 128, 128), shard=(1, 4736, 11_008))),
        ((3, 10_980, 10_980), (2, 3), "slice", 100, Layout(chunk=(1, 523, 523), shard=(1, 1569, 10_983))),
        ((1_000_000, 1, 1), (2, 1), "balanced", 512, Layout(chunk=(1024, 1, 1), shard=(1024, 1, 1))),
        ((1_000_000, 512, 512), (2, 1), "balanced", 512, Layout(chunk=(17, 128, 128), shard=(102, 512, 512))),
        (
            (10_000_000, 512, 512),
            (2, 1),
            "balanced",
            139,
            Layout(chunk=(16, 128, 128), shard=(256, 512, 512)),
        ),
        ((100_000, 2000, 3000), (8, 1), "series", 64, Layout(chunk=(1, 65, 64), shard=(1, 2015, 3008))),
    ],
)
def test_plan_layout_of_usual_cubes(
    *,
    shape: tuple[int, int, int],
    pixel: tuple[int, int],
    wanted: LayoutName,
    max_task_mib: int,
    expected: Layout,
) -> None:
    """An append keeps the layout of its cube, and an archive that of its first one. So they do not change."""
    assert expected == layout_of(shape, wanted, pixel=pixel, max_task_nbytes=max_task_mib * MIB)


@pytest.mark.parametrize(
    ("shape", "pixel", "wanted", "max_task_mib", "chunk"),
    [
        ((5000, 512, 512), (2, 1), "balanced", 512, (8, 512, 512)),
        ((5000, 512, 512), (2, 1), "slice", 512, (1, 512, 512)),
        ((5000, 512, 512), (2, 1), "series", 512, (64, 512, 512)),
        ((5000, 1, 1), (2, 1), "balanced", 512, (1000, 1, 1)),
        ((3, 10_980, 10_980), (2, 1), "balanced", 512, (1, 1373, 10_980)),
        ((3, 10_980, 10_980), (2, 10), "slice", 100, (1, 458, 10_980)),
        ((100_000, 512, 512), (2, 1), "balanced", 512, (10, 512, 512)),
        ((100, 512, 512), (2, 1), ExplicitLayout(chunk=(5, 128, 600)), 512, (5, 128, 512)),
    ],
)
def test_plan_layout_without_shards_has_one_chunk_in_an_object(
    *,
    shape: tuple[int, int, int],
    pixel: tuple[int, int],
    wanted: LayoutName | ExplicitLayout,
    max_task_mib: int,
    chunk: tuple[int, int, int],
) -> None:
    """It is as wide as the window. Some rows are together, for there are fewer objects then."""
    layout = layout_of(shape, wanted, pixel=pixel, max_task_nbytes=max_task_mib * MIB, is_sharded=False)

    assert layout == Layout(chunk=chunk, shard=chunk, is_sharded=False)


def test_plan_layout_without_shards_refuses_chunks_that_are_narrower_than_the_window() -> None:
    """The error has the chunk to ask for."""
    with pytest.raises(RequestError, match=r"output\.layout\.chunk: .* ask for chunks of 5, 128, 512"):
        layout_of((100, 512, 512), ExplicitLayout(chunk=(5, 128, 128)), is_sharded=False)


@pytest.mark.parametrize(
    ("chunk", "shard_rows", "max_task_nbytes", "expected"),
    [
        ((5, 128, 128), None, ANY, ((5, 128, 128), (50, 512, 512))),
        ((5, 128, 128), 12, ANY, ((5, 128, 128), (15, 512, 512))),
        ((5, 128, 128), 1000, ANY, ((5, 128, 128), (100, 512, 512))),
        ((500, 700, 100), None, ANY, ((100, 512, 100), (100, 512, 600))),
        ((8, 100, 512), None, 13 * MIB, ((8, 100, 512), (16, 600, 512))),
        ((8, 100, 512), None, 2 * MIB, ((8, 100, 512), (8, 200, 512))),
        ((8, 100, 512), 16, 2 * MIB, ((8, 100, 512), (16, 100, 512))),
    ],
)
def test_plan_layout_keeps_to_the_chunks_of_a_request(
    chunk: tuple[int, int, int],
    shard_rows: int | None,
    max_task_nbytes: int,
    expected: tuple[tuple[int, int, int], tuple[int, int, int]],
) -> None:
    """Shards have whole chunks, as many rows as the request wants, and fit the workers."""
    layout = layout_of(
        (100, 512, 512), ExplicitLayout(chunk=chunk, shard_rows=shard_rows), max_task_nbytes=max_task_nbytes
    )

    assert (layout.chunk, layout.shard) == expected


@pytest.mark.parametrize(
    ("shape", "tile", "pixel", "max_task_mib", "shard"),
    [
        ((1278, 512, 512), (512, 512), (2, 1), 512, (64, 512, 512)),
        ((1278, 700, 300), (256, 512), (2, 3), 512, (42, 768, 512)),
        ((10, 4000, 4000), (256, 256), (4, 2), 16, (1, 512, 4096)),
        ((2_000_000, 512, 512), (512, 512), (2, 1), 512, (200, 512, 512)),
    ],
)
def test_tile_layout_has_a_chunk_for_each_tile(
    *,
    shape: tuple[int, int, int],
    tile: tuple[int, int],
    pixel: tuple[int, int],
    max_task_mib: int,
    shard: tuple[int, int, int],
) -> None:
    """Shards have whole tiles, also where the window ends within one."""
    itemsize, n_measurements = pixel

    layout = tile_layout(
        shape,
        tile=tile,
        itemsize=itemsize,
        n_measurements=n_measurements,
        max_task_nbytes=max_task_mib * MIB,
    )

    assert layout == Layout(chunk=(1, *tile), shard=shard)


def test_plan_layout_names_sizes_in_an_error() -> None:
    """Of the cube, of its tasks, and of what may be. A named layout gives no advice on shards."""
    with pytest.raises(
        BudgetError,
        match=r"^a cube of 10 x 100 x 1,073,741,824 pixels would take 10 tasks of 204,800 MiB\. A gather has "
        r"at most 110,000 tasks of 512 MiB\. Ask for a smaller window, fewer bands or sources$",
    ):
        layout_of((10, 100, 2**30), "slice")
    with pytest.raises(BudgetError, match=r"16 tasks of 2 MiB\. .* or for smaller chunks and shards$"):
        layout_of((10, 900, 512), ExplicitLayout(chunk=(3, 256, 256)), pixel=(2, 2), max_task_nbytes=MIB)


def test_plan_layout_accepts_a_task_that_just_fits() -> None:
    """And refuses it in one byte less."""
    wanted = ExplicitLayout(chunk=(2, 8, 8), shard_rows=4)
    nbytes = 4 * 8 * 8 * 2

    layout = layout_of((4, 8, 8), wanted, max_task_nbytes=nbytes)

    assert layout.shard == (4, 8, 8)
    with pytest.raises(BudgetError):
        layout_of((4, 8, 8), wanted, max_task_nbytes=nbytes - 1)


def test_plan_layout_accepts_as_many_shards_as_a_gather_may_have() -> None:
    """And refuses one more."""
    wanted = ExplicitLayout(chunk=(1, 1, 1), shard_rows=1)

    def n_shards(n_rows: int) -> int:
        shape = (n_rows, 1, 1)
        layout = layout_of(shape, wanted, pixel=(1, 1), max_task_nbytes=MIB)
        return math.prod(layout.n_shards(shape))

    assert n_shards(MAX_SHARDS) == MAX_SHARDS
    with pytest.raises(BudgetError, match="more rows in a shard"):
        n_shards(MAX_SHARDS + 1)
