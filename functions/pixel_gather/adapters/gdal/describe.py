"""What GDAL's dataset tells, as the JSON that becomes a Header."""

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
"""The code that GDAL attached to the CRS as a whole: the last node of WKT 1 at its outermost level."""

_MOST_BLOCKS: Final = 4096
"""Whose places are asked for before a read."""

_IDENTITY: Final = (0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
"""GDAL's answer for a raster that is not placed on the map."""


def describe(dataset: Any) -> dict[str, Any]:
    """Return all fields of Header but href, etag, nbytes and overviews."""
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
    """Return the dtype that reading gives; NumPy has no complex integers."""
    name = dataset.dtypes[0]
    return np.dtype("complex64" if name == "complex_int16" else name)


def read_mask(dataset: Any, window: Window, bands: Sequence[int]) -> np.ndarray[Any, Any] | None:
    """Return what GDAL hides of a window, 0 where it is hidden, or None where nothing of it can be.

    A mask may be shared by all bands, as an alpha band's is, or be each band's own. Pixels that hold the
    nodata value exactly say so by themselves. GDAL also hides floating point values next to it, and cuts a
    nodata value like 0.5 down to an integer.

    Returns:
        Shape (1, y, x) where one mask is for all bands, else (band, y, x).
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
    """Tell whether a band's nodata is none, or an integer among integers."""
    value, dtype = dataset.nodatavals[band - 1], array_dtype(dataset)
    return value is None or (dtype.kind in "iu" and _nodata(value, dtype) is not None)


def stored_ranges(dataset: Any, window: Window, bands: Sequence[int]) -> list[tuple[int, int]]:
    """Return where the TIFF blocks lie that a window touches; nothing where that is not worth asking."""
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
    """Return ``EPSG:n`` where the CRS is exactly that, else its WKT, or None where that is empty."""
    code = _ROOT_CODE.search(wkt)
    if code is not None:
        try:
            if CRS.from_epsg(int(code[1])) == CRS.from_wkt(wkt):
                return f"EPSG:{code[1]}"
        except CRSError:
            return wkt
    return wkt or None


def _nodata(value: float | None, dtype: np.dtype[Any]) -> float | int | None:
    """Return rasterio's nodata (already in the dtype's range) as a value of the dtype's kind."""
    if value is None or dtype.kind not in "iu":
        return value
    return int(value) if float(value).is_integer() else None
