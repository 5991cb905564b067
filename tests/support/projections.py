"""Files of one place in several CRSs, and what GDAL's warper makes of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import rasterio
from rasterio.enums import Resampling
from rasterio.transform import Affine
from rasterio.warp import reproject, transform

LON: Final = 11.98
LAT: Final = 46.5
"""A place in UTM zone 32, near to zone 33."""

WIDTHS: Final[Mapping[str, float]] = {
    "EPSG:32632": 10.0,
    "EPSG:32633": 10.0,
    "EPSG:3857": 14.5,
    "EPSG:4326": 0.000125,
    "EPSG:3035": 11.0,
}
"""CRSs of the files, and how wide their pixels are."""

BOX: Final = (LON - 0.012, LAT - 0.008, LON + 0.012, LAT + 0.008)

type Pixels = np.ndarray[Any, np.dtype[Any]]


def write_projected(  # noqa: PLR0913 # what files may be
    folder: Path,
    crs: str,
    *,
    seed: int,
    dtype: str = "uint16",
    nodata: float | None = 0,
    shift: float = 0.0,
    n_bands: int = 1,
    n: int = 400,
    overviews: str | None = None,
) -> Path:
    """Write random pixels around the place, some of them missing.

    Args:
        folder: Where to.
        crs: Of the file; one of `WIDTHS`.
        seed: Of the pixels.
        dtype: Of the pixels.
        nodata: Of the file.
        shift: To the east, in degrees.
        n_bands: Bands of the file.
        n: Pixels along a side.
        overviews: How three of them are made; None for no overview.
    """
    width = WIDTHS[crs]
    (x,), (y,) = transform("EPSG:4326", crs, [LON + shift], [LAT])
    random = np.random.default_rng(seed)
    pixels = random.integers(1, 120, (n_bands, n, n)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        pixels += random.random(pixels.shape).astype(dtype)
    if nodata is not None:
        pixels[random.random(pixels.shape) < 0.1] = nodata
    file = folder / f"{crs.removeprefix('EPSG:')}_{dtype}_{seed}.tif"
    profile = {
        "driver": "GTiff",
        "height": n,
        "width": n,
        "count": n_bands,
        "dtype": dtype,
        "crs": crs,
        "transform": Affine(width, 0, x - width * n / 2, 0, -width, y + width * n / 2),
        "nodata": nodata,
        "tiled": True,
        "blockxsize": 64,
        "blockysize": 64,
    }
    with rasterio.open(file, "w", **profile) as target:
        target.write(pixels)
    if overviews is not None:
        with rasterio.open(file, "r+") as target:
            target.build_overviews([2, 4, 8], Resampling[overviews])
            target.update_tags(OVERVIEW_RESAMPLING=overviews)
    return file


def warped_by_gdal(  # noqa: PLR0913 # what GDAL is asked
    file: str | Path,
    crs: str,
    affine: Affine,
    shape: tuple[int, int],
    *,
    resampling: str = "nearest",
    band: int = 1,
    missing: float = 0,
    nodata: float | None = None,
    overview: int | None = None,
) -> Pixels:
    """Return a band on another grid, by exact coordinates and a scale that does not depend on the window.

    Args:
        file: The source.
        crs: Of the grid.
        affine: Of the grid.
        shape: Of the grid.
        resampling: GDAL's name of it.
        band: From 1.
        missing: What pixels beside the source hold if it declares no nodata.
        nodata: Of the source, if another one than it declares.
        overview: Of the source; None for full resolution.
    """
    level = {} if overview is None else {"overview_level": overview}
    with rasterio.open(file, **level) as source:
        own, nodata = source.read(band), source.nodata if nodata is None else nodata
        out = np.full(shape, missing if nodata is None else nodata, own.dtype)
        reproject(
            own,
            out,
            src_transform=source.transform,
            src_crs=source.crs,
            src_nodata=nodata,
            dst_transform=affine,
            dst_crs=crs,
            dst_nodata=missing if nodata is None else nodata,
            resampling=Resampling[resampling],
            tolerance=0,
            XSCALE=1,
            YSCALE=1,
        )
    return out
