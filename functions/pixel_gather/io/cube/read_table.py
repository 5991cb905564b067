"""Reads a whole ``rows.parquet``: columns of a cube's rows, and where its shards are. No pixel is read."""

import os
import threading
from collections.abc import Collection
from typing import Any, Final

import numpy as np

from pixel_gather.core.errors import StoreError
from pixel_gather.core.results.row_coordinates import Values
from pixel_gather.io.cube.row_table import read_row_table

_at_once: Final = threading.BoundedSemaphore(os.process_cpu_count() or 1)
"""A join reads many tables in many threads. Each is decoded in a process of its own."""


def read_table(
    content: bytes, names: Collection[str] | None, *, place: str
) -> tuple[dict[str, Any], dict[str, Values]]:
    """Return the metadata of a table, and some of its columns by name.

    Args:
        content: Content of the file.
        names: The columns; None for all. What the table does not have is left out.
        place: Its cube, for messages.

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
