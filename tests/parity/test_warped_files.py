"""Real files that are warped onto grids in four CRSs equal what GDAL's warper makes of them."""

from typing import Final

import numpy as np
import pytest
import rasterio
from rasterio._err import CPLE_BaseError
from rasterio.transform import Affine
from rasterio.warp import transform

from parity.truth import SMALL, Truth, truths
from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.model.grid_step import Resampling
from pixel_gather.core.model.window import Transform
from pixel_gather.core.plan.locate_window import Grid
from pixel_gather.core.plan.warped_grid import Warp, lay_warp
from pixel_gather.core.read.warp_pixels import warp_pixels
from pixel_gather.io.crs import RasterioProjector
from support.fakes import header_of
from support.projections import Pixels, warped_by_gdal

pytestmark = [
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
]

SIDE: Final = 100
_WAYS: Final[tuple[Resampling, ...]] = ("nearest", "bilinear", "cubic")
_MOST_PIXELS: Final = 4_000_000
_NO_TRANSFORM: Final = Affine(1, 0, 0, 0, -1, 0)
"""GDAL's warper takes it for no georeference at all."""

_OTHERWISE: Final = {
    "0_to_99.tif": "it goes beyond 90 degrees",
    "int8raw.tif": "it goes beyond 180 degrees, where GDAL turns around",
    "mercator1sp.tif": "an old datum: GDAL chooses the way to another one by where the source lies",
    "new_zealand_mapping_grid.tif": "an old datum",
    "test_hgrid_with_subgrid.tif": "an old datum",
}
"""Files that GDAL warps in another way, and why."""


def grids_of(source: rasterio.DatasetReader) -> list[Grid]:
    """Return grids around the middle of a file, with pixels about as wide as its own."""
    x, y = source.transform * (source.width / 2, source.height / 2)
    (longitude,), (latitude,) = transform(source.crs, "EPSG:4326", [x], [y])
    zone = int((longitude + 180) // 6) % 60 + 1
    found = []
    for crs in (f"EPSG:{(32600 if latitude >= 0 else 32700) + zone}", "EPSG:3857", "EPSG:4326", "EPSG:3035"):
        xs, ys = transform(source.crs, crs, [x, x + source.transform.a], [y, y + source.transform.e])
        width = max(abs(xs[1] - xs[0]), abs(ys[1] - ys[0]))
        if np.isfinite([*xs, *ys]).all() and width:
            west, north = xs[0] - width * SIDE / 2, ys[0] + width * SIDE / 2
            placed = Transform(width, 0, west, 0, -width, north)
            found.append(
                Grid(width=SIDE, height=SIDE, transform=placed, crs=crs, tile_width=9, tile_height=9)
            )
    return found


@pytest.mark.long
def test_warped_files_equal_gdals() -> None:
    """Bit for bit by nearest, and but for the last digits of floats by bilinear."""
    n = sum(n_compared(truth) for truth in truths(SMALL) if truth.path.name not in _OTHERWISE)

    assert n >= 20


def n_compared(truth: Truth) -> int:
    """Compare a file on all grids. Return on how many; 0 if it has no place, or GDAL cannot read it."""
    try:
        with rasterio.open(truth.path) as source:
            is_placed = source.crs is not None and source.transform not in (Affine.identity(), _NO_TRANSFORM)
            if not is_placed or source.width * source.height > _MOST_PIXELS or truth.dtype.kind == "c":
                return 0
            pixels, targets, nodata = source.read(1), grids_of(source), source.nodata
            placed, crs = Transform(*source.transform[:6]), source.crs.to_string()
    except (rasterio.errors.RasterioError, CPLE_BaseError):
        return 0
    header = header_of(pixels[None], truth.href, transform=placed, crs=crs)
    missing = (np.nan if truth.dtype.kind == "f" else 0) if nodata is None else nodata
    n = 0
    for target in targets:
        try:
            warp = lay_warp(header, target, RasterioProjector())
            check_equals(pixels, truth, warp, missing)
        except (RequestError, SourceError):  # its edges have no place there, or the map folds
            continue
        n += 1
    return n


def check_equals(pixels: Pixels, truth: Truth, warp: Warp, missing: float) -> None:
    """Compare both ways with GDAL's."""
    window, target = warp.window, warp.target
    assert target.transform is not None
    if window is None:  # no pixel of the grid is on it
        return
    own = pixels[None, window.row_off : window.row_stop, window.col_off : window.col_stop].copy()
    for way in _WAYS:
        if way != "nearest" and truth.dtype.name in ("int64", "uint64"):
            continue
        out = np.empty((1, SIDE, SIDE), own.dtype)
        warp_pixels(
            own,
            out,
            warp=warp,
            resampling=way,
            nodata=missing,
            fill_value=missing,
            projector=RasterioProjector(),
        )
        expected = warped_by_gdal(
            truth.path,
            target.crs or "",
            Affine(*target.transform),
            (SIDE, SIDE),
            resampling=way,
            nodata=missing,
        )
        exact = 0 if way == "nearest" else 1e-6
        np.testing.assert_allclose(out[0], expected, rtol=exact, atol=0, err_msg=f"{truth.file} {target.crs}")
