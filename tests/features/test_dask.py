"""Cubes and joined cubes where dask is installed: pixels are chunked, and rows are grouped by coordinates."""

import shutil
import subprocess
from pathlib import Path

import pytest

from pixel_gather import join
from support.joined_cubes import gather_member

PROJECT = Path(__file__).parents[2]
PROGRAM = """
import sys
import dask
import xarray as xr
from pixel_gather import Gathered, open_cube, open_joined

gathered = Gathered(place=sys.argv[1], report=None, was_complete=True)
for cube in (gathered.open(), open_cube(sys.argv[1]), open_joined(sys.argv[2])):
    assert cube.band_1.chunks is not None
    assert all(each.chunks is None for each in cube.coords.values())
    grouped = cube.band_1.groupby("sat").mean()
    assert list(grouped.sat.values) == ["A", "B"], grouped
    assert grouped.compute().notnull().any()
    assert cube.band_1.where(cube.cloud < 20, drop=True).sizes["time"] == 2
print("grouped")
"""


@pytest.mark.long
def test_rows_are_grouped_by_their_coordinates(tmp_path: Path) -> None:
    """No library groups by a chunked coordinate. Pixels stay chunked."""
    gather_member(tmp_path / "a.zarr", n_rows=5, folder=tmp_path)
    join([tmp_path / "a.zarr"], to=tmp_path / "joined", keep=["cloud", "sat"])
    uv = shutil.which("uv")
    assert uv is not None, "uv is not on PATH: source scripts/setup.sh"

    ended = subprocess.run(  # noqa: S603 # our own words
        [
            uv,
            "run",
            "--project",
            str(PROJECT),
            "--locked",
            "--with",
            "dask[array]==2026.8.0",
            "python",
            "-c",
            PROGRAM,
            "a.zarr",
            "joined",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )

    assert ended.stdout == "grouped\n", ended.stderr
