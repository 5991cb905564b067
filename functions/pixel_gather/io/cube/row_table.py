"""Writes and reads ``rows.parquet``: every coordinate of every row as a column, and the shards beside.

Whoever lists or joins many cubes reads this file instead of some twenty arrays. arro3 is imported where it
is used, because no worker needs it.
"""

import io
import json
import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np
import obstore

from pixel_gather.core.errors import StoreError
from pixel_gather.core.model.source import NO_INTEGER
from pixel_gather.core.plan.cube_plan import BANDS, CubePlan
from pixel_gather.core.results.row_coordinates import (
    CHUNK_ROWS,
    NO_BOOLEAN,
    NO_TIME,
    Values,
    are_booleans,
    missing_in,
)
from pixel_gather.io.parquet.parquet_batches import checked_batches
from pixel_gather.io.store.list_objects import list_objects
from pixel_gather.io.store.object_store import Store

if TYPE_CHECKING:
    from arro3.core import Array, RecordBatch

ROWS_KEY: Final = "rows.parquet"
CONTRIBUTORS_KEY: Final = "contributors.parquet"
"""What became of each source of rows that are reduced."""

METADATA_KEY: Final = "pixel_gather"
"""Key of the file's metadata that holds the JSON text of `cube_metadata`."""

_COMPRESSION: Final = "zstd(3)"


def cube_metadata(plan: CubePlan, shards: Sequence[tuple[str, int, str]]) -> dict[str, Any]:
    """Return what the file says of its cube besides its rows.

    Of each shard, it has the key, the size in bytes and the ETag.
    """
    told: dict[str, Any] = {} if not plan.bands_are_axis else {"band_axis": BANDS}
    return told | {
        "format": 1,
        "digest": plan.append.origin.get("digest", plan.digest),
        "version": plan.append.version,
        "dims": [plan.dim, "y", "x"],
        "shape": plan.shape,
        "shard": plan.layout.shard,
        "chunk": plan.layout.chunk,
        "codec": plan.codec,
        "dtypes": {each.name: each.dtype for each in plan.measurements},
        "shards": shards,
    }


def stored_shards(store: Store, plan: CubePlan) -> list[tuple[str, int, str]]:
    """Return `shards_below` of a planned cube.

    Shards beyond the cube's rows are left out: an append that was given up has left them.
    """
    n_shards, _ = plan.layout.n_shards(plan.shape)
    return shards_below(store, [each.name for each in plan.arrays], range(n_shards))


def shards_below(store: Store, arrays: Sequence[str], places: range) -> list[tuple[str, int, str]]:
    """Return key, size in bytes and ETag of each stored shard, in the order of rows for each array.

    S3 needs one request for 1,000 shards. Those at other places along the rows are left out, and so is what
    other programs have left, such as ``.DS_Store``.
    """
    found: list[tuple[str, int, str]] = []
    for name in arrays:
        there = {}
        for item in list_objects(store, f"{name}/c/"):
            at = item["path"].split("/")[2:]
            if all(map(str.isdecimal, at)) and int(at[0]) in places:
                there[tuple(map(int, at))] = (item["path"], item["size"], item["e_tag"] or "")
        found += [there[at] for at in sorted(there)]
    return found


def write_row_table(
    batches: Iterator[Mapping[str, Values]], file: IO[bytes], *, metadata: Mapping[str, Any]
) -> None:
    """Write the table while its batches arrive. Holds one batch in memory.

    All batches have the same names.
    """
    from arro3.core import RecordBatchReader  # noqa: PLC0415 # see above
    from arro3.io import write_parquet  # noqa: PLC0415 # as above

    first = _to_batch(next(batches))
    write_parquet(
        RecordBatchReader.from_batches(first.schema, chain([first], map(_to_batch, batches))),
        file,
        compression=_COMPRESSION,
        max_row_group_size=CHUNK_ROWS,
        key_value_metadata={METADATA_KEY: json.dumps(metadata)},
    )


