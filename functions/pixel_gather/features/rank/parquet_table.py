"""A ranking as a Parquet file: the columns of `pixel_gather.features.rank.table.COLUMNS`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from pixel_gather.features.rank.table import COLUMNS
from pixel_gather.io.parquet.parquet_file import Column, write_columns

_WHOLE: Final = frozenset({"rank", "rank_low", "rank_high", "pixels", "bytes", "requests"})
_TEXTS: Final = frozenset({"id", "time", "level", "remarks", "status", "reason", "hrefs"})
_FLAGS: Final = frozenset({"kept"})


def write_table(rows: Sequence[dict[str, Any]], path: Path, *, about: dict[str, Any]) -> None:
    """Write a ranking.

    The rows are those of `Ranking.rows`. Unknown values become nulls. ``about`` says what was asked, and what
    it cost. A file that is there is replaced.

    Raises:
        StoreError: The file cannot be written.
    """
    columns = {name: _column(name, [row[name] for row in rows]) for name in COLUMNS}
    write_columns(columns, path, about=about)


def _column(name: str, values: list[Any]) -> Column:
    if name in _TEXTS:
        return "utf8", [json.dumps(each) if isinstance(each, list) else each for each in values]
    if name in _FLAGS:
        return "bool", values
    numbers = [None if each is None else np.asarray(each).item() for each in values]
    return ("int64" if name in _WHOLE else "float64"), numbers
