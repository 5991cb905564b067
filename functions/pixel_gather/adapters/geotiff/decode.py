"""One tile's or strip's bytes -> pixels.

Whatever is not exactly as long as the layout says is an error: no partial pixels.
"""

from collections.abc import Callable
from typing import Any, Final

import imagecodecs
import numpy as np

from pixel_gather.adapters.geotiff.layout import JPEG_XL, Compression, Layout, Predictor
from pixel_gather.adapters.geotiff.unsupported import DamagedTileError, UnsupportedError

type Block = np.ndarray[Any, Any]

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_WINDOW: Final = 5
"""Place of the window descriptor, after the frame's own; 17 << 3 stands for 128 MiB."""
_ZSTD_128_MIB: Final = 17 << 3


def _copy(content: memoryview, *, out: memoryview) -> memoryview:
    """Take uncompressed bytes as they are."""
    out[:] = content
    return out


def _lzw(content: memoryview, *, out: memoryview) -> memoryview:
    """Decode LZW, but not the variant of before 1995, with which imagecodecs and libtiff differ."""
    if content.nbytes > 1 and content[0] == 0 and content[1] & 1:
        raise ValueError("LZW in the old bit order")
    return _bytes_view(imagecodecs.lzw_decode(content, out=out))


def _zstd(content: memoryview, *, out: memoryview) -> memoryview:
    """Decode zstd, but not a frame that wants a larger window than libtiff allows, or none at all."""
    is_single_segment = content.nbytes > _ZSTD_WINDOW and content[_ZSTD_WINDOW - 1] & 0x20
    has_large_window = len(out) > 1 << 27 if is_single_segment else content[_ZSTD_WINDOW] > _ZSTD_128_MIB
    if bytes(content[:4]) != _ZSTD_MAGIC or has_large_window:
        raise ValueError("a zstd frame that libtiff refuses")
    return _bytes_view(imagecodecs.zstd_decode(content, out=out))


def _bytes_view(decoded: bytes | bytearray | memoryview) -> memoryview:
    return memoryview(decoded)


_DECODERS: Final[dict[Compression, Callable[..., Any]]] = {
    Compression.NONE: _copy,
    Compression.LZW: _lzw,
    Compression.DEFLATE: imagecodecs.deflate_decode,
    Compression.DEFLATE_OLD: imagecodecs.deflate_decode,
    Compression.PACKBITS: imagecodecs.packbits_decode,
    Compression.LZMA: imagecodecs.lzma_decode,
    Compression.ZSTD: _zstd,
}


def decode_block(content: memoryview, layout: Layout, block: Block) -> None:
    """Decode a tile's or strip's bytes into ``block``, wholly or with an error.

    Args:
        content: The compressed bytes.
        layout: How they are stored.
        block: C-contiguous, shape (rows, columns) or (rows, columns, numbers per pixel), of the stored
            dtype's kind and size in native byte order.

    Raises:
        DamagedTileError: The bytes are damaged, and GDAL may not know their compression.
        UnsupportedError: The bytes are damaged, too short or too long.
    """
    target = _as_bytes(block)
    try:
        if layout.compression in JPEG_XL:
            _decode_jpeg_xl(content, block)
            return
        if layout.predictor is Predictor.FLOAT:
            _decode_floats(content, layout, block)
            return
        decoded = _DECODERS[layout.compression](content, out=target)
    except (ValueError, IndexError, RuntimeError, MemoryError) as error:
        raise UnsupportedError("a tile cannot be decoded") from error
    if len(decoded) != len(target):
        raise UnsupportedError("a tile is shorter than its shape")
    if not layout.stored.isnative:
        block.byteswap(inplace=True)
    if layout.predictor is Predictor.HORIZONTAL:
        integers = block.view(f"u{block.dtype.itemsize}")
        imagecodecs.delta_decode(integers, axis=1, out=integers)


def _decode_floats(content: memoryview, layout: Layout, block: Block) -> None:
    """Undo the floating point predictor, which stores bytes by significance whatever the byte order."""
    shuffled = np.empty_like(block)
    target = _as_bytes(shuffled)
    decoded = _DECODERS[layout.compression](content, out=target)
    if len(decoded) != len(target):
        raise UnsupportedError("a tile is shorter than its shape")
    imagecodecs.floatpred_decode(shuffled, axis=1, out=block)


def _decode_jpeg_xl(content: memoryview, block: Block) -> None:
    """Decode JPEG XL, which a package may come without; libjxl refuses another shape or dtype than wanted."""
    if not imagecodecs.JPEGXL.available:
        raise UnsupportedError("JPEG XL without its codec")
    if imagecodecs.jpegxl_check(content) is False:
        raise DamagedTileError("a tile is no JPEG XL")
    try:
        imagecodecs.jpegxl_decode(content, numthreads=1, out=block)
    except RuntimeError as error:
        raise DamagedTileError("a tile cannot be decoded") from error


def _as_bytes(block: Block) -> memoryview:
    """Return the bytes of a C-contiguous array, to be written to."""
    return block.reshape(-1).view(np.uint8).data
