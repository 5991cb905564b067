"""stackstac: STAC items stacked into a Dask array, computed by a pool of threads."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import stackstac
import stackstac.prepare

from benchmarks.peers.scenes import BAND, BOUNDS, EPSG, PIXEL_M, unsigned_s3
from benchmarks.workload import TILE


class _Pandas2:
    """pandas as stackstac 0.5.0 knows it: version 3 took an argument away that had no effect any more."""

    def __getattr__(self, name: str) -> Any:
        return getattr(pd, name)

    def to_datetime(self, times: Any, *, infer_datetime_format: bool, errors: Any) -> Any:
        del infer_datetime_format
        return pd.to_datetime(times, errors=errors)


stackstac.prepare.pd = _Pandas2()


def load_items(hrefs: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    """Return the items as a search of a catalogue gives them."""
    del hrefs
    items: list[dict[str, Any]] = json.loads((folder / "items.json").read_bytes())
    return items


def read_tiles(
    hrefs: Sequence[str], out: object, *, concurrency: int, prepared: list[dict[str, Any]]
) -> np.ndarray[Any, Any]:
    """Return each source's centre tile, shape (source, y, x): one time step for each item."""
    del out
    os.environ.update(unsigned_s3(hrefs))
    stack = stackstac.stack(
        prepared,
        assets=[BAND],
        epsg=EPSG,
        bounds=BOUNDS,
        resolution=PIXEL_M,
        snap_bounds=False,  # the files' own grid does not begin at a multiple of 30 m
        dtype=np.dtype("uint16"),
        fill_value=np.uint16(0),
        rescale=False,
        chunksize=TILE,
        properties=False,
    )
    computed: np.ndarray[Any, Any] = stack.data.compute(scheduler="threads", num_workers=concurrency)
    return computed[:, 0]
