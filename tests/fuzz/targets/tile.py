"""The compressed bytes of one tile."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import imagecodecs
import numpy as np

from fuzz.mutations import mutated_bytes as mutated
from pixel_gather.io.geotiff.decode import check_stored, decode_block
from pixel_gather.io.geotiff.jpeg_tile import JpegCoding
from pixel_gather.io.geotiff.layout import PAIRS_OF_DTYPES, WITH_PREDICTOR, Compression, Predictor, TileLayout
from pixel_gather.io.geotiff.unsupported import UnsupportedError

__all__ = ["fuzz_one", "mutated", "seeds"]

_COMPRESSIONS: Final = tuple(Compression)
_PREDICTORS: Final = tuple(Predictor)
_DTYPES: Final = tuple(PAIRS_OF_DTYPES.values())
_SIDE: Final = 16
_HEAD: Final = 3
"""The first bytes choose compression, predictor and dtype. The others are the tile's."""


def seeds() -> list[bytes]:
    """Return a sound tile of each compression."""
    tile = (np.arange(_SIDE * _SIDE) // 3).astype("uint16").tobytes()
    encode: dict[Compression, Callable[..., Any]] = {
        Compression.NONE: bytes,
        Compression.LZW: imagecodecs.lzw_encode,
        Compression.DEFLATE: imagecodecs.deflate_encode,
        Compression.DEFLATE_OLD: imagecodecs.deflate_encode,
        Compression.PACKBITS: imagecodecs.packbits_encode,
        Compression.LZMA: imagecodecs.lzma_encode,
        Compression.ZSTD: imagecodecs.zstd_encode,
    }
    dtype = next(n for n, (stored, _) in enumerate(_DTYPES) if stored.str == "<u2")
    found = []
    for number, compression in enumerate(_COMPRESSIONS):
        if compression in encode:
            found += [bytes([number, predictor, dtype]) + encode[compression](tile) for predictor in (0, 1)]
    jpeg = bytes([_COMPRESSIONS.index(Compression.JPEG), 0, _DTYPES.index((np.dtype("u1"), np.dtype("u1")))])
    found.append(
        jpeg + imagecodecs.jpeg8_encode(np.frombuffer(tile, "u1")[: _SIDE * _SIDE].reshape(_SIDE, _SIDE))
    )
    jpeg_xl = _COMPRESSIONS.index(Compression.JPEG_XL)
    if imagecodecs.JPEGXL.available:
        pixels = np.frombuffer(tile, "uint16").reshape(_SIDE, _SIDE)
        found.append(bytes([jpeg_xl, 0, dtype]) + imagecodecs.jpegxl_encode(pixels, lossless=True))
    return found


def fuzz_one(content: bytes) -> None:
    """Decode a tile. It is whole, or an error."""
    if len(content) < _HEAD:
        return
    compression = _COMPRESSIONS[content[0] % len(_COMPRESSIONS)]
    predictor = _PREDICTORS[content[1] % len(_PREDICTORS)]
    stored, dtype = _DTYPES[content[2] % len(_DTYPES)]
    if predictor is not Predictor.NONE and (compression not in WITH_PREDICTOR or dtype.kind == "c"):
        return
    if predictor is Predictor.FLOAT and stored.kind != "f":
        return
    if compression is Compression.JPEG and stored != np.uint8:
        return
    layout = TileLayout(
        width=_SIDE,
        height=_SIDE,
        n_bands=1,
        stored=stored,
        dtype=dtype,
        compression=compression,
        predictor=predictor,
        is_tiled=True,
        tile_width=_SIDE,
        tile_height=_SIDE,
        n_planes=1,
        has_alpha=False,
        jpeg=JpegCoding(tables=b"", sampling=None) if compression is Compression.JPEG else None,
    )
    shape = (_SIDE, _SIDE, 2) if layout.is_complex_int else (_SIDE, _SIDE)
    tile = memoryview(content)[_HEAD:]
    with suppress(UnsupportedError):
        decode_block(tile, layout, np.zeros(shape, stored.newbyteorder("=")))
    with suppress(UnsupportedError):
        check_stored(tile, layout)
