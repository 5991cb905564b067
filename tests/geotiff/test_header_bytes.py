"""The parts of a header that have been fetched."""

import pytest

from pixel_gather.io.geotiff.header_bytes import HeaderBytes, NeedBytes
from pixel_gather.io.geotiff.unsupported import TiffError

CONTENT = bytes(range(100))


def parts(*spans: tuple[int, int]) -> HeaderBytes:
    """Return a header of 100 bytes of which these spans [start, stop) have been fetched."""
    header_bytes = HeaderBytes(100)
    for start, stop in spans:
        header_bytes.add(start, memoryview(CONTENT)[start:stop])
    return header_bytes


def test_views_are_the_bytes_of_one_part() -> None:
    """From the first byte of a part to its last."""
    header_bytes = parts((0, 10), (40, 60))

    for start, stop in [(0, 10), (3, 4), (40, 60), (59, 60), (41, 41)]:
        assert bytes(header_bytes.view(start, stop)) == CONTENT[start:stop]
    assert header_bytes.spans() == [(0, 10), (40, 60)]
    assert header_bytes.n_parts == 2


@pytest.mark.parametrize(
    ("start", "stop"), [(0, 11), (9, 11), (39, 41), (40, 61), (10, 40), (60, 61), (99, 100)]
)
def test_bytes_that_no_part_holds_are_needed(start: int, stop: int) -> None:
    """The error has their place. Two parts are not joined."""
    with pytest.raises(NeedBytes, match=f"bytes {start} to {stop}") as need:
        parts((0, 10), (40, 60)).view(start, stop)

    assert (need.value.start, need.value.stop) == (start, stop)


@pytest.mark.parametrize(("start", "stop"), [(-1, 5), (5, 4), (99, 101), (101, 101)])
def test_bytes_outside_of_the_object_are_an_error(start: int, stop: int) -> None:
    """They are never asked for."""
    with pytest.raises(TiffError, match="outside the file"):
        parts((0, 100)).view(start, stop)


def test_the_last_byte_that_was_wanted_is_known() -> None:
    """It is known even if it was not there."""
    header_bytes = parts((0, 10))
    header_bytes.view(2, 7)
    header_bytes.view(1, 3)
    assert header_bytes.seen_stop == 7

    with pytest.raises(NeedBytes):
        header_bytes.view(5, 30)
    assert header_bytes.seen_stop == 30
    assert header_bytes.viewed is None


def test_parts_are_bounded_and_the_first_is_kept() -> None:
    """32 parts are kept. Of more, the oldest but the first is dropped."""
    header_bytes = parts(*((n, n + 1) for n in range(32)))
    assert [bytes(header_bytes.view(n, n + 1)) for n in (0, 1, 31)] == [b"\0", b"\1", b"\x1f"]

    header_bytes.add(50, memoryview(CONTENT)[50:60])

    assert header_bytes.n_parts == 32
    assert bytes(header_bytes.view(0, 1)) == b"\0"
    assert bytes(header_bytes.view(2, 3)) == b"\2"
    assert header_bytes.view(50, 60)
    with pytest.raises(NeedBytes):
        header_bytes.view(1, 2)
