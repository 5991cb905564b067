"""Opens a table as a data frame, or as arrays with a geometry, with only the features that are wanted."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.extras import check_extra
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.tables.part_folder import NO_VALUES
from pixel_gather.tables.table_receipt import side_path, table_path

if TYPE_CHECKING:
    import xarray as xr

_MOST_NAMED: Final = 8
"""Ids in a message."""


@check_arguments
def open_table(
    table: str | os.PathLike[str],
    *,
    ids: Sequence[object] | None = None,
    columns: Sequence[str] | None = None,
    arrow: bool = False,
    features: bool = False,
) -> Any:
    """Open a table that `points` has written, as a data frame of pandas.

    Of a few ids, only the parts of the file with these ids are read.

    Args:
        table: The Parquet file, in a folder of this machine.
        ids: Only lines of these features.
        columns: Only these columns.
        arrow: Return an Arrow table of pyarrow instead.
        features: Add the features' own columns to each line.

    Raises:
        RequestError: It is on S3, and the message says how to copy it; or it has no such column, or no such
            ids.
        StoreError: There is no such table, or it cannot be read.
        MissingExtraError: pandas or pyarrow is not installed.
    """
    check_extra("tables", "tables in Python")
    import pyarrow.compute as pc  # noqa: PLC0415 # seldom installed
    import pyarrow.parquet as pq  # noqa: PLC0415 # seldom installed

    path = table_path(table)
    if not path.is_file():
        raise StoreError(f"{path}: no table is there; name the file that was given as --to")
    wanted = None if columns is None else list(dict.fromkeys(columns))
    with _blame_file(path):
        there = pq.read_schema(path)
        there.field("id"), there.field("time")
    if unknown := set(wanted or ()) - {*there.names}:
        raise RequestError(
            f"there is no column {min(unknown)}; there are {', '.join(there.names)}", field="columns"
        )
    asked = None if ids is None else _as_ids(ids, there.field("id").type)
    filters = None if asked is None else pc.field("id").isin(asked)
    needs_ids = features or asked is not None
    needed = wanted if wanted is None or not needs_ids else list(dict.fromkeys([*wanted, "id"]))
    found = pq.read_table(path, columns=needed, filters=filters)
    if asked is not None:
        _check_ids(asked, found["id"], path)
    if features:
        own = _features_of(path)
        kept = [name for name in own.column_names if name not in (*there.names, "geometry")]
        of_lines = own.select(kept).take(pc.index_in(found["id"], value_set=own["id"].combine_chunks()))
        found = found.select(there.names if wanted is None else wanted)
        for name in kept:
            found = found.append_column(name, of_lines[name])
    elif wanted is not None:
        found = found.select(wanted)
    return found if arrow else found.to_pandas()


def _as_ids(ids: Sequence[object], kind: Any) -> Any:
    """Return ids as an Arrow array of the type that they have in the table.

    Raises:
        RequestError: An id is not of this type.
    """
    import pyarrow as pa  # noqa: PLC0415 # seldom installed

    values = list(ids)
    try:
        pa.array(values).cast(kind)  # it refuses 1.5 for int64, of which the next line makes 1
        return pa.array(values, type=kind)
    except (TypeError, ValueError, NotImplementedError, OverflowError) as error:  # also pyarrow's
        raise RequestError(
            f"the ids of this table are of type {kind}; write such ids", field="ids"
        ) from error


def _check_ids(asked: Any, of_lines: Any, path: Path) -> None:
    """Refuse ids that the table lacks. A feature without a line is there, too.

    Raises:
        RequestError: The message names them, and some that are there.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 # seldom installed
    import pyarrow.parquet as pq  # noqa: PLC0415 # seldom installed

    missing = asked.filter(pc.invert(pc.is_in(asked, value_set=of_lines)))
    if not len(missing):
        return
    with _blame_file(side_path(path, "features")) as beside:
        there = pq.read_table(beside, columns=["id"])["id"]
    if unknown := missing.filter(pc.invert(pc.is_in(missing, value_set=there))).unique().to_pylist():
        raise RequestError(
            f"there is no feature {_some_of(unknown)}; there are {_some_of(there.to_pylist())}", field="ids"
        )


