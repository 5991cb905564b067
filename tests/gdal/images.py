"""Small rasters made for these tests."""

from typing import Any

import numpy as np
from rasterio.io import MemoryFile


def image(*, bands: int = 2, height: int = 300, width: int = 260, seed: int = 7) -> np.ndarray[Any, Any]:
    """Return noise, which does not compress."""
    return np.random.default_rng(seed).integers(0, 60000, (bands, height, width), dtype=np.uint16)


def tiff(pixels: np.ndarray[Any, Any] | None, **profile: Any) -> bytes:
    """Return a GeoTIFF's bytes; None for one whose pixels were never written."""
    if pixels is not None:
        bands, height, width = pixels.shape
        profile = {
            "count": bands, "height": height, "width": width, "dtype": pixels.dtype, "tiled": True,
            "blockxsize": 64, "blockysize": 64, "compress": "lzma", "interleave": "pixel", **profile,
        }  # fmt: skip
    with MemoryFile() as file:
        with file.open(**{"driver": "GTiff", **profile}) as dataset:
            if pixels is not None:
                dataset.write(pixels)
        return bytes(file.read())
