"""Small COGs with overviews, for tests of rankings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rasterio.shutil import copy as copy_raster

from support.images import write_image

_CRS = "EPSG:32633"
_LEFT, _TOP = 500_000.0, 5_000_000.0

type Pixels = np.ndarray[Any, Any]


def make_cog(
    path: Path,
    pixels: Pixels,
    *,
    resampling: str = "AVERAGE",
    size: float = 10.0,
    nodata: float | None = None,
    scaling: tuple[float, float] | None = None,
    options: Mapping[str, str] | None = None,
) -> Path:
    """Write a COG in UTM zone 33 whose upper left corner is always at the same place.

    Args:
        path: Where to.
        pixels: (y, x).
        resampling: Resampling of the overviews.
        size: Size of a pixel, in metres.
        nodata: None for none.
        scaling: Scale and offset.
        options: Other options of GDAL's COG driver.
    """
    plain = path.with_suffix(".plain.tif")
    write_image(plain, pixels, west=_LEFT, north=_TOP, size=size, crs=_CRS, nodata=nodata, scaling=scaling)
    copy_raster(
        plain,
        path,
        driver="COG",
        OVERVIEW_RESAMPLING=resampling,
        **({"BLOCKSIZE": "128"} | dict(options or {})),
    )
    plain.unlink()
    return path


def landscape(seed: int, *, side: int = 512, level: float = 2000.0, step: float = 40.0) -> Pixels:
    """Return an image with structure at every scale, as reflectances are stored."""
    rng = np.random.default_rng(seed)
    image = np.zeros((side, side))
    size = side // 2
    while size >= 1:
        n = side // size
        image += np.kron(rng.normal(size=(n, n)) * size**0.4, np.ones((size, size)))
        size //= 2
    return np.clip(level + step * (image - image.mean()), 1, 10_000).astype("uint16")


def lonlat_box(col: float, row: float, width: float, height: float, *, size: float = 10.0) -> list[float]:
    """Return a box in degrees that lies within a rectangle of pixels and nearly fills it."""
    from rasterio.warp import transform  # noqa: PLC0415 # late, as few tests need it

    left, right = _LEFT + col * size, _LEFT + (col + width) * size
    top, bottom = _TOP - row * size, _TOP - (row + height) * size
    xs, ys = transform(_CRS, "EPSG:4326", [left, right, left, right], [top, top, bottom, bottom])
    return [max(xs[0], xs[2]), max(ys[2], ys[3]), min(xs[1], xs[3]), min(ys[0], ys[1])]
