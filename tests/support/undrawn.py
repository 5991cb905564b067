"""Gathers in this process without a report, whose figures take seconds to draw."""

from functools import partial
from pathlib import Path
from typing import Final

import xarray as xr

from pixel_gather import gather
from pixel_gather.in_process.settings import Settings

gather_undrawn: Final = partial(gather, settings=Settings(draws_report=False))


def opened(place: Path) -> xr.Dataset:
    """Open a cube as it is stored."""
    cube: xr.Dataset = xr.open_zarr(place, mask_and_scale=False)
    return cube


def bare(cube: xr.Dataset) -> xr.DataArray:
    """Return the pixels of the first band alone, to be compared whatever their sources are called."""
    array: xr.DataArray = cube.band_1.drop_vars(list(cube.band_1.coords))
    return array
