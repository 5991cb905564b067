"""Decode the bytes of one tile or strip to pixels.

Decoded bytes of any other length than the layout says are an error. There are no partial pixels.
"""

from collections.abc import Callable
from typing import Any, Final

import imagecodecs
import numpy as np

from pixel_gather.io.geotiff.jpeg_tile import decode_jpeg
from pixel_gather.io.geotiff.layout import JPEG_XL, Compression, Predictor, TileLayout
from pixel_gather.io.geotiff.unsupported import DamagedTileError, UnsupportedError

type Block = np.ndarray[Any, Any]
type Decoded = bytes | bytearray | memoryview

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_WINDOW: Final = 5
"""Position of the window descriptor. The frame descriptor is the byte before it."""
_ZSTD_MOST_NBYTES: Final = 128 << 20
"""Largest window that libtiff allows. The window of a single segment is its content."""

_ZSTD_128_MIB: Final = 17 << 3
"""The window descriptor of 128 MiB."""


def _copy(content: memoryview, *, out: memoryview) -> memoryview:
    """Copy uncompressed bytes."""
    out[:] = content
    return out


def _lzw(content: memoryview, *, out: memoryview) -> Decoded:
    """Decode LZW.

    The variant in use before 1995 is refused: imagecodecs and libtiff decode it differently.
    """
    if _is_old_lzw(content):
        raise ValueError("LZW in the old bit order")
    return imagecodecs.lzw_decode(content, out=out)


def _is_old_lzw(content: memoryview) -> bool:
    return content.nbytes > 1 and content[0] == 0 and bool(content[1] & 1)


def check_stored(content: memoryview, layout: TileLayout) -> None:
    """Refuse a compressed tile that Zarr's codecs would read otherwise than GDAL. Nothing is decoded.

    Raises:
        UnsupportedError: It is one.
    """
    check_stored_nbytes(content.nbytes, layout)
    if layout.compression is Compression.LZW and _is_old_lzw(content):
        raise UnsupportedError("LZW in the old bit order")


def check_stored_nbytes(nbytes: int, layout: TileLayout) -> None:
    """Refuse an uncompressed tile whose byte count does not fit its shape.

    Raises:
        UnsupportedError: It is one.
    """
    if layout.compression is Compression.NONE and nbytes != layout.tile_height * layout.row_nbytes:
        raise UnsupportedError("the byte count of an uncompressed tile does not fit its shape")


def _zstd(content: memoryview, *, out: memoryview) -> Decoded:
    """Decode zstd.

    A frame with a larger window than libtiff allows is refused, and so are bytes that are no zstd frame. Of
    too few bytes an IndexError is raised.
    """
    is_single_segment = content[_ZSTD_WINDOW - 1] & 0x20
    has_large_window = (
        len(out) > _ZSTD_MOST_NBYTES if is_single_segment else content[_ZSTD_WINDOW] > _ZSTD_128_MIB
    )
    if bytes(content[:4]) != _ZSTD_MAGIC or has_large_window:
        raise ValueError("a zstd frame that libtiff refuses")
    return imagecodecs.zstd_decode(content, out=out)


_DECODERS: Final[dict[Compression, Callable[..., Decoded]]] = {
    Compression.NONE: _copy,
    Compression.LZW: _lzw,
    Compression.DEFLATE: imagecodecs.deflate_decode,
    Compression.DEFLATE_OLD: imagecodecs.deflate_decode,
    Compression.PACKBITS: imagecodecs.packbits_decode,
    Compression.LZMA: imagecodecs.lzma_decode,
    Compression.ZSTD: _zstd,
}


def decode_block(content: memoryview, layout: TileLayout, block: Block) -> None:
    """Decode the bytes of a tile or strip into ``block``.

    Args:
        content: The compressed bytes.
        layout: How they are stored.
        block: C-contiguous, shape (rows, columns) or (rows, columns, numbers per pixel). Its dtype has the
            stored dtype's kind and size, in native byte order.

    Raises:
        DamagedTileError: The bytes are damaged, and GDAL may lack the codec to notice.
        UnsupportedError: The bytes are damaged, too short or too long.
    """
    # The floating point predictor stores bytes by significance, in files of either byte order.
    is_shuffled = layout.predictor is Predictor.FLOAT
    stored = np.empty_like(block) if is_shuffled else block
    target = stored.reshape(-1).view(np.uint8).data
    try:
        if layout.compression in JPEG_XL:
            _decode_jpeg_xl(content, block)
            return
        if layout.jpeg is not None:
            decode_jpeg(content, layout.jpeg, block)
            return
        decoded = _DECODERS[layout.compression](content, out=target)
    except (ValueError, IndexError, RuntimeError, MemoryError) as error:
        raise UnsupportedError("a tile cannot be decoded") from error
    if len(decoded) != len(target):
        raise UnsupportedError("a tile is shorter than its shape")
    if is_shuffled:
        imagecodecs.floatpred_decode(stored, axis=1, out=block)
        return
    if not layout.stored.isnative:
        block.byteswap(inplace=True)
    if layout.predictor is Predictor.HORIZONTAL:
        integers = block.view(f"u{block.dtype.itemsize}")
        imagecodecs.delta_decode(integers, axis=1, out=integers)


def _decode_jpeg_xl(content: memoryview, block: Block) -> None:
    """Decode JPEG XL, if its codec is installed. libjxl refuses any other shape or dtype than ``block``'s."""
    if not imagecodecs.JPEGXL.available:
        raise UnsupportedError("JPEG XL without its codec")
    if imagecodecs.jpegxl_check(content) is False:
        raise DamagedTileError("a tile is no JPEG XL")
    try:
        imagecodecs.jpegxl_decode(content, numthreads=1, out=block)
    except RuntimeError as error:
        raise DamagedTileError("a tile cannot be decoded") from error
