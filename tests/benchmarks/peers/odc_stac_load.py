"""odc-stac: STAC items loaded onto one grid by a pool of threads, without Dask."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import odc.stac
import pystac
from odc.geo.geobox import GeoBox

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
    os.environ.update(unsigned_s3(hrefs))
    odc.stac.configure_rio(cloud_defaults=True)  # as its notebooks begin
    found = odc.stac.load(
        prepared,
        bands=[BAND],
        geobox=GeoBox.from_bbox(BOUNDS, crs=f"EPSG:{EPSG}", shape=(TILE, TILE), tight=True),
        groupby="id",
        pool=concurrency,
    )
    return np.asarray(found[BAND])
