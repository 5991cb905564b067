"""Decoding gives a whole and correct tile, or an error."""

import lzma
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from copy import replace
from types import SimpleNamespace
from typing import Any

import imagecodecs
import numpy as np
import pytest

from pixel_gather.io.geotiff import decode as decoding
from pixel_gather.io.geotiff.decode import check_stored, decode_block
from pixel_gather.io.geotiff.layout import Compression, Predictor, TileLayout
from pixel_gather.io.geotiff.unsupported import DamagedTileError, UnsupportedError

TILE = (np.arange(16 * 16) % 50).astype("u2").reshape(16, 16)


def layout_for(compression: Compression) -> TileLayout:
    """Return the layout of one 16 x 16 tile of uint16."""
    return TileLayout(
        width=16,
        height=16,
        n_bands=1,
        stored=np.dtype("<u2"),
        dtype=np.dtype("u2"),
        compression=compression,
        predictor=Predictor.NONE,
        is_tiled=True,
        tile_width=16,
        tile_height=16,
        n_planes=1,
        has_alpha=False,
    )


def _as_jpeg_xl(content: bytes) -> Any:
    """Encode pixels, as many rows of 16 as there are, or one row of any length."""
    pixels = np.frombuffer(content, "u2")
    shape = (-1, 16) if pixels.size % 16 == 0 else (1, -1)
    return imagecodecs.jpegxl_encode(pixels.reshape(shape), lossless=True)


ENCODERS: dict[Compression, Callable[[bytes], Any]] = {
    Compression.NONE: bytes,
    Compression.LZW: imagecodecs.lzw_encode,
    Compression.DEFLATE: zlib.compress,
    Compression.DEFLATE_OLD: zlib.compress,
    Compression.PACKBITS: imagecodecs.packbits_encode,
    Compression.LZMA: lzma.compress,
    Compression.ZSTD: imagecodecs.zstd_encode,
    Compression.JPEG_XL: _as_jpeg_xl,
    Compression.JPEG_XL_OF_DNG: _as_jpeg_xl,
}


def decode(compression: Compression, content: bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.uint16]]:
    """Decode one tile."""
    block = np.empty((16, 16), "u2")
    decode_block(memoryview(content), layout_for(compression), block)
    return block


@pytest.mark.parametrize("compression", ENCODERS)
def test_decode_block_undoes_each_compression(compression: Compression) -> None:
    """Decoding restores the pixels that were encoded."""
    block = decode(compression, ENCODERS[compression](TILE.tobytes()))

    assert np.array_equal(block, TILE)


@pytest.mark.parametrize("compression", ENCODERS)
def test_decode_block_refuses_a_short_tile(compression: Compression) -> None:
    """A tile that ends early has no pixels at all."""
    with pytest.raises(UnsupportedError):
        decode(compression, ENCODERS[compression](TILE.tobytes()[:-2]))


@pytest.mark.parametrize("compression", ENCODERS)
def test_decode_block_refuses_nothing_at_all(compression: Compression) -> None:
    """An empty tile is not a tile of zeros."""
    with pytest.raises(UnsupportedError):
        decode(compression, b"")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(zlib.compress(TILE.tobytes())[:-4] + bytes(4), id="wrong checksum"),
        pytest.param(zlib.compress(TILE.tobytes())[:-4], id="no checksum"),
        pytest.param(zlib.compress(TILE.tobytes() * 2), id="inflates to more than the tile"),
    ],
)
def test_decode_block_refuses_a_damaged_deflate_stream(content: bytes) -> None:
    """The checksum is verified. A stream that is too long is left to GDAL."""
    with pytest.raises(UnsupportedError):
        decode(Compression.DEFLATE, content)


def zstd_frame(*head: int) -> bytes:
    """Return a frame of the tile, in one block that is not compressed, after these bytes."""
    content = TILE.tobytes()
    return b"\x28\xb5\x2f\xfd" + bytes(head) + (len(content) << 3 | 1).to_bytes(3, "little") + content


SINGLE_SEGMENT = 0x20 | 1 << 6
"""The frame's descriptor: the content's size follows in two bytes, less 256, and is the window, too."""


@pytest.mark.parametrize(
    ("head", "is_read"),
    [
        ((0, 17 << 3), True),
        ((0, 17 << 3 | 1), False),
        ((0, 18 << 3), False),
        ((SINGLE_SEGMENT, *(512 - 256).to_bytes(2, "little")), True),
    ],
)
def test_decode_block_reads_zstd_windows_of_up_to_128_mib(head: tuple[int, ...], *, is_read: bool) -> None:
    """Libtiff has the same limit. A frame of a single segment has no window but its content."""
    with nullcontext() if is_read else pytest.raises(UnsupportedError):
        np.testing.assert_array_equal(decode(Compression.ZSTD, zstd_frame(*head)), TILE)


