"""Describe a GDAL dataset as the JSON that becomes a Header."""

import functools
import re
from contextlib import suppress
from typing import Any, Final

import numpy as np
from rasterio._err import CPLE_BaseError
from rasterio.crs import CRS
from rasterio.enums import ColorInterp
from rasterio.errors import CRSError

from pixel_gather.core.model.band_meaning import MOST_CLASSES, kept_unit

_ROOT_CODE: Final = re.compile(r',AUTHORITY\["EPSG","(\d+)"\]\]$')
"""The code of the whole CRS: the last node at the outermost level of WKT 1."""

_SAYS_NOTHING: Final = ("undefined", "gray")
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
        "nodata": nodata_in(dataset.nodatavals[0], dtype),
        "scales": dataset.scales,
        "offsets": dataset.offsets,
        "geo_transform": None if geo_transform == _IDENTITY else geo_transform,
        "crs": None if dataset.crs is None else crs_name(dataset.crs.to_wkt()),
        "tile_width": block_width,
        "tile_height": block_height,
        "is_tiled": block_width != dataset.width,
        "meanings": meanings(dataset),
    }


def meanings(dataset: Any) -> list[tuple[str | None, list[tuple[int, str]], str]]:
    """Return what is said of each band: its colour, its palette, its unit. Empty if nothing is."""
    colours = [None if each.name in _SAYS_NOTHING else each.name for each in _colours(dataset)]
    palette = _palette(dataset) if colours == ["palette"] else []
    found = [
        (None if each == "palette" and not palette else each, palette, kept_unit(unit or ""))
        for each, unit in zip(colours, dataset.units, strict=True)
    ]
    return found if any(colour or unit for colour, _, unit in found) else []


def _colours(dataset: Any) -> tuple[ColorInterp, ...]:
    """Return GDAL's colour of each band.

    Rasterio raises the last error of GDAL here, even one that does no harm, such as a broken GeoKey. The
    error is forgotten then, so a second try succeeds.
    """
    with suppress(CPLE_BaseError):
        return tuple(dataset.colorinterp)
    return tuple(dataset.colorinterp)


def _palette(dataset: Any) -> list[tuple[int, str]]:
    """Return the colours of a palette that are not black, as in `pixel_gather.io.geotiff.band_meanings`."""
    try:
        colours = dataset.colormap(1)
    except ValueError:  # it has none
        return []
    if len(colours) > MOST_CLASSES:
        return []
    return [
        (value, f"#{red:02x}{green:02x}{blue:02x}")
        for value, (red, green, blue, _) in colours.items()
        if red or green or blue
    ]


def array_dtype(dataset: Any) -> np.dtype[Any]:
    """Return the dtype of pixels as read. NumPy has no complex integers: they become complex64."""
    name = dataset.dtypes[0]
    return np.dtype("complex64" if name == "complex_int16" else name)


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


def nodata_in(value: float | None, dtype: np.dtype[Any]) -> float | int | None:
    """Convert rasterio's nodata to the kind of the dtype. It already lies in the dtype's range."""
    if value is None or dtype.kind not in "iu":
        return value
    return int(value) if float(value).is_integer() else None
