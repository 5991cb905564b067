"""A missing integer or boolean is missing: in appended rows, in joined cubes, and where rows are searched."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from arro3.io import read_parquet

from pixel_gather import RequestError, join, open_cube, open_joined, presence, replay, rows_where, verify
from support.undrawn import gather_undrawn

SERIES = Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr"
FILES = sorted(SERIES.glob("heat_content_anomaly_0-2000*.tif"))
WINDOW = {"pixels": [0, 0, 40, 30]}
LAYOUT = {"chunk": [1, 64, 64], "shard_rows": 2}
LARGE = 2**53 + 1


def a_list(folder: Path, files: list[Path], columns: dict[str, list[object]], *, day: int = 1) -> str:
    """Write a list of some files, one a day, with more columns. Return its name."""
    lines = [",".join(["href", "time", *columns])]
    for at, file in enumerate(files):
        values = [str(column[at]) for column in columns.values()]
        lines.append(",".join([str(file), f"2024-01-{day + at:02}", *values]))
    place = folder / f"list-{day}.csv"
    place.write_text("\n".join(lines))
    return str(place)


def gathered(folder: Path, columns: dict[str, list[object]]) -> Path:
    """Return a cube of two rows, so that its last shard is full."""
    cube = folder / "cube.zarr"
    folder.mkdir(exist_ok=True)
    output: dict[str, Any] = {"layout": LAYOUT}
    gather_undrawn(
        {"sources": a_list(folder, FILES[:2], columns), "window": WINDOW, "output": output}, to=cube
    )
    return cube


def appended(cube: Path, file: Path, columns: dict[str, list[object]], *, day: int) -> None:
    """Add one row to the cube."""
    gather_undrawn(
        {
            "sources": a_list(cube.parent, [file], columns, day=day),
            "window": WINDOW,
            "output": {"append_to": str(cube)},
        }
    )


@pytest.fixture(scope="module")
def grown_of(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cube whose second row lacks what the others have."""
    cube = gathered(
        tmp_path_factory.mktemp("grown"),
        {"n": [0, 5], "large": [LARGE, LARGE + 1], "good": ["true", "false"]},
    )
    appended(cube, FILES[2], {}, day=3)
    appended(cube, FILES[3], {"n": [7], "large": [LARGE + 2], "good": ["true"]}, day=4)
    return cube


@pytest.mark.long
def test_rows_without_a_column_have_no_value_in_it(grown_of: Path) -> None:
    """They are NaN. Integers that float64 cannot hold stay integers, and a comment says what is missing."""
    found = xr.open_zarr(grown_of, chunks=None).load()

    np.testing.assert_array_equal(found["n"], [0, 5, np.nan, 7])
    np.testing.assert_array_equal(found["good"], [1, 0, np.nan, 1])
    assert found["large"].values.tolist() == [LARGE, LARGE + 1, -(2**63), LARGE + 2]
    assert found["large"].attrs["comment"] == "-9223372036854775808 is missing"
    assert verify(grown_of).differences == ()


def test_former_versions_keep_their_types(grown_of: Path) -> None:
    """Their rows have all values."""
    found = open_cube(grown_of, version=1).load()

    assert (found["n"].dtype, found["good"].dtype) == (np.dtype("int64"), np.dtype("bool"))
    assert found["good"].values.tolist() == [True, False]


def test_a_missing_value_meets_no_condition_and_is_in_no_bin(grown_of: Path) -> None:
    """It is neither 0 nor false, and not smaller than anything."""
    assert rows_where(grown_of, "n < 100").tolist() == [0, 1, 3]
    assert rows_where(grown_of, "n != 5").tolist() == [0, 3]
    assert rows_where(grown_of, "good != 1").tolist() == [1]
    assert presence(grown_of, by="n").labels[0].tolist() == [0, 5, 7]
    assert presence(grown_of, by="good").n_left_out == 1


def test_the_table_of_rows_has_no_value_either(grown_of: Path) -> None:
    """DuckDB and others see NULL."""
    table = read_parquet(grown_of / "rows.parquet").read_all()

    assert table["n"].to_pylist() == [0, 5, None, 7]
    assert table["large"].to_pylist() == [LARGE, LARGE + 1, None, LARGE + 2]
    assert table["good"].to_pylist() == [True, False, None, True]


