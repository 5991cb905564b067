"""Writes a table as a Parquet file on this machine. arro3 is imported here: 0.1 s, for Parquet alone."""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import copyfileobj
from typing import TYPE_CHECKING, Any, Literal

from pixel_gather.io.atomic_write import replacing

if TYPE_CHECKING:
    from arro3.core import Table

type Column = tuple[Literal["bool", "float64", "int64", "utf8"], Sequence[Any]]
"""The type of a column, and its values; None for what is not known."""


def write_columns(columns: Mapping[str, Column], path: Path, *, about: Mapping[str, Any]) -> None:
    """Write columns by name, and what they are about, as JSON in the file's metadata ``pixel_gather``.

    The file replaces another one once it is complete.

    Raises:
        StoreError: The file cannot be written.
    """
    from arro3.core import Array, DataType, Field, Schema, Table  # noqa: PLC0415 # as above

    types = {name: getattr(DataType, kind)() for name, (kind, _) in columns.items()}
    arrays = [Array(values, types[name]) for name, (_, values) in columns.items()]
    fields = [Field(name, kind) for name, kind in types.items()]
    schema = Schema(fields, metadata={"pixel_gather": json.dumps(about)})
    with replacing(path) as partial:
        write_parquet_file(Table.from_arrays(arrays, schema=schema), partial)


def write_parquet_file(table: "Table", path: Path) -> None:
    """Write a file, or replace it. Holds the whole file in memory.

    arro3 panics if it writes to a disk that is full. So it writes to memory.

    Raises:
        OSError: The file cannot be written.
    """
    from arro3.io import write_parquet  # noqa: PLC0415 # as above

    written = io.BytesIO()
    write_parquet(table, written)
    written.seek(0)
    with path.open("wb") as file:
        copyfileobj(written, file)
