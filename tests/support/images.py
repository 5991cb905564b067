"""GeoTIFFs that tests make: pixels of one grid, by default in UTM zone 32."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import rasterio
from rasterio.transform import from_origin

TILES_OF_64: Final[Any] = {"tiled": True, "blockxsize": 64, "blockysize": 64, "compress": "deflate"}
"""Options for small tiles."""

type Pixels = np.ndarray[Any, np.dtype[Any]]


def write_image(
    file: Path,
    pixels: Pixels,
    *,
    west: float = 300_000,
    north: float = 5_000_000,
    size: float = 10.0,
    nodata: float | None = 0,
    scaling: Sequence[float] | None = None,
    **options: Any,
) -> str:
    """Write an image, and return its address.

    Args:
        file: Where to. Another file there is replaced by a new one.
        pixels: (band, y, x) or (y, x).
        west: Left edge.
        north: Upper edge.
        size: Side of a pixel.
        nodata: Value of missing pixels, or None.
        scaling: Scale and offset of all bands.
        options: Others of rasterio. If ``crs`` is None, there is only the place that is given as transform.
    """
    bands = pixels.reshape(-1, *pixels.shape[-2:])
    count, height, width = bands.shape
    options["nodata"] = nodata
    if options.setdefault("crs", "EPSG:32632") is not None:
        options.setdefault("transform", from_origin(west, north, size, size))
    file.unlink(missing_ok=True)
    with rasterio.open(
        file, "w", "GTiff", width, height, count, dtype=pixels.dtype.name, **options
    ) as target:
        target.write(bands)
        if scaling is not None:
            target.scales, target.offsets = ([each] * count for each in scaling)
    return str(file)
