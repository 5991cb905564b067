"""A ranking as a Parquet file: the columns of `pixel_gather.features.rank.table.COLUMNS`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from pixel_gather.core.errors import errors_of_writing
from pixel_gather.features.rank.table import COLUMNS
from pixel_gather.io.parquet.parquet_file import write_parquet_file

_WHOLE: Final = frozenset({"rank", "rank_low", "rank_high", "pixels", "bytes", "requests"})
_TEXTS: Final = frozenset({"id", "time", "level", "remarks", "status", "reason", "hrefs"})
_FLAGS: Final = frozenset({"kept"})


def write_table(rows: Sequence[dict[str, Any]], path: Path, *, about: dict[str, Any]) -> None:
    """Write a ranking.

    Args:
        rows: From `pixel_gather.features.rank.table.Ranking.rows`. Unknown values become nulls.
        path: A local file. It is replaced.
        about: What was asked and what it cost. Stored as JSON in the file's metadata ``pixel_gather``.

    Raises:
        StoreError: The file cannot be written.
    """
    from arro3.core import Array, DataType, Field, Schema, Table  # noqa: PLC0415 # 0.1 s, for Parquet alone

    def column(name: str) -> tuple[Any, Any]:
        values = [row[name] for row in rows]
        if name in _TEXTS:
            kind = DataType.utf8()
            values = [json.dumps(each) if isinstance(each, list) else each for each in values]
        elif name in _FLAGS:
            kind = DataType.bool()
        else:
            kind = DataType.int64() if name in _WHOLE else DataType.float64()
            values = [None if each is None else np.asarray(each).item() for each in values]
        return Field(name, kind), Array(values, kind)

    fields, arrays = zip(*(column(name) for name in COLUMNS), strict=True)
    schema = Schema(fields, metadata={"pixel_gather": json.dumps(about)})
    with errors_of_writing(path):
        write_parquet_file(Table.from_arrays(arrays, schema=schema), path)
