"""Windows cut into byte ranges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.adapters.geotiff.tile_reads import TileRead, join_tile_reads

ALL = slice(0, 1)


def tile_read(start: int, stop: int) -> TileRead:
    """Return a tile read in which only the range matters."""
    return TileRead(start, stop, 1, 0, ALL, ALL, ALL, ALL)


def _range(each: TileRead) -> tuple[int, int]:
    return each.start, each.stop


RANGES = st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 400)), min_size=1, max_size=40)


@given(RANGES, st.integers(0, 600), st.integers(1, 2000))
def test_join_tile_reads_fetches_every_tile_once(
    ranges: list[tuple[int, int]], max_gap_nbytes: int, max_joined_nbytes: int
) -> None:
    """Each tile is in one request that holds it, and no joined request is over the limit."""
    tile_reads = [tile_read(start, start + nbytes) for start, nbytes in ranges]

    gets = join_tile_reads(tile_reads, max_gap_nbytes=max_gap_nbytes, max_joined_nbytes=max_joined_nbytes)

    assert sorted(map(_range, (each for get in gets for each in get.tile_reads))) == sorted(
        map(_range, tile_reads)
    )
    for get in gets:
        assert all(get.start <= each.start and each.stop <= get.stop for each in get.tile_reads)
        assert len(get.tile_reads) == 1 or get.stop - get.start <= max_joined_nbytes


def test_join_tile_reads_joins_neighbours_and_leaves_others_apart() -> None:
    """Two tiles with a small gap are one request; one far away is another."""
    gets = join_tile_reads(
        [tile_read(900, 950), tile_read(0, 100), tile_read(104, 200)],
        max_gap_nbytes=8,
        max_joined_nbytes=1000,
    )

    assert [(get.start, get.stop) for get in gets] == [(0, 200), (900, 950)]


@pytest.mark.parametrize(
    ("gap", "longest", "n_gets"), [(10, 210, 1), (9, 210, 2), (10, 209, 2), (0, 210, 2), (10, 1, 2)]
)
def test_join_tile_reads_joins_up_to_both_limits(gap: int, longest: int, n_gets: int) -> None:
    """A gap of just that size is read over, and a request may be just that long."""
    gets = join_tile_reads(
        [tile_read(500, 600), tile_read(610, 710)], max_gap_nbytes=gap, max_joined_nbytes=longest
    )

    assert len(gets) == n_gets


def test_join_tile_reads_of_tiles_inside_of_others() -> None:
    """A request ends with the last byte of all its tiles, whichever has it."""
    tiles = [tile_read(100, 400), tile_read(150, 200), tile_read(420, 430), tile_read(800, 810)]

    gets = join_tile_reads(tiles, max_gap_nbytes=20, max_joined_nbytes=330)

    assert [(get.start, get.stop, len(get.tile_reads)) for get in gets] == [(100, 430, 3), (800, 810, 1)]
