"""Units of the sources' values, from the files to the cube and to what is made of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import xarray as xr
import zarr
from rasterio.transform import from_origin

from pixel_gather import Gathered, export
from support.undrawn import gather_undrawn


def _gathered(folder: Path, *units: tuple[str, ...], crs: str = "EPSG:4326") -> Gathered:
    """Gather one file of two bands for each of ``units``."""
    files = [folder / f"{n}.tif" for n in range(len(units))]
    for file, said in zip(files, units, strict=True):
        options: dict[str, Any] = {"crs": crs, "transform": from_origin(8, 47, 0.1, 0.1)}
        with rasterio.open(file, "w", width=16, height=16, count=2, dtype="int16", **options) as target:
            target.write(np.arange(512, dtype="int16").reshape(2, 16, 16))
            target.units = said
            target.scales, target.offsets = (0.1, 1.0), (-100.0, 0.0)
    request = {"sources": [str(file) for file in files], "window": {"pixels": [0, 0, 16, 16]}}
    return gather_undrawn(request, to=folder / "cube.zarr")


def _units(gathered: Gathered) -> list[str | None]:
    group = zarr.open_group(gathered.place, mode="r")
    return [group[name].attrs.get("units") for name in ("band_1", "band_2")]  # type: ignore[misc]


def test_a_cube_has_the_units_of_its_files(tmp_path: Path) -> None:
    """Xarray makes no durations of days."""
    gathered = _gathered(tmp_path, ("\u00b0C", "days"))

    assert _units(gathered) == ["\u00b0C", "day"]
    with xr.open_zarr(gathered.place) as opened:
        assert opened["band_2"].dtype.kind in "if"


@pytest.mark.parametrize(
    ("crs", "units"),
    [("EPSG:4326+5773", ("", "")), ("EPSG:4326+5773", ("mm", "")), ("EPSG:26910+6360", ("", ""))],
)
def test_heights_have_the_unit_of_their_crs(crs: str, units: tuple[str, ...], tmp_path: Path) -> None:
    """As GDAL has it: metres, or feet."""
    gathered = _gathered(tmp_path, units, crs=crs)

    with rasterio.open(tmp_path / "0.tif") as file:
        assert _units(gathered) == list(file.units)


def test_units_that_differ_are_not_said(tmp_path: Path) -> None:
    """The plan warns. The other band keeps its unit."""
    gathered = _gathered(tmp_path, ("mm", "K"), ("inch", "K"))

    assert _units(gathered) == [None, None]
    assert any("declare different units" in each for each in gathered.report.warnings)


def test_geotiffs_of_a_cube_have_its_units(tmp_path: Path) -> None:
    """Where one looks for them in the sources."""
    gathered = _gathered(tmp_path, ("mm", ""))
    (file,) = export(gathered.place, to=tmp_path / "row.tif")

    with rasterio.open(file) as opened:
        assert opened.units == ("mm", None)
        assert opened.scales == (0.1, 1.0)
