"""Packed offsets and byte counts are restored exactly, and invalid ones are refused."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.io.geotiff.offset_codec import (
    OffsetRun,
    PackedIntegers,
    PackedRun,
    packed_run,
    unpacked_run,
)

OBJECT_NBYTES = 1 << 47

tiles = st.tuples(st.integers(1, 1 << 40), st.integers(1, 1 << 32))


def run_of(pairs: list[tuple[int, int]]) -> OffsetRun:
    """Return a run of (offset, byte count)."""
    offsets, counts = np.array(pairs, np.int64).reshape(-1, 2).T
    return OffsetRun(3, offsets.copy(), counts.copy())


def sent(packed: PackedRun) -> PackedRun:
    """Encode and decode it, as in a file."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(packed), type=PackedRun)


@pytest.mark.long
@given(st.lists(st.one_of(tiles, st.just((0, 0))), min_size=1, max_size=40))
def test_runs_come_out_as_they_went_in(pairs: list[tuple[int, int]]) -> None:
    """Tiles may be in any order, with gaps and overlaps, or not stored."""
    run = run_of(pairs)
    packed = packed_run(run)

    assert packed is not None
    again = unpacked_run(sent(packed), object_nbytes=OBJECT_NBYTES)
    assert again.first == 3
    np.testing.assert_array_equal(again.offsets, run.offsets)
    np.testing.assert_array_equal(again.byte_counts, run.byte_counts)


@given(st.integers(1, 500), st.integers(0, 64), st.integers(0, 2**32 - 1))
def test_tiles_in_order_take_the_bytes_of_their_counts(n_tiles: int, gap: int, seed: int) -> None:
    """Offsets of tiles that follow each other take no bytes."""
    counts = np.random.default_rng(seed).integers(1, 60_000, n_tiles)
    offsets = 4000 + np.cumsum(counts + gap) - counts - gap
    packed = packed_run(OffsetRun(0, offsets, counts))

    assert packed is not None
    assert len(msgspec.msgpack.encode(packed)) <= 2 * n_tiles + 30


def test_tiles_that_are_all_alike_take_no_bytes() -> None:
    """All tiles of an uncompressed file have the same size."""
    counts = np.full(60_000, 512)
    packed = packed_run(OffsetRun(0, 8 + np.cumsum(counts) - 512, counts))

    assert packed is not None
    assert len(msgspec.msgpack.encode(packed)) < 40


def test_a_tile_with_an_offset_and_no_bytes_is_not_packed() -> None:
    """Such a tile is neither stored nor absent. It is left to GDAL."""
    assert packed_run(run_of([(5, 10), (7, 0)])) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"offset": OBJECT_NBYTES},
        {"offset": -1},
        {"byte_counts": PackedIntegers(-5, b"")},
        {"byte_counts": PackedIntegers(1, b"\xff" * 6)},
        {"byte_counts": PackedIntegers(1, b"abc")},
        {"gaps": PackedIntegers(-(1 << 50), b"")},
        {"gaps": PackedIntegers(0, b"\xff" * 7)},
        {"gaps": PackedIntegers(0, b"\xff" * 8)},
    ],
)
def test_rubbish_is_told(changes: dict[str, Any]) -> None:
    """Tiles outside the object, or a wrong number of bytes, are refused."""
    packed = packed_run(run_of([(10, 5), (20, 7)]))

    assert packed is not None
    with pytest.raises(ValueError, match=r"outside the object|negative byte count|number of bytes"):
        unpacked_run(msgspec.structs.replace(packed, **changes), object_nbytes=1 << 20)


def test_no_more_tiles_are_made_room_for_than_a_run_may_have() -> None:
    """A few bytes that claim a billion tiles are refused before memory is allocated."""
    packed = packed_run(run_of([(10, 5), (20, 7)]))

    assert packed is not None
    claimed = msgspec.msgpack.encode(msgspec.structs.replace(packed, n_tiles=1 << 30))
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(claimed, type=PackedRun)


@pytest.mark.parametrize(
    "pairs",
    [[(10, 5), (20, 7)], [(20, 7), (10, 5)], [(20, 7), (0, 0), (3, 24)], [(26, 1), (0, 27)], [(0, 27)]],
)
def test_tiles_end_with_the_object(pairs: list[tuple[int, int]]) -> None:
    """The last byte of an object may be a tile's, in whatever order they lie. None is beyond it."""
    packed = packed_run(run_of(pairs))

    assert packed is not None
    assert unpacked_run(packed, object_nbytes=27).offsets.tolist() == [offset for offset, _ in pairs]
    with pytest.raises(ValueError, match="outside the object"):
        unpacked_run(packed, object_nbytes=26)


def test_tiles_before_the_object_are_refused() -> None:
    """They are refused even between tiles that lie inside of the object."""
    packed = packed_run(run_of([(10, 5), (4, 1), (20, 5)]))

    assert packed is not None
    with pytest.raises(ValueError, match="outside the object"):
        unpacked_run(msgspec.structs.replace(packed, offset=5), object_nbytes=100)


@pytest.mark.parametrize("n_bytes", range(1, 9))
def test_integers_take_as_many_bytes_as_their_largest_difference(n_bytes: int) -> None:
    """Seven at most: no object is so large that eight would be needed."""
    largest = (1 << 8 * n_bytes) - 1 if n_bytes < 8 else 1 << 57
    packed = PackedIntegers(5, b"")
    run = PackedRun(0, 2, PackedIntegers(1, largest.to_bytes(n_bytes, "little") * 2), 0, packed)

    if n_bytes == 8:
        with pytest.raises(ValueError, match="number of bytes"):
            unpacked_run(run, object_nbytes=OBJECT_NBYTES)
        return
    pairs = [(0, 1), (6, largest + 1)]
    again = packed_run(run_of(pairs))
    assert again is not None
    assert len(again.byte_counts.content) == 2 * n_bytes
    assert unpacked_run(again, object_nbytes=1 << 62).byte_counts.tolist() == [1, largest + 1]
