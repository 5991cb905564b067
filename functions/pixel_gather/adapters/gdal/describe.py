"""Describe a GDAL dataset as the JSON that becomes a Header."""

import functools
import itertools
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from rasterio.crs import CRS
from rasterio.enums import Interleaving, MaskFlags
from rasterio.errors import CRSError
from rasterio.windows import Window

_ROOT_CODE: Final = re.compile(r',AUTHORITY\["EPSG","(\d+)"\]\]$')
"""The code of the whole CRS: the last node at the outermost level of WKT 1."""

_MOST_BLOCKS: Final = 4096
"""Most blocks whose offsets are looked up before a read."""

_IDENTITY: Final = (0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
"""GDAL's transform of a raster without georeference."""


def describe(dataset: Any) -> dict[str, Any]:
    """Return all fields of Header except href, etag, nbytes and overviews."""
    dtype = array_dtype(dataset)
    block_height, block_width = dataset.block_shapes[0]
    geo_transform = tuple(dataset.transform.to_gdal())
    return {
        "driver": dataset.driver,
        "width": dataset.width,
        "height": dataset.height,
        "n_bands": dataset.count,
        "dtype": dtype.name,
        "nodata": _nodata(dataset.nodatavals[0], dtype),
        "scales": dataset.scales,
        "offsets": dataset.offsets,
        "geo_transform": None if geo_transform == _IDENTITY else geo_transform,
        "crs": None if dataset.crs is None else crs_name(dataset.crs.to_wkt()),
        "tile_width": block_width,
        "tile_height": block_height,
        "is_tiled": block_width != dataset.width,
    }


def array_dtype(dataset: Any) -> np.dtype[Any]:
    """Return the dtype of pixels as read. NumPy has no complex integers: they become complex64."""
    name = dataset.dtypes[0]
    return np.dtype("complex64" if name == "complex_int16" else name)


def read_mask(dataset: Any, window: Window, bands: Sequence[int]) -> np.ndarray[Any, Any] | None:
    """Return GDAL's mask of a window, 0 where a pixel is hidden, or None where no mask is needed.

    All bands may share one mask, as that of an alpha band, or each may have its own. No mask is needed for
    pixels that hold the nodata value exactly. But GDAL also hides floating point values close to nodata, and
    truncates a nodata value of integers, such as 0.5.

    Returns:
        Shape (1, y, x) where all bands share a mask, else (band, y, x).
    """
    flags = [dataset.mask_flag_enums[band - 1] for band in bands]
    if all(MaskFlags.per_dataset in each for each in flags):
        return np.asarray(dataset.read_masks([bands[0]], window=window))
    if all(each == [MaskFlags.all_valid] for each in flags):
        return None
    is_plain = all(each in ([MaskFlags.nodata], [MaskFlags.all_valid]) for each in flags)
    if is_plain and all(_is_exact_nodata(dataset, band) for band in bands):
        return None
    return np.asarray(dataset.read_masks(bands, window=window))


def _is_exact_nodata(dataset: Any, band: int) -> bool:
    """Tell whether a band has no nodata value, or is of integers and has an integer as nodata."""
    value, dtype = dataset.nodatavals[band - 1], array_dtype(dataset)
    return value is None or (dtype.kind in "iu" and _nodata(value, dtype) is not None)


def stored_ranges(dataset: Any, window: Window, bands: Sequence[int]) -> list[tuple[int, int]]:
    """Return the byte ranges of the TIFF blocks that a window touches. Empty for one block or very many."""
    block_height, block_width = dataset.block_shapes[0]
    cols = range(window.col_off // block_width, -(-(window.col_off + window.width) // block_width))
    rows = range(window.row_off // block_height, -(-(window.row_off + window.height) // block_height))
    planes = bands[:1] if dataset.interleaving == Interleaving.pixel else bands
    if not 1 < len(cols) * len(rows) * len(planes) <= _MOST_BLOCKS:
        return []
    ranges = []
    for band, row, col in itertools.product(planes, rows, cols):
        offset = dataset.get_tag_item(f"BLOCK_OFFSET_{col}_{row}", "TIFF", bidx=band)
        nbytes = dataset.get_tag_item(f"BLOCK_SIZE_{col}_{row}", "TIFF", bidx=band)
        if offset and nbytes:
            ranges.append((int(offset), int(offset) + int(nbytes)))
    return ranges


@functools.lru_cache(maxsize=256)
def crs_name(wkt: str) -> str | None:
    """Return ``EPSG:n`` where the CRS is exactly that, else its WKT, or None where the WKT is empty."""
    code = _ROOT_CODE.search(wkt)
    if code is not None:
        try:
            if CRS.from_epsg(int(code[1])) == CRS.from_wkt(wkt):
                return f"EPSG:{code[1]}"
        except CRSError:
            return wkt
    return wkt or None


def _nodata(value: float | None, dtype: np.dtype[Any]) -> float | int | None:
    """Convert rasterio's nodata to the kind of the dtype. It already lies in the dtype's range."""
    if value is None or dtype.kind not in "iu":
        return value
    return int(value) if float(value).is_integer() else None
