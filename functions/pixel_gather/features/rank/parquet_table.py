"""A ranking as a Parquet file: the columns of `pixel_gather.features.rank.table.COLUMNS`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pixel_gather.features.rank.table import COLUMNS
from pixel_gather.io.parquet.parquet_file import write_columns


def write_table(rows: Sequence[dict[str, Any]], path: Path, *, about: dict[str, Any]) -> None:
    """Write a ranking.

    The rows are those of `Ranking.rows`. Unknown values become nulls. ``about`` says what was asked, and what
    it cost. A file that is there is replaced.

    Raises:
        StoreError: The file cannot be written.
    """
    columns = {name: (kind, [_plain(row[name]) for row in rows]) for name, kind in COLUMNS.items()}
    write_columns(columns, path, about=about)


def _plain(value: Any) -> Any:
    """Return a list as JSON, and a number of NumPy as Python's."""
    if isinstance(value, list):
        return json.dumps(value)
    return value.item() if isinstance(value, np.generic) else value
