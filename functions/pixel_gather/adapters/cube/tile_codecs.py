"""Zarr's codecs that decode the tiles of GeoTIFFs.

Which tiles can be chunks is decided in `pixel_gather.plan.pass_through`. Tests read each kind by zarr-python
and compare the pixels with rasterio's.
"""

from typing import Any, Final

from pixel_gather.model.tile_coding import FLOATING_POINT, HORIZONTAL, TileCoding

_IMAGECODECS: Final = ("delta", "floatpred", "lzw", "lzma", "packbits", "zfp")
"""Codecs of imagecodecs that cubes of this project may use."""


def register_codecs() -> None:
    """Tell zarr-python which codecs imagecodecs has."""
    from imagecodecs.zarr import register_codecs  # noqa: PLC0415 # 0.3 s; a worker does not need it

    register_codecs(_IMAGECODECS)


def tile_codecs(coding: TileCoding) -> dict[str, Any]:
    """Return the arguments of zarr-python's ``create_array`` whose codecs decode such tiles."""
    from zarr.codecs import BytesCodec  # noqa: PLC0415 # as above

    filters: list[Any] = []
    serializer: Any = BytesCodec(endian="big" if coding.byte_order == ">" else "little")
    if coding.predictor != 1:
        from imagecodecs.zarr import Delta, Floatpred  # noqa: PLC0415 # few cubes need it

        register_codecs()
        if coding.predictor == HORIZONTAL:
            filters.append(Delta(axis=-1))
        elif coding.predictor == FLOATING_POINT:
            serializer = Floatpred(axis=-1)
    return {"filters": filters, "serializer": serializer, "compressors": _compressors(coding.compression)}


def _compressors(name: str) -> list[Any]:
    if name == "none":
        return []
    if name == "zstd":
        from zarr.codecs import ZstdCodec  # noqa: PLC0415 # as above

        return [ZstdCodec()]
    if name == "deflate":
        from zarr.codecs.numcodecs import Zlib  # noqa: PLC0415 # as above

        return [Zlib(level=6)]
    from imagecodecs.zarr import Lzma, Lzw, Packbits  # noqa: PLC0415 # as above

    register_codecs()
    return [{"lzma": Lzma, "lzw": Lzw, "packbits": Packbits}[name]()]
