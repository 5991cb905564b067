"""Writes made images of one band as GeoTIFFs in tiles, as the benchmarks of whole gathers read them."""

from pathlib import Path
from typing import Any

import numpy as np
import rasterio


def write_tiled(
    path: Path, pixels: np.ndarray[Any, Any], *, transform: rasterio.Affine, crs: str = "EPSG:32632"
) -> None:
    """Write pixels, shape (y, x), in tiles of 512 x 512 with DEFLATE and predictor 2. Nodata is 0."""
    height, width = pixels.shape
    with rasterio.open(
        path, "w", "GTiff", width, height, 1, dtype=pixels.dtype, nodata=0, crs=crs, transform=transform,
        compress="deflate", predictor=2, tiled=True, blockxsize=512, blockysize=512,
    ) as target:  # fmt: skip
        target.write(pixels, 1)
