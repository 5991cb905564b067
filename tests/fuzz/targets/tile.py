"""The compressed bytes of one tile."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import imagecodecs
import numpy as np

from fuzz.mutations import mutated_bytes as mutated
from pixel_gather.io.geotiff.decode import check_stored, decode_block
from pixel_gather.io.geotiff.jpeg_tile import SAMPLINGS, JpegCoding
from pixel_gather.io.geotiff.layout import PAIRS_OF_DTYPES, WITH_PREDICTOR, Compression, Predictor, TileLayout
from pixel_gather.io.geotiff.unsupported import UnsupportedError

__all__ = ["fuzz_one", "mutated", "seeds"]

_COMPRESSIONS: Final = tuple(Compression)
_PREDICTORS: Final = tuple(Predictor)
_DTYPES: Final = tuple(PAIRS_OF_DTYPES.values())
_SIDE: Final = 16
_HEAD: Final = 3
"""The first bytes choose compression, predictor and dtype. The others are the tile's.

Of JPEG they choose the number of bands, the sampling of YCbCr if there are three, and how many bytes of
tables stand before the tile.
"""

_SAMPLINGS: Final = (None, *sorted(SAMPLINGS))
_TABLES: Final = (0xDB, 0xC4)
"""Markers of JPEG's tables."""


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
    found += [
        _jpeg(n_bands, sampling) for n_bands, sampling in ((1, 0), (2, 0), (3, 0), (4, 0), (3, 1), (3, 4))
    ]
    jpeg_xl = _COMPRESSIONS.index(Compression.JPEG_XL)
    if imagecodecs.JPEGXL.available:
        pixels = np.frombuffer(tile, "uint16").reshape(_SIDE, _SIDE)
        found.append(bytes([jpeg_xl, 0, dtype]) + imagecodecs.jpegxl_encode(pixels, lossless=True))
    return found


def _jpeg(n_bands: int, sampling: int) -> bytes:
    """Return a tile whose tables stand before it, as those of a directory."""
    kinds = {1: "GRAYSCALE", 2: None, 3: "RGB", 4: "CMYK"}
    across, down = _SAMPLINGS[sampling] or (1, 1)
    whole = imagecodecs.jpeg8_encode(
        np.arange(_SIDE * _SIDE * n_bands, dtype="u1").reshape(_SIDE, _SIDE, n_bands).squeeze(),
        colorspace=kinds[n_bands],
        outcolorspace="YCBCR" if sampling else kinds[n_bands],
        subsampling={(1, 1): "444", (2, 1): "422", (2, 2): "420"}[across, down],
    )
    tables, tile, at = b"\xff\xd8", b"\xff\xd8", 2
    while whole[at + 1] != 0xDA:  # the scan follows
        stop = at + 2 + int.from_bytes(whole[at + 2 : at + 4])
        if whole[at + 1] in _TABLES:
            tables += whole[at:stop]
        else:
            tile += whole[at:stop]
        at = stop
    tables += b"\xff\xd9"
    tables += b"\0" * (-len(tables) % 4)
    head = bytes([_COMPRESSIONS.index(Compression.JPEG), n_bands - 1 + 4 * sampling, len(tables) // 4])
    return head + tables + tile + whole[at:]


def _jpeg_layout(kind: int, tables: memoryview) -> TileLayout:
    n_bands, sampling = kind % 4 + 1, _SAMPLINGS[kind // 4 % len(_SAMPLINGS)]
    coding = JpegCoding(tables=bytes(tables), sampling=sampling if n_bands == len("RGB") else None)
    stored = np.dtype("u1")
    return _layout(Compression.JPEG, Predictor.NONE, stored, stored, n_bands=n_bands, jpeg=coding)


def _layout(
    compression: Compression,
    predictor: Predictor,
    stored: Any,
    dtype: Any,
    *,
    n_bands: int = 1,
    **others: Any,
) -> TileLayout:
    return TileLayout(
        width=_SIDE,
        height=_SIDE,
        n_bands=n_bands,
        stored=stored,
        dtype=dtype,
        compression=compression,
        predictor=predictor,
        is_tiled=True,
        tile_width=_SIDE,
        tile_height=_SIDE,
        n_planes=1,
        has_alpha=False,
        **others,
    )


def fuzz_one(content: bytes) -> None:
    """Decode a tile. It is whole, or an error."""
    if len(content) < _HEAD:
        return
    compression, tile = _COMPRESSIONS[content[0] % len(_COMPRESSIONS)], memoryview(content)[_HEAD:]
    if compression is Compression.JPEG:
        n_tables = 4 * content[2]
        layout, tile = _jpeg_layout(content[1], tile[:n_tables]), tile[n_tables:]
    else:
        predictor = _PREDICTORS[content[1] % len(_PREDICTORS)]
        stored, dtype = _DTYPES[content[2] % len(_DTYPES)]
        if predictor is not Predictor.NONE and (compression not in WITH_PREDICTOR or dtype.kind == "c"):
            return
        if predictor is Predictor.FLOAT and stored.kind != "f":
            return
        layout = _layout(compression, predictor, stored, dtype)
    shape = (_SIDE, _SIDE, layout.samples) if layout.samples > 1 else (_SIDE, _SIDE)
    with suppress(UnsupportedError):
        decode_block(tile, layout, np.zeros(shape, layout.stored.newbyteorder("=")))
    with suppress(UnsupportedError):
        check_stored(tile, layout)