def read_row_table(
    content: bytes, names: Collection[str] | None = None
) -> tuple[dict[str, Any], Iterator[dict[str, Values]]]:
    """Return `cube_metadata` and the values of consecutive rows, in batches, of a whole table.

    Without names, it has all columns. What the table does not have is left out.

    Raises:
        RequestError: Its pages unpack to more than `check_pages` allows.
        ParquetError: It is damaged.
        ValueError: Its headers or its metadata are.
    """
    schema, batches = checked_batches(io.BytesIO(content), field=ROWS_KEY, batch_size=CHUNK_ROWS)
    metadata: dict[str, Any] = json.loads(schema.metadata[METADATA_KEY.encode()])
    there = [name for name in schema.names if names is None or name in names]
    return metadata, ({name: _values(name, batch) for name in there} for batch in batches)


def read_contributors(store: Store) -> dict[str, Values]:
    """Return the table of the sources that rows were reduced of. Errors as in `read_row_table`."""
    _, batches = read_row_table(bytes(obstore.get(store, CONTRIBUTORS_KEY).bytes()))
    parts = list(batches)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _values(name: str, batch: "RecordBatch") -> Values:
    """Return a column as `write_row_table` was given it."""
    from arro3.core import DataType, list_flatten  # noqa: PLC0415 # see above

    column, lengths = batch.column(name), [batch.num_rows]
    while DataType.is_fixed_size_list(column.type):
        lengths.append(column.type.list_size or 0)
        column = list_flatten(column)
    if name == "time":
        times = column.cast(DataType.int64()).to_pylist()
        return np.array([NO_TIME if each is None else each for each in times], dtype="int64")
    if DataType.is_string(column.type):
        return np.array(column.to_pylist(), dtype=object).reshape(lengths)
    if column.null_count:
        dtype, missing = ("uint8", NO_BOOLEAN) if DataType.is_boolean(column.type) else ("int64", NO_INTEGER)
        told = [missing if each is None else each for each in column.to_pylist()]
        return np.array(told, dtype=dtype).reshape(lengths)
    return np.asarray(column.to_numpy()).reshape(lengths)


def _to_batch(values: Mapping[str, Values]) -> "RecordBatch":
    from arro3.core import RecordBatch  # noqa: PLC0415 # see above

    names = list(values)
    return RecordBatch.from_arrays([_column(name, values[name]) for name in names], names=names)


def _column(name: str, values: Values) -> "Array":
    """Return a column. Further dimensions become lists of fixed size."""
    from arro3.core import Array, DataType, fixed_size_list_array  # noqa: PLC0415 # see above

    flat = values.ravel()
    if name == "time":
        told = [None if each == NO_TIME else each for each in flat.tolist()]
        column = Array(told, DataType.int64()).cast(DataType.timestamp("us", tz="UTC"))
    elif values.dtype == object:
        column = Array(flat.tolist(), DataType.string())
    elif are_booleans(name, values):
        column = Array(
            [None if each == NO_BOOLEAN else bool(each) for each in flat.tolist()], DataType.bool()
        )
    elif values.dtype == np.int64 and missing_in(name, flat).any():
        told = [None if each == NO_INTEGER else each for each in flat.tolist()]
        column = Array(told, DataType.int64())
    else:
        column = Array.from_numpy(np.ascontiguousarray(flat))
    for length in reversed(values.shape[1:]):
        column = fixed_size_list_array(column, length)
    return column


_at_once: Final = threading.BoundedSemaphore(os.process_cpu_count() or 1)
"""A join reads many tables in many threads. Each is decoded in a process of its own."""


def read_table(
    content: bytes, names: Collection[str] | None, *, place: str
) -> tuple[dict[str, Any], dict[str, Values]]:
    """Return the metadata of a table, and some of its columns by name.

    Without names, these are all. What the table does not have is left out.

    Raises:
        StoreError: It is no table of a cube's rows.
    """
    try:
        with _at_once:
            told, batches = read_row_table(content, names)
            parts = list(batches)
        columns = {name: np.concatenate([part[name] for part in parts]) for name in (parts or [{}])[0]}
    except Exception as error:  # metadata and columns of others fail in many ways
        raise StoreError(f"{place}: its rows.parquet is damaged") from error
    return told, columns
