"""The directory parser checks every size against the object."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.geotiff.small_tiffs import tiff
from pixel_gather.adapters.geotiff.header_bytes import HeaderBytes, NeedBytes
from pixel_gather.adapters.geotiff.ifd import Ifd, following_ifds, parse_format, parse_ifd
from pixel_gather.adapters.geotiff.layout import layout_of
from pixel_gather.adapters.geotiff.tags import Tag
from pixel_gather.adapters.geotiff.unsupported import TiffError, UnsupportedError


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

    layout = layout_of(first_ifd(content))

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
        layout_of(ifd)
        list(following_ifds(ifd))
    except NeedBytes as error:
        need = error
    except UnsupportedError:
        pass

    assert 0 <= need.start < need.stop <= len(content)