@pytest.mark.long
@pytest.mark.parametrize("is_added", [False, True])
def test_joined_cubes_without_a_column_have_no_value_in_it(tmp_path: Path, *, is_added: bool) -> None:
    """No integer goes through float64, whether the cube without values is joined at once or added later."""
    columns: dict[str, list[object]] = {
        "n": [0, 5],
        "large": [LARGE, LARGE + 1],
        "good": ["true", "false"],
    }
    whole, more = (gathered(tmp_path / name, columns) for name in "ac")
    bare = gathered(tmp_path / "b", {})
    to = tmp_path / "joined.icechunk"
    keep = ["n", "large", "good"]
    if is_added:
        join([whole], to=to, keep=keep)
        join([bare, more], to=to, mode="add")
    else:
        join([whole, bare, more], to=to, keep=keep)
    found = open_joined(to).load()

    np.testing.assert_array_equal(found["n"], [0, 5, np.nan, np.nan, 0, 5])
    np.testing.assert_array_equal(found["good"], [1, 0, np.nan, np.nan, 1, 0])
    assert found["large"].values.tolist() == [LARGE, LARGE + 1, *[-(2**63)] * 2, LARGE, LARGE + 1]
    assert rows_where(to, "n < 100").tolist() == [0, 1, 4, 5]


@pytest.mark.long
def test_copies_without_a_column_have_no_value_in_it(tmp_path: Path) -> None:
    """A copy takes all columns."""
    whole = gathered(tmp_path / "a", {"n": [0, 5], "good": ["true", "false"]})
    bare = gathered(tmp_path / "b", {})
    join([whole, bare], to=tmp_path / "copy.zarr", mode="copy")
    found = xr.open_zarr(tmp_path / "copy.zarr", chunks=None).load()

    np.testing.assert_array_equal(found["n"], [0, 5, np.nan, np.nan])
    np.testing.assert_array_equal(found["good"], [1, 0, np.nan, np.nan])
    assert verify(tmp_path / "copy.zarr").differences == ()


@pytest.mark.long
def test_large_integers_are_not_joined_with_fractions(tmp_path: Path) -> None:
    """float64 would round them. Smaller ones are joined."""
    whole = gathered(tmp_path / "a", {"large": [LARGE, 1], "n": [1, 2]})
    fractions = gathered(tmp_path / "b", {"large": [0.5, 1.5], "n": [0.5, 1.5]})

    with pytest.raises(RequestError, match=r"large has integers beyond 2\^53"):
        join([whole, fractions], to=tmp_path / "joined.icechunk", keep=["large"])
    join([whole, fractions], to=tmp_path / "joined.icechunk", keep=["n"])

    assert open_joined(tmp_path / "joined.icechunk")["n"].values.tolist() == [1, 2, 0.5, 1.5]


def test_large_integers_are_not_appended_to_fractions(tmp_path: Path) -> None:
    """float64 would round them."""
    cube = gathered(tmp_path / "a", {"n": [0.5, 1.5]})

    with pytest.raises(RequestError, match=r"the new rows would have integers beyond 2\^53"):
        appended(cube, FILES[2], {"n": [LARGE]}, day=3)


@pytest.mark.long
def test_a_grown_cube_is_gathered_again_with_its_gaps(grown_of: Path, tmp_path: Path) -> None:
    """Its rows are the list of a replay."""
    shutil.copytree(grown_of, tmp_path / "cube.zarr")
    found = replay(tmp_path / "cube.zarr", to=tmp_path / "again.zarr")

    assert found.is_same
    again = xr.open_zarr(tmp_path / "again.zarr", chunks=None).load()
    np.testing.assert_array_equal(again["n"], [0, 5, np.nan, 7])
    np.testing.assert_array_equal(again["good"], [1, 0, np.nan, 1])


@pytest.mark.long
def test_a_row_without_one_of_its_sources_has_no_value_there(tmp_path: Path) -> None:
    """Values that differ between the bands of a scene are missing where the scene lacks a band."""
    lines = ["href,scene,band,time,n,good"]
    for at, (file, scene, band) in enumerate(zip(FILES, "aabc", ("red", "nir", "red", "nir"), strict=True)):
        lines.append(f"{file},{scene},{band},2024-01-0{'abc'.index(scene) + 1},{at},{at % 2 == 0}")
    first, more = tmp_path / "first.csv", tmp_path / "more.csv"
    first.write_text("\n".join(lines[:4]))
    more.write_text("\n".join([lines[0], lines[4]]))
    to = tmp_path / "cube.zarr"
    gather_undrawn({"sources": str(first), "window": WINDOW}, to=to)
    gather_undrawn({"sources": str(more), "window": WINDOW, "output": {"append_to": str(to)}})
    found = xr.open_zarr(to, chunks=None).load()
    bands = [str(each) for each in found["measurement"].values]
    red, nir = bands.index("red"), bands.index("nir")

    np.testing.assert_array_equal(found["n"][:, red], [0, 2, np.nan])
    np.testing.assert_array_equal(found["n"][:, nir], [1, np.nan, 3])
    np.testing.assert_array_equal(found["good"][:, red], [1, 1, np.nan])
    np.testing.assert_array_equal(found["good"][:, nir], [0, np.nan, 0])
    assert verify(to).differences == ()
