"""Where a cube says that it lies on the map."""

from pathlib import Path

import numpy as np
import pytest
import rasterio
import xarray as xr
from rasterio.transform import Affine

from support.undrawn import gather_undrawn


@pytest.mark.parametrize(("height", "is_told"), [(-10, True), (10, False)], ids=["usable", "singular"])
def test_a_transform_that_no_place_can_be_found_by_is_not_told(
    tmp_path: Path, height: int, *, is_told: bool
) -> None:
    """All pixels of a singular one lie on a line. The CRS holds all the same."""
    transform = Affine(10, 10, 500_000, 10, height, 5_000_000)
    pixels = np.ones((1, 64, 64), "uint8")
    profile = {"driver": "GTiff", "width": 64, "height": 64, "count": 1, "dtype": "uint8"}
    with rasterio.open(tmp_path / "a.tif", "w", **profile, crs="EPSG:32632", transform=transform) as file:
        file.write(pixels)

    request = {"sources": [str(tmp_path / "a.tif")], "window": {"pixels": [0, 0, 32, 32]}}
    gather_undrawn(request, to=tmp_path / "cube")

    cube = xr.open_zarr(tmp_path / "cube")
    assert ("spatial:transform" in cube.attrs) is is_told
    assert ("GeoTransform" in cube.spatial_ref.attrs) is is_told
    assert cube.attrs["proj:code"] == "EPSG:32632"
