"""Zarr's codecs that decode the tiles of GeoTIFFs.

Which tiles can be chunks is decided in `pixel_gather.core.plan.pass_through`. Tests read each kind by
zarr-python and compare the pixels with rasterio's.
"""

from typing import Any, Final, TypedDict

import numpy as np

from pixel_gather.core.model.tile_coding import FLOATING_POINT, HORIZONTAL, TileCoding

_IMAGECODECS: Final = ("delta", "floatpred", "lzw", "lzma", "packbits", "zfp")
"""Codecs of imagecodecs that cubes of this project may use."""


type Codec = dict[str, Any]
"""One codec as Zarr's metadata name it. zarr-python takes it as well."""


class Codecs(TypedDict):
    """The codecs of a chunk, by the names of the arguments of zarr-python's ``create_array``."""

    filters: list[Codec]
    serializer: Codec
    compressors: list[Codec]


def register_codecs() -> None:
    """Tell zarr-python which codecs imagecodecs has."""
    from imagecodecs.zarr import register_codecs  # noqa: PLC0415 # 0.3 s; a worker does not need it

    register_codecs(_IMAGECODECS)


def bytes_codec(itemsize: int, *, byte_order: str = "<") -> Codec:
    """Return the codec that stores numbers of this many bytes. Single bytes have no order."""
    if itemsize == 1:
        return {"name": "bytes"}
    return {"name": "bytes", "configuration": {"endian": "big" if byte_order == ">" else "little"}}


def tile_codecs(coding: TileCoding) -> Codecs:
    """Return the codecs that decode such tiles."""
    filters: list[Codec] = []
    serializer = bytes_codec(np.dtype(coding.dtype).itemsize, byte_order=coding.byte_order)
    along_rows = {"axis": -1, "dist": 1}
    if coding.predictor == HORIZONTAL:
        filters.append({"name": "imagecodecs_delta", "configuration": along_rows})
    elif coding.predictor == FLOATING_POINT:
        serializer = {"name": "imagecodecs_floatpred", "configuration": along_rows}
    return {"filters": filters, "serializer": serializer, "compressors": _COMPRESSORS[coding.compression]}


_COMPRESSORS: Final[dict[str, list[Codec]]] = {
    "none": [],
    "zstd": [{"name": "zstd", "configuration": {"level": 0, "checksum": False}}],
    "deflate": [{"name": "numcodecs.zlib", "configuration": {"level": 6}}],
    "lzma": [{"name": "imagecodecs_lzma"}],
    "lzw": [{"name": "imagecodecs_lzw"}],
    "packbits": [{"name": "imagecodecs_packbits"}],
}
"""By the name of a tile's compression."""