def _some_of(ids: Sequence[object]) -> str:
    """Return the first ids in words, and how many more there are."""
    n_more = len(ids) - _MOST_NAMED
    named = ", ".join(map(str, ids[:_MOST_NAMED]))
    return f"{named} and {n_more:,} more" if n_more > 0 else named


@check_arguments
def open_zones(table: str | os.PathLike[str], *, ids: Sequence[object] | None = None) -> "xr.Dataset":
    """Open a table that `zones` or `points` has written, as arrays of geometry and time.

    The shapes are shapely's, along ``geometry``, with ``id`` and the features' own columns beside them. So
    ``open_zones(table).xvec.set_geom_indexes("geometry", crs=...)`` works, with the CRS in the attribute
    ``crs``. A pair without a value is NaN. If a feature has several images of one time, the first with a
    value counts.

    Args:
        table: The Parquet file, in a folder of this machine.
        ids: Only these features.

    Raises:
        RequestError: As `open_table`.
        StoreError: There is no such table, it cannot be read, or an id repeats among its features.
        MissingExtraError: pandas, pyarrow or xarray is not installed.
    """
    check_extra("xarray", "arrays of tables")
    import shapely  # noqa: PLC0415 # seldom needed

    lines = open_table(table, ids=ids)
    path = table_path(table)
    own = _features_of(path)
    with _blame_file(path):
        try:
            return _arrays_of(lines, own, ids)
        except shapely.errors.ShapelyError as error:
            raise ValueError(str(error)) from error


def _arrays_of(lines: Any, own: Any, ids: Sequence[object] | None) -> "xr.Dataset":
    """Return the lines of a table, with the table of its features, as arrays."""
    import shapely  # noqa: PLC0415 # seldom needed
    import xarray as xr  # noqa: PLC0415 # seldom installed

    lines = lines[lines["id"].notna() & lines["time"].notna()]
    of_features = own.to_pandas()
    if ids is not None:
        of_features = of_features[of_features["id"].isin(list(ids))]
    times, at_time = np.unique(lines["time"].dt.tz_convert(None).to_numpy(), return_inverse=True)
    at = of_features.reset_index(drop=True).reset_index().set_index("id")["index"]
    at_feature = at.loc[lines["id"]].to_numpy()
    order = np.lexsort((-np.arange(len(lines)), lines["status"] == "ok"))  # of one place, the last one stays
    arrays = {}
    for name in [each for each in lines.columns if each not in NO_VALUES]:
        values = np.full((len(of_features), len(times)), np.nan)
        values[at_feature[order], at_time[order]] = lines[name].to_numpy()[order]
        arrays[name] = (("geometry", "time"), values)
    beside = {
        name: ("geometry", of_features[name].to_numpy())
        for name in of_features.columns
        if name not in ("geometry", "time", *arrays)
    }
    geo = json.loads(own.schema.metadata[b"geo"])["columns"]["geometry"]
    return xr.Dataset(
        arrays,
        coords={
            "geometry": shapely.from_wkb(of_features["geometry"].to_numpy()),
            "time": times,
            **beside,
        },
        attrs={"crs": json.dumps(geo["crs"]) if "crs" in geo else "OGC:CRS84"},
    )


def _features_of(path: Path) -> Any:
    """Return the table of features.

    Raises:
        StoreError: It cannot be read, or an id repeats.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 # seldom installed

    with _blame_file(side_path(path, "features")) as beside:
        own = pq.read_table(beside)
        is_unique = own.num_rows == len(own["id"].unique())
    if not is_unique:
        raise StoreError(f"{path}: an id repeats among the features, so their columns fit no line")
    return own


@contextmanager
def _blame_file(path: Path) -> Iterator[Path]:
    """Turn errors of reading a file of a table into a `StoreError` that names it."""
    try:
        yield path
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:  # also pyarrow's
        raise StoreError(f"{path} cannot be read as a file of a table: {error}") from error
