"""Writes a table as a Parquet file on this machine."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arro3.core import Table


def write_parquet_file(table: "Table", path: Path) -> None:
    """Write a file, or replace it. Holds the whole file in memory.

    arro3 panics if it writes to a disk that is full. So it writes to memory.

    Raises:
        OSError: The file cannot be written.
    """
    from arro3.io import write_parquet  # noqa: PLC0415 # 0.1 s, for Parquet alone

    written = io.BytesIO()
    write_parquet(table, written)
    path.write_bytes(written.getbuffer())
