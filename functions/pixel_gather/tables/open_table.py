"""Opens a table as a data frame, with only the features that are wanted."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pixel_gather.core.errors import StoreError
from pixel_gather.core.extras import check_extra
from pixel_gather.tables.table_receipt import side_path


def open_table(
    table: str | os.PathLike[str],
    *,
    ids: Sequence[object] | None = None,
    columns: Sequence[str] | None = None,
    arrow: bool = False,
    features: bool = False,
) -> Any:
    """Open a table that `points` has written, as a data frame of pandas.

    Of a few ids, only the parts of the file with these ids are read.

    Args:
        table: The Parquet file.
        ids: Only lines of these features.
        columns: Only these columns.
        arrow: Return an Arrow table of pyarrow instead.
        features: Add the features' own columns to each line.

    Raises:
        StoreError: There is no such table.
        MissingExtraError: pandas or pyarrow is not installed.
    """
    check_extra("tables", "tables in Python")
    import pyarrow.parquet as pq  # noqa: PLC0415 # seldom installed

    path = Path(table).expanduser()
    if not path.is_file():
        raise StoreError(f"{path}: no table is there; name the file that was given as --to")
    filters = None if ids is None else [("id", "in", list(ids))]
    found = pq.read_table(path, columns=None if columns is None else list(columns), filters=filters)
    if features:
        own = pq.read_table(side_path(path, "features"))
        if own.num_rows > len(own["id"].unique()):
            raise StoreError(f"{path}: an id repeats among the features, so their columns fit no line")
        kept = [
            name for name in own.column_names if name == "id" or name not in (*found.column_names, "geometry")
        ]
        found = found.join(own.select(kept), "id", join_type="left outer").sort_by(
            [("id", "ascending"), ("time", "ascending")]
        )
    return found if arrow else found.to_pandas()
