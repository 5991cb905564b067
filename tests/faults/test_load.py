"""A small version of the part of `scripts/load` that runs in this process."""

import asyncio
from pathlib import Path

import xarray as xr

from faults.load import many_shards


def test_each_of_many_shards_is_in_the_cube(tmp_path: Path) -> None:
    """Planned, filled and finished over real files."""
    told: list[str] = []
    plan = asyncio.run(many_shards(tmp_path, 40, told.append))

    cube = xr.open_zarr(tmp_path / "cube", chunks=None)
    assert plan.n_rows == 40
    assert cube["status"].values.tolist() == [0] * 40
    assert cube["band_1"].values.all()
    assert [line.partition(":")[0] for line in told[-3:]] == ["shards", "finish", "control files"]
