"""What a replay found of each source, as a Parquet file."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pixel_gather.core.errors import errors_of_writing
from pixel_gather.core.results.drift import COLUMNS, SourceDrift
from pixel_gather.io.parquet.parquet_file import write_parquet_file

_WHOLE: Final = frozenset({"row"})


def write_drifts(drifts: Sequence[SourceDrift], path: Path, *, about: Mapping[str, Any]) -> None:
    """Write one line for each source. What is not known is null.

    Args:
        drifts: All sources, the same ones too.
        path: A local file. It is replaced.
        about: The whole replay. Stored as JSON in the file's metadata ``pixel_gather``.

    Raises:
        StoreError: The file cannot be written.
    """
    from arro3.core import Array, DataType, Field, Schema, Table  # noqa: PLC0415 # 0.1 s, for Parquet alone

    rows = [each.to_json() for each in drifts]
    kinds = {name: DataType.int64() if name in _WHOLE else DataType.utf8() for name in COLUMNS}
    schema = Schema(
        [Field(name, kind) for name, kind in kinds.items()], metadata={"pixel_gather": json.dumps(about)}
    )
    columns = [Array([row[name] for row in rows], kind) for name, kind in kinds.items()]
    with errors_of_writing(path):
        write_parquet_file(Table.from_arrays(columns, schema=schema), path)
