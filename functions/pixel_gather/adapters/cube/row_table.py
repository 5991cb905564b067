"""Writes ``rows.parquet``: every coordinate of every row as a column, and the shards in its metadata.

Whoever lists or joins many cubes reads this file instead of some twenty arrays. arro3 is imported where it
is used, because no worker needs it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np
import obstore

from pixel_gather.adapters.object_store.object_store import Store
from pixel_gather.plan.cube_plan import CubePlan
from pixel_gather.report.row_coordinates import CHUNK_ROWS, NO_TIME, Values

if TYPE_CHECKING:
    from arro3.core import Array, RecordBatch

ROWS_KEY: Final = "rows.parquet"
METADATA_KEY: Final = "pixel_gather"
"""Key of the file's metadata that holds the JSON text of `cube_metadata`."""

_COMPRESSION: Final = "zstd(3)"


def cube_metadata(plan: CubePlan, shards: Sequence[tuple[str, int, str]]) -> dict[str, Any]:
    """Return what the file says of its cube besides its rows.

    Args:
        plan: The cube.
        shards: Key, size in bytes and ETag of each shard.
    """
    return {
        "format": 1,
        "digest": plan.digest,
        "dims": [plan.dim, "y", "x"],
        "shape": plan.shape,
        "shard": plan.layout.shard,
        "chunk": plan.layout.chunk,
        "codec": plan.codec,
        "dtypes": {each.name: each.dtype for each in plan.measurements},
        "shards": shards,
    }


def stored_shards(store: Store, plan: CubePlan) -> list[tuple[str, int, str]]:
    """Return key, size in bytes and ETag of each stored shard, in the order of rows for each measurement.

    S3 needs one request for 1,000 shards.
    """
    found: list[tuple[str, int, str]] = []
    for each in plan.measurements:
        there = [item for page in obstore.list(store, f"{each.name}/c/") for item in page]
        there.sort(key=lambda item: [int(part) for part in item["path"].split("/")[2:]])
        found += [(item["path"], item["size"], item["e_tag"] or "") for item in there]
    return found


def write_row_table(
    batches: Iterator[Mapping[str, Values]], file: IO[bytes], *, metadata: Mapping[str, Any]
) -> None:
    """Write the table while its batches arrive. Holds one batch in memory.

    Args:
        batches: Values of consecutive rows by name. All batches have the same names.
        file: Where to write.
        metadata: From `cube_metadata`.
    """
    from arro3.core import RecordBatchReader  # noqa: PLC0415 # see above
    from arro3.io import write_parquet  # noqa: PLC0415 # as above

    first = _to_batch(next(batches))

    def all_batches() -> Iterator["RecordBatch"]:
        yield first
        yield from map(_to_batch, batches)

    write_parquet(
        RecordBatchReader.from_batches(first.schema, all_batches()),
        file,
        compression=_COMPRESSION,
        max_row_group_size=CHUNK_ROWS,
        key_value_metadata={METADATA_KEY: json.dumps(metadata)},
    )


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
    else:
        column = Array.from_numpy(np.ascontiguousarray(flat))
    for length in reversed(values.shape[1:]):
        column = fixed_size_list_array(column, length)
    return column
