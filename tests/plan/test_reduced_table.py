"""Scenes in groups: which of them become a row, in which order, and what is refused."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.source import CubeRow, ListColumn, Source
from pixel_gather.core.plan.cube_plan import Append
from pixel_gather.core.plan.reduced_table import ReducedTable, reduced_table
from pixel_gather.core.request.request import parse_request
from support.fakes import FakeProjector, FakeTable

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
CLOUD = ListColumn(name="cloud", dtype="float64", varies_in_row=False)
COLUMNS = (CLOUD, ListColumn(name="area", dtype="string", varies_in_row=False))


def scene(name: str, time_us: int | None = 0, **columns: Any) -> CubeRow:
    """Return a scene of one source."""
    return CubeRow(time_us=time_us, sources=(Source(href=name, time_us=time_us, columns=columns),))


def table_of(*scenes: CubeRow, **changes: Any) -> FakeTable:
    """Return a list of scenes."""
    return FakeTable(scenes, has_time=True, columns=COLUMNS, **changes)


def grouped(*scenes: CubeRow, by: str = "day", order: str | None = None) -> ReducedTable:
    """Return a list of scenes in groups."""
    return ReducedTable(table=table_of(*scenes), by=by, order=order, mask=None)


def hrefs(table: ReducedTable) -> list[list[str]]:
    """Return the scenes of each row, in order."""
    return [
        [each.href for member in row.members for each in member.sources if each]
        for row in table.rows(0, table.n_rows)
    ]


def test_scenes_of_a_period_become_a_row_in_the_order_of_their_times() -> None:
    """Whatever the order of the list. Scenes of one time are in the order of their hrefs."""
    table = grouped(scene("d", DAY_US), scene("c", 5), scene("b", 5), scene("a", 7), scene("e", DAY_US - 1))

    assert hrefs(table) == [["b", "c", "a", "e"], ["d"]]
    assert [row.time_us for row in table.rows(0, 2)] == [0, DAY_US]
    assert [table.n_scenes_of(row) for row in range(2)] == [4, 1]
    assert (table.n_rows, table.n_scenes, table.has_time, table.columns) == (2, 5, True, ())
    assert [row.time_us for row in table.rows(1, 2)] == [DAY_US]
    assert list(table.packed_headers(0, 2)) == [(None,), (None,)]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("cloud", ["least", "equal", "same", "most", "unknown"]),
        ("-cloud", ["most", "equal", "same", "least", "unknown"]),
    ],
)
def test_scenes_are_in_the_order_of_a_column(order: str, expected: list[str]) -> None:
    """Equal ones are in the order of their hrefs, either way. Those without a value come last."""
    cloud = {"unknown": None, "same": 5.0, "equal": 5.0, "most": 9.0, "least": 1.0}
    table = grouped(
        *(scene(name, n, cloud=each) for n, (name, each) in enumerate(cloud.items())), order=order
    )

    assert hrefs(table) == [expected]


@pytest.mark.parametrize(
    ("by", "expected"),
    [("day", ["a", "b", "c", "d"]), ("month", ["a", "bc", "d"]), ("year", ["abc", "d"])],
)
def test_scenes_are_parted_by_the_days_months_or_years_of_utc(by: str, expected: list[str]) -> None:
    """Each row has the time at which its period begins."""
    days = {"a": "2020-01-31", "b": "2020-02-01", "c": "2020-02-29", "d": "2021-02-01"}
    times = {name: int(np.datetime64(day, "us").astype(int)) for name, day in days.items()}
    table = grouped(*(scene(name, at) for name, at in times.items()), by=by)

    assert ["".join(row) for row in hrefs(table)] == expected
    assert table.groups == [
        int(np.array(days[row[0]], f"datetime64[{by[0].upper()}]").astype("datetime64[us]").astype(int))
        for row in expected
    ]


def test_scenes_with_one_value_of_a_column_become_a_row() -> None:
    """The row has the value. The rows are in its order. They have no time, and their scenes need none."""
    scenes = (scene(name, None, area=area) for name, area in (("c", "north"), ("b", "east"), ("a", "north")))
    table = ReducedTable(table=FakeTable(tuple(scenes), columns=COLUMNS), by="area", order=None, mask=None)

    assert hrefs(table) == [["b"], ["a", "c"]]
    assert [source and source.columns for row in table.rows(0, 2) for source in row.sources] == [
        {"area": "east"},
        {"area": "north"},
    ]
    assert [row.time_us for row in table.rows(0, 2)] == [None, None]
    assert (table.groups, table.columns, table.has_time) == (["east", "north"], COLUMNS[1:], False)


def test_files_of_one_scene_become_a_row_that_is_the_scene() -> None:
    """So its parts can be mosaicked, and the row says which scene it is."""
    scenes = (
        CubeRow(time_us=None, sources=(Source(href=name, scene=name[0]),)) for name in ("b2", "a1", "b1")
    )
    column = ListColumn(name="scene", dtype="string", varies_in_row=False)
    table = ReducedTable(table=FakeTable(tuple(scenes), columns=(column,)), by="scene", order=None, mask=None)

    assert hrefs(table) == [["a1"], ["b1", "b2"]]
    assert [source and source.scene for row in table.rows(0, 2) for source in row.sources] == ["a", "b"]


def test_a_row_has_the_bands_that_any_of_its_scenes_has() -> None:
    """No row has the mask."""
    sources = tuple(Source(href=name, band=name) for name in ("red", "nir", "scl"))
    scenes = [CubeRow(time_us=0, sources=(sources[0], None, sources[2]))] * 2
    scenes.append(CubeRow(time_us=DAY_US, sources=(None, sources[1], None)))
    table = ReducedTable(
        table=FakeTable(scenes, has_time=True, bands=("red", "nir", "scl")), by="day", order=None, mask="scl"
    )

    assert [[each and each.band for each in row.sources] for row in table.rows(0, 2)] == [
        ["red", None],
        [None, "nir"],
    ]


@given(
    n_by_row=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    shard_rows=st.integers(1, 4),
    first_row=st.integers(0, 6),
)
def test_a_shard_has_room_for_the_scenes_of_all_its_rows(
    n_by_row: list[int], shard_rows: int, first_row: int
) -> None:
    """Those of an append begin within a shard, beside rows that are tried again."""
    table = grouped(
        *(scene(f"{row}-{n}", row * DAY_US) for row, of in enumerate(n_by_row) for n in range(of))
    )
    again = (0,) if first_row else ()
    append = Append(version=2, first_row=first_row, again=again, scenes_again=(9,) * len(again))

    of_shards: dict[int, int] = {}
    for row, n in (*((0, 9) for _ in again), *enumerate(n_by_row, first_row)):
        of_shards[row // shard_rows] = of_shards.get(row // shard_rows, 0) + n
    assert table.most_in(shard_rows, append=append) == max(of_shards.values())


@pytest.mark.parametrize(("point", "day"), [([15.1, 0.0], DAY_US), ([14.9, 0.0], 0), ([-150.0, 0.0], 0)])
def test_a_solar_day_is_that_of_the_middle_of_the_window(point: list[float], day: int) -> None:
    """In the far east the sun rises before the date of UTC changes."""
    request = {"sources": "l.csv", "reduce": {"by": "solar-day", "statistic": "first"}}
    late = table_of(scene("late", DAY_US - HOUR_US))
    x, y = point
    for window in ({"point": point}, {"bbox": [x - 1, y - 3, x + 1, y + 3]}):
        table = reduced_table(parse_request(request | {"window": window}), late, FakeProjector())

        assert [row.time_us for row in table.rows(0, 1)] == [day]


@dataclass(frozen=True)
class Refused:
    """A list that cannot be reduced in some way."""

    id: str
    by: str
    said: str
    order: str | None = None
    table: FakeTable | None = None
    """A usual list, if None."""


@pytest.mark.parametrize(
    "case",
    [
        Refused(
            "unknown group",
            "tile",
            r"^reduce\.by: the list has no column tile; write .*month.* or one of its columns: cloud, area$",
        ),
        Refused(
            "unknown order",
            "day",
            r"^reduce\.order: the list has no column snow; its columns: cloud, area$",
            order="-snow",
        ),
        Refused(
            "no time",
            "month",
            r"^reduce\.by: month needs a time in every row of the list$",
            table=FakeTable((scene("a"),), has_time=False),
        ),
        Refused(
            "several values",
            "day",
            r"^reduce\.order: cloud has several values in one scene$",
            order="cloud",
            table=FakeTable(
                (scene("a"),),
                has_time=True,
                columns=(ListColumn(name="cloud", dtype="f8", varies_in_row=True),),
            ),
        ),
        Refused(
            "no value",
            "area",
            r"^reduce\.by: area has no value in row 1 of the list$",
            table=table_of(scene("a", area="x"), scene("b")),
        ),
    ],
    ids=lambda case: case.id,
)
def test_what_a_list_does_not_tell_of_each_scene_is_refused(case: Refused) -> None:
    """The error names the field and the column."""
    table = case.table or table_of(scene("a", area="x", cloud=1.0))

    with pytest.raises(RequestError, match=case.said):
        _ = ReducedTable(table=table, by=case.by, order=case.order, mask=None).n_rows


@pytest.mark.parametrize(
    ("window", "said"),
    [
        ({"pixels": [0, 0, 2, 2]}, "solar-day needs a window by bbox or point"),
        ({"point": [0, 0], "crs": "source"}, "solar-day needs a window whose crs is not source"),
    ],
)
def test_a_solar_day_needs_a_window_on_the_earth(window: dict[str, Any], said: str) -> None:
    """Pixels alone have no longitude."""
    request = {"sources": "l.csv", "window": window, "reduce": {"by": "solar-day", "statistic": "first"}}

    with pytest.raises(RequestError, match=said):
        reduced_table(parse_request(request), table_of(scene("a")), FakeProjector())
