"""odc-stac: STAC items loaded onto one grid by a pool of threads, without Dask. And written by xarray."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import odc.stac
import pystac
import xarray as xr
from odc.geo.geobox import GeoBox

from benchmarks.gathers import WrittenCube, write_cube
from benchmarks.peers.careful_threads import ENCODING
from benchmarks.peers.scenes import BAND, BOUNDS, EPSG, unsigned_s3
from benchmarks.workload import TILE


def load_items(hrefs: Sequence[str], folder: Path) -> list[pystac.Item]:
    """Return the items as a search of a catalogue gives them."""
    del hrefs
    return [pystac.Item.from_dict(item) for item in json.loads((folder / "items.json").read_bytes())]


def read_tiles(
    hrefs: Sequence[str], out: object, *, concurrency: int, prepared: list[pystac.Item]
) -> np.ndarray[Any, Any]:
    """Return each source's centre tile, shape (source, y, x): one time step for each item."""
    del out
    return np.asarray(_load(hrefs, prepared, concurrency)[BAND])


def gather(
    hrefs: Sequence[str], out: object, *, concurrency: int, prepared: list[pystac.Item]
) -> WrittenCube:
    """Load the centre tiles of all files into memory, and write them with our chunks and codec."""
    del out

    def write(to: str) -> str:
        _load(hrefs, prepared, concurrency).to_zarr(to, encoding={BAND: ENCODING})
        return f"{to}/{BAND}"

    return write_cube(write)


def _load(hrefs: Sequence[str], items: list[pystac.Item], n_threads: int) -> xr.Dataset:
    os.environ.update(unsigned_s3(hrefs))
    odc.stac.configure_rio(cloud_defaults=True)  # as its notebooks begin
    found: xr.Dataset = odc.stac.load(
        items,
        bands=[BAND],
        geobox=GeoBox.from_bbox(BOUNDS, crs=f"EPSG:{EPSG}", shape=(TILE, TILE), tight=True),
        groupby="id",
        pool=n_threads,
    )
    return found
