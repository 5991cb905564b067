"""Decoding gives a whole and correct tile, or an error."""

import lzma
import zlib
from collections.abc import Callable
from typing import Any

import imagecodecs
import numpy as np
import pytest

from pixel_gather.adapters.geotiff.decode import decode_block
from pixel_gather.adapters.geotiff.layout import Compression, Layout, Predictor
from pixel_gather.adapters.geotiff.unsupported import UnsupportedError

TILE = (np.arange(16 * 16) % 50).astype("u2").reshape(16, 16)


def layout_for(compression: Compression) -> Layout:
    """Return the layout of one 16 x 16 tile of uint16."""
    return Layout(
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


@pytest.mark.parametrize("compression", Compression)
def test_decode_block_undoes_each_compression(compression: Compression) -> None:
    """Decoding restores the pixels that were encoded."""
    block = decode(compression, ENCODERS[compression](TILE.tobytes()))

    assert np.array_equal(block, TILE)


@pytest.mark.parametrize("compression", Compression)
def test_decode_block_refuses_a_short_tile(compression: Compression) -> None:
    """A tile that ends early has no pixels at all."""
    with pytest.raises(UnsupportedError):
        decode(compression, ENCODERS[compression](TILE.tobytes()[:-2]))


@pytest.mark.parametrize("compression", Compression)
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


def test_decode_block_leaves_large_zstd_windows_to_gdal() -> None:
    """Frames with a window of more than 128 MiB are refused by libtiff."""
    frame = bytearray(imagecodecs.zstd_encode(TILE.tobytes()))
    frame[4:6] = bytes((0, 18 << 3))

    with pytest.raises(UnsupportedError):
        decode(Compression.ZSTD, bytes(frame))


def test_decode_block_leaves_the_old_lzw_to_gdal() -> None:
    """LZW in the old bit order begins with 0x00 0x01."""
    with pytest.raises(UnsupportedError):
        decode(Compression.LZW, b"\x00\x01" + bytes(100))
