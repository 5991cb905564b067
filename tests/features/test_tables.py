"""Sources as a data frame, an Arrow table or dicts, wherever a list can be given."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from arro3.core import Array, DataType
from arro3.core import Table as ArrowTable

from pixel_gather import RequestError, drill, gather, index, make_catalog, make_plan, replay, search
from pixel_gather.core.request.request import parse_request
from pixel_gather.features.catalog.catalog import refresh_catalog
from support.joined_cubes import FILES

TIMES = [datetime(2024, 1, day, tzinfo=UTC) for day in range(1, 5)]
CLOUDS = [0.5, 2.5, None, 7.0]
HREFS = [str(file) for file in FILES[:4]]
PIXELS = {"pixels": [0, 0, 16, 12]}


def dicts() -> Any:
    """Return rows as dicts, whose values are as programs have them."""
    cloud = [None if each is None else np.float32(each) for each in CLOUDS]
    return [
        {"href": Path(href), "time": time, "cloud": n, "sat": "AB"[i % 2]}
        for i, (href, time, n) in enumerate(zip(HREFS, TIMES, cloud, strict=True))
    ]


def frame() -> Any:
    """Return them as a data frame, whose missing values are NaN."""
    return pd.DataFrame({"href": HREFS, "time": TIMES, "cloud": CLOUDS, "sat": list("ABAB")})


def arrow() -> Any:
    """Return them as an Arrow table."""
    times = Array([int(each.timestamp() * 1e6) for each in TIMES], DataType.int64())
    columns: Any = {
        "href": Array(HREFS, DataType.string()),
        "time": times.cast(DataType.timestamp("us", tz="UTC")),
        "cloud": Array(CLOUDS, DataType.float64()),
        "sat": Array(list("ABAB"), DataType.string()),
    }
    return ArrowTable.from_pydict(columns)


def relation() -> Any:
    """Return them as what another library exports as Arrow."""
    rows = ", ".join(
        f"('{href}', TIMESTAMPTZ '{time.isoformat()}', {'NULL' if n is None else n}::DOUBLE, '{sat}')"
        for href, time, n, sat in zip(HREFS, TIMES, CLOUDS, "ABAB", strict=True)
    )
    return duckdb.sql(f"SELECT * FROM (VALUES {rows}) AS t(href, time, cloud, sat)")  # noqa: S608 # our own words


@pytest.mark.long
@pytest.mark.parametrize("table", [dicts, frame, arrow, relation])
def test_a_table_makes_the_cube_of_its_list(table: Callable[[], Any], tmp_path: Path) -> None:
    """Times become the first axis, and columns coordinates; what is missing is missing."""
    given = table()
    gathered = gather({"sources": given, "window": PIXELS, "output": {"report": False}}, to=tmp_path / "cube")

    cube = xr.open_zarr(tmp_path / "cube")
    assert gathered.report.status_counts == {"ok": 4}
    assert [str(each)[:10] for each in cube["time"].to_numpy()] == [f"2024-01-0{n}" for n in range(1, 5)]
    np.testing.assert_array_equal(cube.cloud, [0.5, 2.5, np.nan, 7.0])
    assert list(cube.sat.values) == list("ABAB")
    assert list(cube.href.values) == [f"file://{href}" for href in HREFS]


def test_a_table_is_no_part_of_the_stored_request(tmp_path: Path) -> None:
    """Its number is, and the cube has the rows. Such a cube is found again, and can be replayed."""
    request = {"sources": frame(), "window": PIXELS, "output": {"report": False}}
    first = gather(request, to=tmp_path / "cube")
    again = gather({**request, "sources": arrow()}, to=tmp_path / "cube")

    assert parse_request(request).to_json()["sources"] == {"rows": {"n_rows": 4}}
    assert (first.was_complete, again.was_complete) == (False, True)
    assert replay(tmp_path / "cube").is_same
    with pytest.raises(RequestError, match="keeps only their number; give the rows again"):
        parse_request(parse_request(request).to_json())


def test_rows_take_times_and_bands_from_names_as_lists_do() -> None:
    """They are given by their name, as a prefix is."""
    rows = [{"href": href, "tile": n} for n, href in enumerate(HREFS)]
    plan = make_plan({"sources": {"rows": rows, "time": "_%Y"}, "window": PIXELS})

    assert plan.has_time
    assert [each.name for each in plan.columns] == ["tile"]


def test_other_calls_take_tables(tmp_path: Path) -> None:
    """A catalog that was made of one cannot be made again without it."""
    assert len(list(drill(frame(), pixel=(3, 4)))) == 4
    assert index(arrow(), to=tmp_path / "index.parquet").n_sources == 4
    made = make_catalog(frame(), kind="sources", to=tmp_path / "catalog.parquet")

    assert made.n_scenes == 4
    assert len(search(catalog=tmp_path / "catalog.parquet", duplicates="all")) == 4
    with pytest.raises(RequestError, match="give the rows again"):
        refresh_catalog(to=tmp_path / "catalog.parquet")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"href": HREFS[0]}, {"name": "b"}], "sources.rows line 2: there is no column href"),
        ([{"href": HREFS[0]}, "b"], "sources.rows line 2: give a dict for each row"),
        ([{"href": HREFS[0], "when": [1]}], "sources.rows line 1: column when holds a list"),
        ([{"href": HREFS[0], "time": "May"}], "sources.rows line 1: column time is 'May'"),
        (
            pd.DataFrame({"name": ["a"]}),
            "the columns are name. Rename the one with the addresses of the files to href",
        ),
        (ArrowTable.from_pydict({"name": Array(["a"], DataType.string())}), "there is no column href"),
        (pd.DataFrame({"href": []}), "the list names no source"),
        ({"rows": 7}, "give a data frame, an Arrow table, or a list of dicts"),
        ({"rows": frame(), "list": "a.csv"}, "list and rows are given"),
    ],
)
def test_a_table_that_is_no_list_is_refused(rows: Any, said: str) -> None:
    """The message names the row."""
    with pytest.raises(RequestError) as caught:
        make_plan({"sources": rows, "window": PIXELS})

    assert said in str(caught.value)
