"""Opens a table as an xarray Dataset over features and times."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from pixel_gather.core.errors import StoreError
from pixel_gather.core.extras import check_extra
from pixel_gather.tables.features import LONLAT
from pixel_gather.tables.open_table import open_table
from pixel_gather.tables.write_table import side_path

_FIXED: Final = ("id", "time", "feature_time", "days_apart", "scene", "href", "status", "reason")


def open_zones(
    table: str | os.PathLike[str],
    *,
    ids: Sequence[object] | None = None,
    columns: Sequence[str] | None = None,
) -> Any:
    """Open a table of `points` or `zones` as a Dataset of xarray with the dimensions geometry and time.

    The coordinate ``geometry`` has shapes of shapely, as xvec takes them:
    ``ds.xvec.set_geom_indexes("geometry", crs=ds.geometry.attrs["crs"])``. ``id`` lies along it. If several
    images have one time, the first of them with a value counts. A pair without a line has NaN.

    Args:
        table: The Parquet file.
        ids: Only these features.
        columns: Only these values; ``valid`` is one of them.

    Raises:
        StoreError: There is no such table, or an id repeats among the features.
        MissingExtraError: xarray, pandas or pyarrow is not installed.
    """
    check_extra("xarray", "tables as a Dataset")
    import pyarrow.parquet as pq  # noqa: PLC0415 # seldom installed
    import shapely  # noqa: PLC0415 # for shapes alone
    import xarray as xr  # noqa: PLC0415 # seldom installed

    lines = open_table(table, ids=ids)
    features = pq.read_table(side_path(Path(table).expanduser(), "features"))
    keys = np.array(features["id"].to_pylist(), object)
    wanted = np.ones(len(keys), np.bool_) if ids is None else np.isin(keys, np.array(list(ids), object))
    keys = keys[wanted]
    if len(set(keys.tolist())) < len(keys):
        raise StoreError(f"{table}: an id repeats among the features, so a Dataset cannot tell them apart")
    shapes = np.array(features["geometry"].to_pylist(), object)[wanted]
    lines = lines[lines["id"].notna() & lines["time"].notna()]
    times = np.sort(lines["time"].dt.tz_localize(None).unique()).astype("datetime64[us]")
    place = {key: number for number, key in enumerate(keys.tolist())}
    rows = lines["id"].map(place).to_numpy(np.int64)
    at = np.searchsorted(times, lines["time"].dt.tz_localize(None).to_numpy("datetime64[us]"))
    names = [name for name in lines.columns if name not in _FIXED and (columns is None or name in columns)]
    crs = json.loads(features.schema.metadata[b"geo"])["columns"]["geometry"].get("crs", LONLAT)
    found = {
        name: _grid(lines[name].to_numpy(np.float64), rows, at, (len(keys), len(times))) for name in names
    }
    return xr.Dataset(
        {name: (("geometry", "time"), values) for name, values in found.items()},
        coords={
            "geometry": ("geometry", shapely.from_wkb(shapes), {"crs": _crs_text(crs)}),
            "id": ("geometry", keys),
            "time": times,
        },
    )


def _grid(
    values: np.ndarray[Any, Any],
    rows: np.ndarray[Any, Any],
    cols: np.ndarray[Any, Any],
    shape: tuple[int, int],
) -> np.ndarray[Any, Any]:
    """Return values by feature and time; of several, the first that is no NaN."""
    grid = np.full(shape, np.nan)
    known = np.flatnonzero(np.isfinite(values))[::-1]  # the last write of a place is the first of its lines
    grid[rows[known], cols[known]] = values[known]
    return grid


def _crs_text(crs: Any) -> str:
    if not isinstance(crs, dict):
        return str(crs)
    code = crs.get("id")
    return f"{code['authority']}:{code['code']}" if code else json.dumps(crs)