def test_decode_block_reads_a_single_segment_whatever_its_size() -> None:
    """The byte that would be its window is part of its size: of 511 bytes, 255, which would be too large."""
    content = np.arange(511).astype("u1")
    frame = imagecodecs.zstd_encode(content.tobytes())
    assert frame[4] & 0x20
    assert frame[5] == 255
    block = np.empty((1, 511), "u1")
    layout = replace(layout_for(Compression.ZSTD), stored=np.dtype("u1"), dtype=np.dtype("u1"))

    decode_block(memoryview(frame), layout, block)

    np.testing.assert_array_equal(block[0], content)


@pytest.mark.parametrize(("most", "is_read"), [(512, True), (511, False)])
def test_decode_block_leaves_large_zstd_segments_to_gdal(
    monkeypatch: pytest.MonkeyPatch, most: int, *, is_read: bool
) -> None:
    """A tile in a single segment is its window."""
    monkeypatch.setattr(decoding, "_ZSTD_MOST_NBYTES", most)

    frame = bytes(imagecodecs.zstd_encode(TILE.tobytes()))
    with nullcontext() if is_read else pytest.raises(UnsupportedError):
        np.testing.assert_array_equal(decode(Compression.ZSTD, frame), TILE)


@pytest.mark.parametrize("place", range(4))
def test_decode_block_refuses_zstd_of_another_kind(place: int) -> None:
    """Frames of old versions, and those to be skipped, begin with other bytes."""
    frame = bytearray(imagecodecs.zstd_encode(TILE.tobytes()))
    frame[place] ^= 1

    with pytest.raises(UnsupportedError):
        decode(Compression.ZSTD, bytes(frame))


def old_lzw(content: bytes) -> bytes:
    """Return LZW of single bytes in the old bit order: codes of nine bits, the lowest bit first."""
    codes = [code for at, byte in enumerate(content) for code in ((256, byte) if at % 200 == 0 else (byte,))]
    bits = "".join(f"{code:09b}"[::-1] for code in [*codes, 257])
    return bytes(int(bits[at : at + 8][::-1], 2) for at in range(0, len(bits), 8))


def test_decode_block_leaves_the_old_lzw_to_gdal() -> None:
    """LZW in the old bit order begins with 0x00 0x01. The codec here reads it, but not always as GDAL."""
    content = old_lzw(TILE.tobytes())
    assert content[:2] == b"\x00\x01"
    assert imagecodecs.lzw_decode(content) == TILE.tobytes()

    with pytest.raises(UnsupportedError):
        decode(Compression.LZW, content)


@pytest.mark.parametrize(
    ("content", "is_old"), [(b"\0\1", True), (b"\0\3" + bytes(9), True), (b"\0\2", False), (b"\0", False),
                            (b"\1\1", False), (b"", False), (b"\x80\1", False)],
)  # fmt: skip
def test_the_old_lzw_is_not_taken_for_the_new(content: bytes, *, is_old: bool) -> None:
    """Nobody else would read such a tile as GDAL does. Of other compressions it may begin so."""
    check_stored(memoryview(content), layout_for(Compression.DEFLATE))
    with pytest.raises(UnsupportedError, match="old bit order") if is_old else nullcontext():
        check_stored(memoryview(content), layout_for(Compression.LZW))


FLOATS = (np.arange(256) / 7).astype("f4").reshape(16, 16)


@pytest.mark.parametrize("n_left_out", [0, 1])
def test_decode_block_refuses_a_short_tile_of_floats(n_left_out: int) -> None:
    """A short tile whose bytes are ordered by significance is refused, too. A whole one is read."""
    shuffled = imagecodecs.floatpred_encode(FLOATS, axis=1).tobytes()
    content = imagecodecs.lzw_encode(shuffled[: len(shuffled) - n_left_out])
    layout = replace(
        layout_for(Compression.LZW), stored=np.dtype("<f4"), dtype=np.dtype("f4"), predictor=Predictor.FLOAT
    )
    block = np.empty((16, 16), "f4")

    with pytest.raises(UnsupportedError, match="shorter") if n_left_out else nullcontext():
        decode_block(memoryview(content), layout, block)
    assert n_left_out or np.array_equal(block, FLOATS)


@pytest.mark.parametrize("content", [b"no image", zlib.compress(TILE.tobytes()), b""])
def test_bytes_that_are_no_jpeg_xl_are_damaged(content: bytes) -> None:
    """Not only unreadable here: GDAL may lack the codec to notice."""
    with pytest.raises(DamagedTileError, match="no JPEG XL"):
        decode(Compression.JPEG_XL, content)


def test_jpeg_xl_needs_its_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it GDAL is asked."""
    without = SimpleNamespace(JPEGXL=SimpleNamespace(available=False))
    content = ENCODERS[Compression.JPEG_XL](TILE.tobytes())
    monkeypatch.setattr(decoding, "imagecodecs", without)

    with pytest.raises(UnsupportedError, match="without its codec"):
        decode(Compression.JPEG_XL, content)
