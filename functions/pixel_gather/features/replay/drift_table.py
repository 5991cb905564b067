"""What a replay found of each source, as a Parquet file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pixel_gather.core.results.find_drift import COLUMNS, SourceDrift
from pixel_gather.io.parquet.parquet_file import Column, write_columns


def write_drifts(drifts: Sequence[SourceDrift], path: Path, *, about: Mapping[str, Any]) -> None:
    """Write one line for each source, for the same ones, too. A file that is there is replaced.

    Raises:
        StoreError: The file cannot be written.
    """
    rows = [each.to_json() for each in drifts]
    columns: dict[str, Column] = {
        name: ("int64" if name == "row" else "utf8", [row[name] for row in rows]) for name in COLUMNS
    }
    write_columns(columns, path, about=about)
