"""``rows.parquet`` as DuckDB reads it."""

import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import zarr
from obstore.store import LocalStore

from pixel_gather.core.results.row_coordinates import NO_TIME
from pixel_gather.io.cube.row_table import ROWS_KEY, shards_below, write_row_table
from support.undrawn import gather_undrawn

SERIES = Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr"
FILES = 3 * sorted(SERIES.glob("heat_content_anomaly_0-2000*.tif"))
"""More than ten, so that the order of keys is not that of numbers."""


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cube in shards of one row. Its list has columns; its last source is missing."""
    folder = tmp_path_factory.mktemp("rows")
    lines = [f"{file},2021-01-{day:02d},{day}" for day, file in enumerate(FILES, start=1)]
    (folder / "list.csv").write_text("\n".join(["href,time,cloud", *lines, f"{folder}/no.tif,2022-01-01,9"]))
    output = {"layout": {"chunk": [1, 64, 64], "shard_rows": 1}}
    request = {"sources": str(folder / "list.csv"), "window": {"pixels": [0, 0, 40, 30]}, "output": output}
    gather_undrawn(request, to=folder / "cube.zarr")
    return folder / "cube.zarr"


def rows(cube: Path, columns: str) -> list[Any]:
    """Return columns of the table by DuckDB."""
    return duckdb.sql(f"SELECT {columns} FROM '{cube / ROWS_KEY}'").fetchall()  # noqa: S608 # our own words


@pytest.mark.long
def test_table_has_every_coordinate_of_every_row(cube: Path) -> None:
    """Values are those of the arrays, in the same order."""
    group = zarr.open_group(cube, mode="r")
    n_rows = len(FILES) + 1
    names = [name for name, array in group.arrays() if array.shape[:1] == (n_rows,) and name != "band_1"]
    assert {"href", "etag", "status", "time", "cloud", "mean", "transform"} <= set(names)

    for name in names:
        array: Any = group[name]
        told = [row[0] for row in rows(cube, "epoch_us(time)" if name == "time" else f'"{name}"')]
        np.testing.assert_array_equal(np.array(told, dtype=array[...].dtype), array[...], err_msg=name)


def test_table_has_the_size_of_every_source_that_was_opened(cube: Path) -> None:
    """A missing source has none."""
    sizes = [file.stat().st_size for file in FILES]

    assert rows(cube, "object_bytes, status = 0") == [*((size, True) for size in sizes), (0, False)]


def test_table_names_every_shard_with_its_size_and_etag(cube: Path) -> None:
    """They are in the order of the rows, so the tenth shard is not the second."""
    asked = f"SELECT value FROM parquet_kv_metadata('{cube / ROWS_KEY}') WHERE key = 'pixel_gather'"  # noqa: S608 # as above
    (found,) = duckdb.sql(asked).fetchone() or (b"",)

    told = json.loads(found)
    assert told["dims"] == ["time", "y", "x"]
    assert told["shape"] == [len(FILES) + 1, 30, 40]
    keys = [f"band_1/c/{row}/0/0" for row in range(len(FILES) + 1)]
    assert [key for key, _, _ in told["shards"]] == keys
    assert [nbytes for _, nbytes, _ in told["shards"]] == [(cube / key).stat().st_size for key in keys]
    assert all(etag for _, _, etag in told["shards"])


def test_shards_that_a_given_up_append_has_left_are_not_named(cube: Path) -> None:
    """They lie beyond the cube's rows."""
    found = shards_below(LocalStore(cube), ["band_1"], range(11))

    assert [key for key, _, _ in found] == [f"band_1/c/{row}/0/0" for row in range(11)]


def test_receipt_names_the_table_as_that_of_the_sources(cube: Path) -> None:
    """Its digest is in the receipt."""
    receipt = json.loads((cube / "receipt.json").read_text())

    assert receipt["sources"] == ROWS_KEY
    assert receipt["files"][ROWS_KEY]["nbytes"] == (cube / ROWS_KEY).stat().st_size


def test_missing_times_are_null_and_further_dimensions_are_lists(tmp_path: Path) -> None:
    """Two batches make one table."""
    one = {
        "time": np.array([1_000_000, NO_TIME]),
        "transform": np.arange(24.0).reshape(2, 2, 6),
        "name": np.array([["a", "b"], ["c", ""]], dtype=object),
    }
    other = {name: values[:1] for name, values in one.items()}

    with (tmp_path / ROWS_KEY).open("wb") as file:
        write_row_table(iter([one, other]), file, metadata={})

    found = rows(tmp_path, "epoch_us(time), transform, name")
    assert found[2] == found[0]
    assert [time for time, _, _ in found] == [1_000_000, None, 1_000_000]
    np.testing.assert_array_equal([transform for _, transform, _ in found[:2]], one["transform"])
    assert [list(name) for _, _, name in found[:2]] == [["a", "b"], ["c", ""]]
