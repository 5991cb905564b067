"""Reads ``rows.parquet``: columns of a cube's rows, and where its shards are. No pixel is read."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pixel_gather.adapters.cube.row_table import METADATA_KEY
from pixel_gather.errors import StoreError
from pixel_gather.report.row_coordinates import NO_TIME, Values

if TYPE_CHECKING:
    from arro3.core import ChunkedArray


def read_table(
    content: bytes, names: Sequence[str] | None, *, place: str
) -> tuple[dict[str, Any], dict[str, Values]]:
    """Return the metadata of a table, and those of some columns that it has, by name.

    Args:
        content: Of the file.
        names: The columns; None for all. What the table does not have is left out.
        place: Its cube, for messages.

    Raises:
        StoreError: It is no table of a cube's rows.
    """
    import arro3.io  # noqa: PLC0415 # no worker needs it

    try:
        table = arro3.io.read_parquet(content, batch_size=1 << 20).read_all()
        metadata: Mapping[bytes, bytes] = table.schema.metadata
        told = json.loads(metadata[METADATA_KEY.encode()])
        there = [name for name in table.column_names if names is None or name in names]
        columns = {name: _values(name, table.column(name)) for name in there}
    except BaseException as error:  # arro3 raises many types, and panics where a footer is damaged
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise StoreError(f"{place}: its rows.parquet is damaged") from error
    return told, columns


def _values(name: str, column: "ChunkedArray") -> Values:
    """Return a column as the arrays of a cube hold it."""
    from arro3.core import Array, DataType, list_flatten  # noqa: PLC0415 # as above

    inner: list[int] = []
    whole: Any = column.combine_chunks()
    while DataType.is_fixed_size_list(whole.type):
        inner.append(int(whole.type.list_size))
        whole = list_flatten(whole)
        whole = whole if isinstance(whole, Array) else whole.combine_chunks()
    if name == "time":
        numbers = whole.cast(DataType.int64()).to_pylist()
        flat = np.array([NO_TIME if each is None else each for each in numbers], dtype="int64")
    elif DataType.is_string(whole.type):
        flat = np.array(whole.to_pylist(), dtype=object)
    else:
        flat = np.asarray(whole.to_numpy())
    return flat.reshape(-1, *inner)
