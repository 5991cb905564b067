"""The directory parser checks every size against the object."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotiff.small_tiffs import ASCII, BYTE, DOUBLE, LONG, LONG8, SHORT, Tags, handwritten, tiff
from pixel_gather.io.geotiff.header_bytes import HeaderBytes, NeedBytes
from pixel_gather.io.geotiff.ifd import Ifd, Tag, following_ifds, parse_format, parse_ifd
from pixel_gather.io.geotiff.layout import parse_layout
from pixel_gather.io.geotiff.unsupported import TiffError, UnsupportedError


def first_ifd(content: bytes, *, fetched: int | None = None) -> Ifd:
    """Parse the first directory of a file. Only some of its bytes have been fetched."""
    header_bytes = HeaderBytes(len(content))
    header_bytes.add(0, memoryview(content)[:fetched])
    form = parse_format(header_bytes)
    return parse_ifd(header_bytes, form, form.first_ifd)


def handmade(entries: list[tuple[int, int, int, int]], *, next_offset: int = 0, claimed: int = -1) -> bytes:
    """Write a classic little-endian TIFF of one directory at byte 8."""
    n_entries = len(entries) if claimed < 0 else claimed
    packed = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return struct.pack("<2sHIH", b"II", 42, 8, n_entries) + packed + struct.pack("<I", next_offset)


SQUARE = [(256, 3, 1, 16), (257, 3, 1, 16), (258, 3, 1, 8)]


@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize("bigtiff", [False, True])
def test_parse_ifd_reads_classic_and_big_tiffs_in_both_byte_orders(
    tmp_path: Path, byteorder: str, *, bigtiff: bool
) -> None:
    """The result does not depend on format or byte order."""
    image = np.zeros((40, 30), "u2")
    content = tiff(tmp_path / "a.tif", image, byteorder=byteorder, bigtiff=bigtiff, rowsperstrip=8)

    layout = parse_layout(first_ifd(content))

    assert (layout.width, layout.height, layout.dtype) == (30, 40, np.dtype("u2"))
    assert (layout.tile_height, layout.is_tiled) == (8, False)


def test_parse_ifd_says_which_bytes_it_still_needs() -> None:
    """The error names the missing range, which lies inside the object."""
    content = handmade(SQUARE)

    with pytest.raises(NeedBytes) as need:
        first_ifd(content, fetched=20)

    assert (need.value.start, need.value.stop) == (10, len(content))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"PK\x03\x04" + bytes(60), id="a zip file"),
        pytest.param(b"\x00\x00\x00\x0cjP  \r\n\x87\n" + bytes(60), id="JPEG 2000"),
        pytest.param(b"II+\0\x10\0\0\0" + bytes(60), id="BigTIFF with 16-byte offsets"),
        pytest.param(handmade([]), id="no entries"),
        pytest.param(handmade(SQUARE, claimed=60000), id="more entries than the file has bytes"),
        pytest.param(handmade([SQUARE[1], SQUARE[0]]), id="tags out of order"),
        pytest.param(handmade([SQUARE[0], SQUARE[0]]), id="a tag twice"),
        pytest.param(b"II*\0\xff\xff\xff\x7f" + bytes(60), id="first directory beyond the end"),
    ],
)
def test_parse_ifd_refuses_what_is_broken(content: bytes) -> None:
    """A broken directory raises TiffError."""
    with pytest.raises(TiffError):
        first_ifd(content)


def test_array_refuses_a_count_that_the_file_cannot_hold() -> None:
    """Four billion strips in a file of 50 bytes are refused."""
    ifd = first_ifd(handmade([(273, 4, 0xFFFFFFFF, 8)]))

    with pytest.raises(TiffError):
        ifd.array(Tag.STRIP_OFFSETS, 0, 0xFFFFFFFF)


@pytest.mark.parametrize("next_offset", [8, 4_000_000])
def test_following_ifds_ends_when_the_chain_does_not(next_offset: int) -> None:
    """A circular chain, or one that leaves the file, is an error and no endless loop."""
    ifd = first_ifd(handmade(SQUARE, next_offset=next_offset))

    with pytest.raises(TiffError):
        list(following_ifds(ifd))


BASE = handmade(
    [
        *SQUARE,
        (259, 3, 1, 1),
        (262, 3, 1, 1),
        (273, 4, 4, 8),
        (277, 3, 1, 1),
        (278, 3, 1, 4),
        (279, 4, 4, 8),
        (33550, 12, 3, 8),
        (34735, 3, 8, 20),
        (42113, 2, 5, 30),
    ]
)


@given(
    st.lists(st.tuples(st.integers(0, len(BASE) - 1), st.integers(0, 255)), max_size=8), st.integers(8, 200)
)
def test_a_changed_header_is_parsed_or_refused(changes: list[tuple[int, int]], fetched: int) -> None:
    """Any bytes give a layout, an UnsupportedError or a range inside the object."""
    content = bytearray(BASE)
    for at, value in changes:
        content[at] = value

    need = NeedBytes(0, 1)
    try:
        ifd = first_ifd(bytes(content), fetched=fetched)
        parse_layout(ifd)
        list(following_ifds(ifd))
    except NeedBytes as error:
        need = error
    except UnsupportedError:
        pass

    assert 0 <= need.start < need.stop <= len(content)


FORMATS = pytest.mark.parametrize("form", [("<", False), (">", False), ("<", True), (">", True)], ids=str)

VALUES: Tags = {
    1: (SHORT, (7,)),
    2: (SHORT, (1, 65_535)),
    3: (SHORT, (3, 4, 5, 6, 7)),
    4: (LONG, (1 << 31,)),
    5: (LONG, (5, 6, 7)),
    6: (LONG8, (1 << 40,)),
    7: (LONG8, (8, 9)),
    8: (DOUBLE, (0.5,)),
    9: (DOUBLE, (1.5, -2.5, 1e300)),
    10: (ASCII, b"a"),
    11: (ASCII, b"abc\0def"),
    12: (ASCII, b"twelve chars\0"),
    13: (BYTE, bytes(range(9))),
}


@FORMATS
def test_values_are_read_wherever_they_lie(form: tuple[str, bool]) -> None:
    """Values of each type are read, inside of the directory and beyond it, in each kind of TIFF."""
    ifd = first_ifd(handwritten(VALUES, byte_order=form[0], is_big=form[1]))

    for tag in range(1, 8):
        values = VALUES[tag][1]
        assert ifd.integers(tag, most=len(values)) == values
        assert ifd.array(tag, 0, len(values)).tolist() == list(values)
        assert ifd.array(tag, 1, len(values)).tolist() == list(values[1:])
    assert ifd.array(3, 1, 3).tolist() == [4, 5]
    assert [ifd.doubles(tag, most=3) for tag in (8, 9)] == [(0.5,), (1.5, -2.5, 1e300)]
    assert [ifd.text(tag, most=13) for tag in (10, 11, 12)] == [b"a", b"abc", b"twelve chars"]
    assert ifd.next_offset == 0


@pytest.mark.parametrize("tag", VALUES)
def test_a_tag_with_too_many_values_is_refused(tag: int) -> None:
    """The most that a reader expects is read, and one value more is refused."""
    ifd, n_values = first_ifd(handwritten(VALUES)), len(VALUES[tag][1])

    def look_up(most: int) -> object:
        kind = VALUES[tag][0]
        if kind == BYTE:
            return ifd.raw(tag, most_nbytes=most)
        reads = {DOUBLE: ifd.doubles, ASCII: ifd.text}
        return reads.get(kind, ifd.integers)(tag, most=most)

    assert look_up(n_values)
    with pytest.raises(TiffError):
        look_up(n_values - 1)


@pytest.mark.parametrize("tag", [4, 5])
def test_raw_values_are_the_stored_bytes(tag: int) -> None:
    """All bytes of all values, as the file has them."""
    ifd = first_ifd(handwritten(VALUES))
    values = VALUES[tag][1]

    assert ifd.raw(tag, most_nbytes=4 * len(values)) == struct.pack(f"<{len(values)}I", *values)
    assert ifd.raw(99, most_nbytes=0) == b""


@pytest.mark.parametrize(
    ("kind", "nbytes"),
    [*enumerate([1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4], start=1), (16, 8), (17, 8), (18, 8), (99, 1)],
)
def test_raw_values_take_the_bytes_of_their_type(kind: int, nbytes: int) -> None:
    """Sizes are those of the TIFF and BigTIFF specifications. An unknown type counts as bytes."""
    content = handmade([(700, kind, 3, 8)]) + bytes(20)

    assert len(first_ifd(content).raw(700, most_nbytes=3 * nbytes)) == 3 * nbytes
    with pytest.raises(TiffError):
        first_ifd(content).raw(700, most_nbytes=3 * nbytes - 1)


@pytest.mark.parametrize("read", ["integers", "doubles", "text"])
def test_a_tag_without_values_or_of_another_type_is_refused(read: str) -> None:
    """A missing tag is None. One of no values is broken, and so is one of another type."""
    empty = first_ifd(handmade([(700, {"integers": 3, "doubles": 12, "text": 2}[read], 0, 0)]))
    float32 = first_ifd(handmade([(700, 11, 1, 0)]))

    assert getattr(empty, read)(701, most=9) is None
    for ifd in (empty, float32):
        with pytest.raises(TiffError):
            getattr(ifd, read)(700, most=9)


def test_array_gives_no_values_beyond_the_last() -> None:
    """The last value is given, and none is not an error."""
    ifd = first_ifd(handwritten(VALUES))

    assert ifd.array(3, 5, 5).size == 0
    with pytest.raises(TiffError, match="too few"):
        ifd.array(3, 2, 6)
    with pytest.raises(TiffError, match="too few"):
        ifd.array(3, -1, 2)
    with pytest.raises(TiffError, match="too few"):
        ifd.array(3, 3, 2)


def test_integer_is_the_value_or_the_default() -> None:
    """A tag that is needed and missing is an error."""
    ifd = first_ifd(handwritten(VALUES))

    assert (ifd.integer(1), ifd.integer(1, 5), ifd.integer(99, 5), ifd.integer(99, 0)) == (7, 7, 5, 0)
    with pytest.raises(TiffError, match="missing"):
        ifd.integer(99)
    with pytest.raises(TiffError, match="number of values"):
        ifd.integer(2)  # it has two


@pytest.mark.parametrize(("n_entries", "is_read"), [(1, True), (1024, True), (1025, False)])
def test_parse_ifd_reads_directories_of_up_to_1024_tags(n_entries: int, *, is_read: bool) -> None:
    """A directory with more is not one of an image."""
    content = handwritten({tag: (SHORT, (tag,)) for tag in range(n_entries)})

    if is_read:
        assert first_ifd(content).integer(n_entries - 1) == n_entries - 1
    else:
        with pytest.raises(TiffError, match="too many entries"):
            first_ifd(content)


@FORMATS
def test_following_ifds_are_those_after_the_first(form: tuple[str, bool]) -> None:
    """Up to 64 directories are read, in file order."""
    directories = [{256: (SHORT, (width,))} for width in range(1, 66)]

    def widths(n: int) -> list[int]:
        ifd = first_ifd(handwritten(*directories[:n], byte_order=form[0], is_big=form[1]))
        return [each.integer(256) for each in following_ifds(ifd)]

    assert [widths(1), widths(3), widths(64)] == [[], [2, 3], list(range(2, 65))]
    with pytest.raises(TiffError, match="does not end"):
        widths(65)


@pytest.mark.parametrize("place", [4, 6])
def test_a_bigtiff_of_other_offsets_is_refused(place: int) -> None:
    """Offsets have eight bytes, and the number after that is zero."""
    content = bytearray(handwritten(VALUES, is_big=True))
    content[place] += 1

    with pytest.raises(TiffError, match="a broken BigTIFF"):
        first_ifd(bytes(content))
