"""Zarr without shards: what an earlier GDAL reads equals the cube."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import xarray as xr
import zarr

from pixel_gather import RequestError, StoreError, export, open_cube
from support.command_line import run
from support.viewed_cubes import MISSING, SIDE, gathered_classes, gathered_valley


@pytest.fixture(scope="module")
def valley(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a cube of nine rows and four bands. One file is missing."""
    return gathered_valley(tmp_path_factory.mktemp("valley"), n_rows=9).place


@pytest.mark.long
def test_gdal_reads_the_pixels_place_and_nodata(valley: str, tmp_path: Path) -> None:
    """The GDAL that is there knows no shards. An array has its rows as bands."""
    (folder,) = export(valley, to=tmp_path / "x.zarr")

    group: Any = zarr.open_group(valley, mode="r")
    for name in ("red", "nir"):
        with rasterio.open(f'ZARR:"{folder}":/{name}') as opened:
            assert opened.count == 9
            assert (opened.read() == group[name][...]).all()
            assert opened.nodata == group[name].fill_value
            assert opened.crs == "EPSG:32632"
            assert opened.transform[:6] == tuple(group.attrs["spatial:transform"])
        with rasterio.open(f'ZARR:"{folder}":/{name}:{MISSING}') as opened:
            assert (opened.read(1) == group[name][MISSING]).all()


@pytest.mark.long
def test_xarray_reads_the_same_dataset(valley: str, tmp_path: Path) -> None:
    """With all coordinates and attributes, but for what makes it a cube of ours."""
    (folder,) = export(valley, to=tmp_path / "x.zarr")

    with xr.open_zarr(folder) as found, open_cube(valley) as expected:
        assert set(expected.attrs) - set(found.attrs) == {"pixel_gather", "complete"}
        xr.testing.assert_identical(
            found.assign_attrs({}), expected.drop_attrs(deep=False).assign_attrs(found.attrs)
        )


@pytest.mark.long
def test_rows_and_measurements_are_chosen(tmp_path: Path) -> None:
    """Coordinates have the same rows."""
    cube = gathered_classes(tmp_path).place
    (folder,) = export(cube, to=tmp_path / "x.zarr", measurements=["SCL"], where="time > 2025-01-10")

    with xr.open_zarr(folder) as found, open_cube(cube) as expected:
        assert "kind" not in found
        assert found.sizes["time"] == 3
        assert (found.href.values == expected.href.values[1:]).all()
        np.testing.assert_array_equal(found.SCL.values, expected.SCL.values[1:])
        assert found.SCL.chunks is None or found.SCL.chunks[0] == (1, 1, 1)
    array: Any = zarr.open_group(folder, mode="r")["SCL"]
    assert (array.chunks, array.shards) == ((1, SIDE, SIDE), None)


def test_the_command_says_that_it_wrote_a_group(
    valley: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is one folder of many objects, and no file."""
    assert run("export", valley, "--to", tmp_path / "x.zarr", "--measurement", "red") == 0

    printed = capsys.readouterr()
    assert printed.out == f"{tmp_path / 'x.zarr'}\n"
    assert printed.err.endswith("1 Zarr group written\n")


def test_a_folder_that_is_there_stays(valley: str, tmp_path: Path) -> None:
    """It may be the cube itself. Nothing is left of what failed."""
    with pytest.raises(StoreError, match=r"is there already: give another name$"):
        export(valley, to=valley)
    with pytest.raises(RequestError, match="no measurement 'x'"):
        export(valley, to=tmp_path / "x.zarr", measurements=["x"])

    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_folder_that_cannot_be_written_is_an_error(
    valley: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names it, and no part of it is left."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("zarr.consolidate_metadata", full)

    with pytest.raises(StoreError, match=r"x\.zarr cannot be written: No space left on device"):
        export(valley, to=tmp_path / "x.zarr")
    assert list(tmp_path.iterdir()) == []
