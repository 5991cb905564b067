"""Nodata that a list claims of files that declare none, each another one: no mean and no row takes it in."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.transform import from_origin

from features.test_warp import affine_of
from pixel_gather import replay, verify
from support.projections import warped_by_gdal
from support.undrawn import gather_undrawn, opened

CLAIMED = (0, 7)
LEFT, TOP, N = 500_000, 5_000_000, 96
REQUEST: dict[str, Any] = {"window": {"bbox": [LEFT, TOP - 10 * N, LEFT + 10 * N, TOP], "crs": "EPSG:32632"}}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Return files of one place, in which three pixels of ten hold what the list claims as nodata."""
    return [_write(tmp_path / f"{claimed}.tif", claimed) for claimed in CLAIMED]


def _write(file: Path, claimed: float, *, dtype: str = "uint16") -> str:
    random = np.random.default_rng(int(claimed))
    pixels = random.integers(1000, 1010, (1, N, N)).astype(dtype)
    pixels[random.random(pixels.shape) < 0.3] = claimed
    profile = {"driver": "GTiff", "height": N, "width": N, "count": 1, "dtype": dtype, "crs": "EPSG:32632"}
    with rasterio.open(file, "w", **profile, transform=from_origin(LEFT, TOP, 10, 10)) as target:
        target.write(pixels)
    return str(file)


def _listed(files: list[str], *claimed: float) -> Path:
    listed = Path(files[0]).with_name("list.csv")
    lines = [f"{file},2020-01-01,1,0,{each}\n" for file, each in zip(files, claimed, strict=True)]
    listed.write_text("".join(["href,time,scale,offset,nodata_claimed\n", *lines]))
    return listed


def _pixels(file: str, claimed: float) -> np.ndarray[Any, Any]:
    with rasterio.open(file) as source:
        own: np.ndarray[Any, Any] = source.read(1).astype("float64")
    own[own == claimed] = np.nan
    return own


def _mean(of_each: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    with warnings.catch_warnings(action="ignore"):  # where all are missing
        mean: np.ndarray[Any, Any] = np.nanmean(of_each, axis=0).astype("float32")
    return mean


@pytest.mark.long
@pytest.mark.parametrize("resampling", ["nearest", "bilinear", "cubic"])
def test_warps_leave_it_out(tmp_path: Path, files: list[str], resampling: str) -> None:
    """Rows equal what GDAL makes of the files with this nodata, also where they are reduced."""
    grid = {"crs": "EPSG:3857", "resolution": 20, "resampling": resampling}
    request = REQUEST | {"sources": _listed(files, *CLAIMED), "grid": grid, "values": "scaled"}

    gather_undrawn(request, to=tmp_path / "cube")
    gather_undrawn(request | {"reduce": {"by": "day", "statistic": "mean"}}, to=tmp_path / "mean")

    cube = opened(tmp_path / "cube")
    found, affine = cube["band_1"].values, affine_of(cube)
    expected = np.empty(found.shape)
    for row, (file, claimed) in enumerate(zip(files, CLAIMED, strict=True)):
        options: dict[str, Any] = {"resampling": resampling, "nodata": claimed}
        warped = warped_by_gdal(file, "EPSG:3857", affine, found.shape[1:], **options)
        expected[row] = np.where(warped == claimed, np.nan, warped)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(opened(tmp_path / "mean")["band_1"].values[0], _mean(expected))
    assert replay(tmp_path / "cube").is_same


@pytest.mark.parametrize("values", ["scaled", "harmonised"])
def test_larger_pixels_leave_it_out(tmp_path: Path, files: list[str], values: str) -> None:
    """Means of four pixels. Where all of them hold it, the row has its own nodata, or NaN."""
    grid = {"resolution": 20, "resampling": "average"}
    request = REQUEST | {"sources": _listed(files, *CLAIMED), "grid": grid, "values": values}

    gather_undrawn(request, to=tmp_path / "cube")

    cube = opened(tmp_path / "cube")
    for row, (file, claimed) in enumerate(zip(files, CLAIMED, strict=True)):
        blocks = _pixels(file, claimed).reshape(N // 2, 2, N // 2, 2)
        with warnings.catch_warnings(action="ignore"):  # where all are missing
            expected = np.floor(np.nanmean(blocks, axis=(1, 3)) + 0.5)
        missing = np.nan if values == "scaled" else claimed
        expected = np.where(np.isnan(expected), missing, expected)
        np.testing.assert_array_equal(cube["band_1"].values[row], expected)
    if values == "harmonised":
        assert cube["nodata"].values.tolist() == list(CLAIMED)
    assert verify(tmp_path / "cube").is_same


def test_harmonised_scenes_are_reduced_without_it(tmp_path: Path, files: list[str]) -> None:
    """Also on the files' own grid. Before, the pixels that no offset was added to counted as values."""
    request = REQUEST | {"sources": _listed(files, *CLAIMED), "values": "harmonised"}

    gather_undrawn(request | {"reduce": {"by": "day", "statistic": "mean"}}, to=tmp_path / "cube")

    of_each = np.stack([_pixels(*each) for each in zip(files, CLAIMED, strict=True)])
    found = opened(tmp_path / "cube")["band_1"].values[0]
    np.testing.assert_array_equal(found, _mean(of_each))


@pytest.mark.parametrize("claimed", [-9999, 65536, 0.5, "nan"])
def test_what_no_pixel_can_hold_hides_none(tmp_path: Path, files: list[str], claimed: Any) -> None:
    """Catalogs claim such numbers of whole ones. Before, the gather ended with an exception."""
    request = REQUEST | {"sources": _listed(files, claimed, claimed), "values": "scaled"}

    gathered = gather_undrawn(request, to=tmp_path / "cube")

    assert gathered.report.n_failed == 0
    assert not np.isnan(opened(tmp_path / "cube")["band_1"].values).any()
