"""Parquet files on this machine."""

import gc
import sys
from pathlib import Path

import duckdb
import pytest
from arro3.core import Array, DataType, Table

from pixel_gather.io.parquet.parquet_file import write_parquet_file


def _table() -> Table:
    return Table.from_pydict({"a": Array([1, None], DataType.int64())})


def test_a_table_replaces_a_file(tmp_path: Path) -> None:
    """DuckDB reads it."""
    path = tmp_path / "x.parquet"
    path.write_text("former")

    write_parquet_file(_table(), path)

    assert duckdb.read_parquet(str(path)).fetchall() == [(1,), (None,)]


def test_a_full_disk_is_an_error_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a panic of arro3, which no caller catches, and nothing else is said of it. /dev/full is full."""
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)

    def refused() -> BaseException:
        with pytest.raises(OSError, match="No space left") as caught:
            write_parquet_file(_table(), Path("/dev/full"))
        return caught.value  # and with it, in a circle, all that stood on the stack

    refused()
    gc.collect()

    assert said == []
