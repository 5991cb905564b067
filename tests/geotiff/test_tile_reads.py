"""Windows cut into byte ranges."""

from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotiff.small_tiffs import LONG, SHORT, STORED_AT, Tags, handwritten, opened, pixels, tiff
from pixel_gather.core.model.window import Window
from pixel_gather.io.geotiff.tile_reads import TileRead, join_tile_reads, plan_tile_reads
from pixel_gather.io.geotiff.unsupported import UnsupportedError

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
    """Each tile is in one request that holds it, and no request of several tiles is over the limit."""
    tile_reads = [tile_read(start, start + nbytes) for start, nbytes in ranges]

    gets = join_tile_reads(tile_reads, max_gap_nbytes=max_gap_nbytes, max_joined_nbytes=max_joined_nbytes)

    assert sorted(map(_range, (each for get in gets for each in get.tile_reads))) == sorted(
        map(_range, tile_reads)
    )
    for get in gets:
        assert all(get.start <= each.start and each.stop <= get.stop for each in get.tile_reads)
        is_one_tile = len(set(map(_range, get.tile_reads))) == 1
        assert is_one_tile or get.stop - get.start <= max_joined_nbytes


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


@pytest.mark.parametrize("compression", ["zlib", None])
@pytest.mark.parametrize(("most", "is_read"), [(256, True), (255, False)])
def test_a_tile_is_over_the_limit_by_its_decoded_size(
    tmp_path: Path, compression: str | None, most: int, *, is_read: bool
) -> None:
    """However few bytes it takes in the file. Of one that is not compressed, a row is."""
    image = np.zeros((16, 16 if compression else 256), "u1")
    source = opened(tiff(tmp_path / "a.tif", image, tile=(16, image.shape[1]), compression=compression))
    limits = {"max_tile_nbytes": 1 << 20, "max_row_nbytes": 1 << 20}
    limits["max_tile_nbytes" if compression else "max_row_nbytes"] = most
    window = Window(col_off=0, row_off=0, width=16, height=16)

    with nullcontext() if is_read else pytest.raises(UnsupportedError, match="size limit"):
        assert (
            len(plan_tile_reads(source.ifd, source.layout, [window], [1], part_nbytes=1 << 20, **limits)) == 1
        )


@pytest.mark.parametrize(
    ("part_nbytes", "rows"), [(1, 1), (20, 1), (39, 1), (40, 2), (79, 3), (80, 4), (999, 9)]
)
def test_an_uncompressed_strip_is_cut_between_rows(tmp_path: Path, part_nbytes: int, rows: int) -> None:
    """Each part has as many whole rows as it has room for, and at least one."""
    content = tiff(tmp_path / "a.tif", np.zeros((12, 20), "u1"), rowsperstrip=12)
    source = opened(content)
    window = Window(col_off=3, row_off=2, width=4, height=9)

    limits = {"part_nbytes": part_nbytes, "max_tile_nbytes": 1, "max_row_nbytes": 20}
    reads = plan_tile_reads(source.ifd, source.layout, [window], [1], **limits)

    (start,) = source.ifd.array(source.layout.offsets_tag, 0, 1)
    assert reads[0].start == start + 2 * 20
    assert reads[-1].stop == start + 11 * 20
    assert [each.n_rows for each in reads] == [rows] * (9 // rows) + ([9 % rows] if 9 % rows else [])
    assert all(each.stop - each.start == 20 * each.n_rows for each in reads)
    assert all(one.stop == other.start for one, other in pairwise(reads))


def strip(start: int = STORED_AT, nbytes: int = 64) -> Tags:
    """Return the tags of 8 x 8 pixels of a byte in one strip."""
    side = (SHORT, (8,))
    return {256: side, 257: side, 258: side, 273: (LONG, (start,)), 278: side, 279: (LONG, (nbytes,))}


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_an_uncompressed_strip_of_another_size_is_refused(more: int) -> None:
    """A byte too few or too many would move the pixels of what follows."""
    source = opened(handwritten(strip(nbytes=64 + more), stored=bytes(range(64)) + bytes(9)))

    with pytest.raises(UnsupportedError, match="does not fit its shape") if more else nullcontext():
        assert pixels(source)[0].tobytes() == bytes(range(64))


@pytest.mark.parametrize(
    ("start", "nbytes", "reason"),
    [(0, 64, "not both"), (STORED_AT, 0, "not both"), (STORED_AT, 1 << 20, "outside the file")],
)
def test_a_strip_that_cannot_be_is_refused(start: int, nbytes: int, reason: str) -> None:
    """It has a place and a size, inside of the file, or neither."""
    source = opened(handwritten(strip(start, nbytes), stored=bytes(64)))

    with pytest.raises(UnsupportedError, match=reason):
        pixels(source)


def test_a_strip_may_end_with_the_file() -> None:
    """One byte further, it is outside."""
    nbytes = len(handwritten(strip())) + 64
    for start, is_read in ((nbytes - 64, True), (nbytes - 63, False)):
        source = opened(handwritten(strip(start)) + bytes(range(64)))
        with nullcontext() if is_read else pytest.raises(UnsupportedError, match="outside the file"):
            assert pixels(source)[0].tobytes() == bytes(range(64))
