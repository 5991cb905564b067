"""Tests that every line of a list becomes part of one row of the cube, in the right order."""

import os
import subprocess
import sys
import tracemalloc
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.source import CubeRow, ListColumn, Source
from pixel_gather.core.ports import SourceTable
from pixel_gather.io.lists.source_list import SourceList
from pixel_gather.io.lists.source_table import SqliteSourceTable
from support.identities import another, check_identity

type Scalar = str | int | float | bool | None


def table_of(sources: Iterable[Source], *, is_typed: bool = True) -> SqliteSourceTable:
    """Make a table of these sources."""
    return SqliteSourceTable(SourceList(name="l.csv", is_typed=is_typed, sources=iter(sources)))


def rows_of(sources: Iterable[Source], *, is_typed: bool = True) -> list[CubeRow]:
    """Return all rows that these sources make."""
    with table_of(sources, is_typed=is_typed) as table:
        return list(table.rows(0, table.n_rows))


def numbered(*given: dict[str, Any]) -> list[Source]:
    """Return sources whose hrefs contain their line, from 0."""
    return [Source(href=f"s3://bucket/{n}", **each) for n, each in enumerate(given)]


def lines_in(rows: Iterable[CubeRow]) -> list[list[int | None]]:
    """Return for each row the lines that it was made from."""
    return [[int(s.href.rpartition("/")[2]) if s else None for s in row.sources] for row in rows]


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
)
times = st.none() | st.integers(min_value=-5, max_value=5)


@st.composite
def lists(draw: st.DrawFn) -> list[Source]:
    """Draw a list with few different scenes, times and bands, so that they repeat."""
    has_bands = draw(st.booleans())
    sources = []
    for n in range(draw(st.integers(min_value=1, max_value=12))):
        scene = draw(st.none() | st.sampled_from("st"))
        time_us = draw(times)
        if has_bands and scene is None and time_us is None:
            time_us = 0
        columns = draw(st.dictionaries(st.sampled_from(["n", "cloud", "tile"]), scalars))
        band = draw(st.sampled_from(["B1", "B2", "B3"])) if has_bands else None
        sources.append(
            Source(href=f"s3://bucket/{n}", band=band, scene=scene, time_us=time_us, columns=columns)
        )
    return sources


def _key(source: Source) -> tuple[str, str | int | None]:
    return ("time", source.time_us) if source.scene is None else ("scene", source.scene)


def _row_key(row: CubeRow) -> tuple[str, str | int | None]:
    return next(_key(source) for source in row.sources if source)


@pytest.mark.long
@given(sources=lists(), data=st.data())
def test_rows_of_any_list(sources: list[Source], data: st.DataObject) -> None:
    """One table of each list that is drawn keeps all promises."""
    with table_of(sources) as table:
        rows = list(table.rows(0, table.n_rows))

        check_every_line_is_held_once(sources, rows)
        check_the_nth_repeat_is_in_the_nth_row(sources, rows)
        check_order(sources, rows, has_time=table.has_time)
        check_parts(table, rows, cut=data.draw(st.integers(min_value=0, max_value=table.n_rows)))
        check_spread(table, rows, n=data.draw(st.integers(min_value=0, max_value=15)))


def check_every_line_is_held_once(sources: list[Source], rows: list[CubeRow]) -> None:
    """Each line is in one row, and keeps its band, scene and time."""
    held = [source for row in rows for source in row.sources if source is not None]
    told = sorted((s.href, s.band, s.scene, s.time_us) for s in held)
    assert told == sorted((s.href, s.band, s.scene, s.time_us) for s in sources)
    assert all(any(row.sources) for row in rows)


def check_the_nth_repeat_is_in_the_nth_row(sources: list[Source], rows: list[CubeRow]) -> None:
    """Sources of one row have one scene or time, and different bands. Repeats keep the list's order."""
    by_href = {source.href: n for n, source in enumerate(sources)}

    if sources[0].band is None:
        assert all(len(row.sources) == 1 for row in rows)
        return
    bands = list(dict.fromkeys(source.band for source in sources))
    rows_of_key: dict[object, list[CubeRow]] = defaultdict(list)
    for row in rows:
        held = [source for source in row.sources if source]
        assert len({_key(source) for source in held}) == 1
        assert all(source is None or source.band == bands[i] for i, source in enumerate(row.sources))
        rows_of_key[_row_key(row)].append(row)
    for same in rows_of_key.values():
        same.sort(key=lambda row: min(by_href[source.href] for source in row.sources if source))
        for i in range(len(bands)):
            column = [row.sources[i] for row in same]
            nth = [by_href[source.href] for source in column if source]
            lines = [n for n, s in enumerate(sources) if s.band == bands[i] and _key(s) == _row_key(same[0])]
            assert nth == lines
            assert None not in column[: len(lines)]


def check_order(sources: list[Source], rows: list[CubeRow], *, has_time: bool) -> None:
    """Rows are sorted by time if each has one, else by first appearance in the list."""
    by_href = {source.href: n for n, source in enumerate(sources)}
    first = [min(by_href[s.href] for s in row.sources if s) for row in rows]
    row_times = [row.time_us for row in rows]
    assert has_time == (None not in row_times)
    assert row_times == [
        min((s.time_us for s in row.sources if s and s.time_us is not None), default=None) for row in rows
    ]
    order = [(time_us if has_time else 0, n) for time_us, n in zip(row_times, first, strict=True)]
    assert order == sorted(order)


def check_parts(table: SqliteSourceTable, rows: list[CubeRow], *, cut: int) -> None:
    """Rows [start, stop) are the same as in the whole list, also after a round trip as JSON."""
    assert [*table.rows(0, cut), *table.rows(cut, table.n_rows)] == rows
    assert [msgspec.json.decode(msgspec.json.encode(row), type=CubeRow) for row in rows] == rows
    dtypes = {column.name: column.dtype for column in table.columns}
    python = {"int64": int, "float64": float, "bool": bool, "string": str}
    for source in (source for row in rows for source in row.sources if source):
        for name, value in source.columns.items():
            assert value is None or type(value) is python[dtypes[name]]


def check_spread(table: SqliteSourceTable, rows: list[CubeRow], *, n: int) -> None:
    """The sources are in order, evenly spread and different. The first and the last are among them."""
    in_order = [s for row in rows for s in row.sources if s]
    for band in (None, *table.bands):
        there = [s for s in in_order if band in (None, s.band)]
        got = table.spread(n, band=band)
        at = [there.index(source) for source in got]
        assert len(got) == min(n, len(there))
        assert at == sorted(set(at))
        assert n == 0 or at[0] == 0
        assert n < 2 or at[-1] == len(there) - 1
        steps = {b - a for a, b in pairwise(at)}
        assert not steps or max(steps) - min(steps) <= 1


@dataclass(frozen=True)
class Grouping:
    """Lines of a list, and the lines that each row is made from."""

    id: str
    sources: list[Source]
    rows: list[list[int | None]]
    has_time: bool = True


GROUPINGS = [
    Grouping("by time", numbered({"time_us": 3}, {"time_us": 1}, {"time_us": 2}), [[1], [2], [0]]),
    Grouping("ties keep their order", numbered({"time_us": 1}, {"time_us": 1}), [[0], [1]]),
    Grouping(
        "one without time keeps the list's order",
        numbered({"time_us": 3}, {}, {"time_us": 1}),
        [[0], [1], [2]],
        has_time=False,
    ),
    Grouping(
        "scene without bands joins nothing",
        numbered({"scene": "a"}, {"scene": "a"}),
        [[0], [1]],
        has_time=False,
    ),
    Grouping(
        "bands of a time share a row",
        numbered(
            {"time_us": 2, "band": "B8"},
            {"time_us": 1, "band": "B4"},
            {"time_us": 1, "band": "B8"},
            {"time_us": 2, "band": "B4"},
        ),
        [[2, 1], [0, 3]],
    ),
    Grouping(
        "a scene's bands share a row whose time is the earliest",
        numbered(
            {"scene": "a", "time_us": 5, "band": "B4"},
            {"scene": "b", "time_us": 4, "band": "B4"},
            {"scene": "a", "time_us": 3, "band": "B8"},
        ),
        [[0, 2], [1, None]],
    ),
    Grouping(
        "one timed band gives its row a time",
        numbered({"scene": "a", "band": "B4"}, {"scene": "a", "time_us": 3, "band": "B8"}),
        [[0, 1]],
    ),
    Grouping(
        "repeats go to further rows",
        numbered(
            {"scene": "a", "band": "B4"},
            {"scene": "a", "band": "B4"},
            {"scene": "a", "band": "B8"},
            {"scene": "a", "band": "B4"},
            {"scene": "a", "band": "B8"},
        ),
        [[0, 2], [1, 4], [3, None]],
        has_time=False,
    ),
    Grouping(
        "a scene named like a time stays apart from it",
        numbered({"scene": "1", "time_us": 1, "band": "B4"}, {"time_us": 1, "band": "B8"}),
        [[0, None], [None, 1]],
    ),
]


@pytest.mark.parametrize("grouping", GROUPINGS, ids=lambda grouping: grouping.id)
def test_table_groups_and_orders(grouping: Grouping) -> None:
    """One example for each rule of grouping and order."""
    with table_of(grouping.sources) as table:
        assert lines_in(table.rows(0, table.n_rows)) == grouping.rows
        assert table.n_rows == len(grouping.rows)
        assert table.n_sources == len(grouping.sources)
        assert table.has_time == grouping.has_time


@dataclass(frozen=True)
class Typing:
    """A column's values, and the expected type and values."""

    id: str
    given: list[Scalar]
    dtype: str
    kept: list[Scalar]
    is_typed: bool = False


TYPINGS = [
    Typing("integers", ["1", "-2", "+3", "0"], "int64", [1, -2, 3, 0]),
    Typing("integers with gaps", ["1", None], "float64", [1.0, None]),
    Typing("numbers", ["1", "2.5", "1e3", ".5", "nan"], "float64", [1.0, 2.5, 1000.0, 0.5, None]),
    Typing("leading zeros", ["0034", "1"], "string", ["0034", "1"]),
    Typing("leading zeros and a point", ["00.5", "1"], "string", ["00.5", "1"]),
    Typing(
        "more digits than a float has", ["12345678901234567890", "1"], "string", ["12345678901234567890", "1"]
    ),
    Typing("large integers", [str(2**62), "1"], "int64", [2**62, 1]),
    Typing("large integers with gaps", [str(2**62), None], "string", [str(2**62), None]),
    Typing("a float out of range", ["1e999", "1"], "string", ["1e999", "1"]),
    Typing("underscores", ["1_000"], "string", ["1_000"]),
    Typing("other digits", ["\u0661"], "string", ["\u0661"]),
    Typing("booleans", ["true", "False"], "bool", [True, False]),
    Typing("booleans with gaps", ["true", None], "string", ["true", None]),
    Typing("booleans and numbers", ["true", "1"], "string", ["true", "1"]),
    Typing("text", ["a", "1", None], "string", ["a", "1", None]),
    Typing("nothing", [None, None], "string", [None, None]),
    Typing("typed text stays text", ["1", "2"], "string", ["1", "2"], is_typed=True),
    Typing("typed integers", [1, 2], "int64", [1, 2], is_typed=True),
    Typing("typed integers with gaps", [1, None], "float64", [1.0, None], is_typed=True),
    Typing("typed integers and floats", [1, 2.5], "float64", [1.0, 2.5], is_typed=True),
    Typing("typed booleans", [True, False], "bool", [True, False], is_typed=True),
    Typing("typed booleans and numbers", [True, 1], "string", ["true", "1"], is_typed=True),
    Typing("typed integers beyond 64 bits", [2**64, 1], "string", [str(2**64), "1"], is_typed=True),
    Typing("typed text and numbers", ["a", 1, 1.5], "string", ["a", "1", "1.5"], is_typed=True),
]


@pytest.mark.parametrize("typing", TYPINGS, ids=lambda typing: typing.id)
def test_table_finds_the_narrowest_type(typing: Typing) -> None:
    """A column gets the narrowest type that holds all of its values without loss."""
    sources = numbered(*({"columns": {"c": value}} for value in typing.given))

    with table_of(sources, is_typed=typing.is_typed) as table:
        kept = [row.sources[0].columns["c"] for row in table.rows(0, table.n_rows) if row.sources[0]]
        (column,) = table.columns
        assert column == ListColumn(
            name="c", dtype=typing.dtype, varies_in_row=False, is_large=typing.id == "large integers"
        )
        assert kept == typing.kept
        assert list(map(type, kept)) == list(map(type, typing.kept))


def test_table_takes_columns_that_appear_late() -> None:
    """Lines of JSON may have different keys."""
    rows = rows_of(numbered({"columns": {"a": 1}}, {"columns": {"b": "x"}}, {}))

    assert [dict(row.sources[0].columns) for row in rows if row.sources[0]] == [
        {"a": 1.0, "b": None},
        {"a": None, "b": "x"},
        {"a": None, "b": None},
    ]


def test_columns_tell_what_varies_in_a_row() -> None:
    """A column that is equal for all bands of a scene has one dimension. A missing value differs."""
    given: list[dict[str, Any]] = [
        {"scene": "a", "band": "B4", "columns": {"same": 1, "own": 1, "gap": 1}},
        {"scene": "a", "band": "B8", "columns": {"same": 1, "own": 2}, "time_us": 1},
        {"scene": "b", "band": "B4", "columns": {"same": 2, "own": 1}},
    ]
    with table_of(numbered(*given)) as table:
        varies = {column.name: column.varies_in_row for column in table.columns}
        dtypes = {column.name: column.dtype for column in table.columns}

    assert varies == {"same": False, "own": True, "gap": True, "scene": False, "time": True}
    assert (dtypes["scene"], dtypes["time"]) == ("string", "int64")


def test_columns_hold_time_only_where_some_rows_have_none() -> None:
    """If each row has a time, it is the cube's axis and not a column."""
    with (
        table_of(numbered({"time_us": 1}, {"time_us": 2})) as whole,
        table_of(numbered({"time_us": 1}, {})) as partly,
    ):
        assert whole.columns == ()
        assert partly.columns == (ListColumn(name="time", dtype="int64", varies_in_row=False),)
        assert (whole.n_timeless, partly.n_timeless) == (0, 1)
    with table_of(numbered({}, {})) as timeless:
        assert timeless.n_timeless == 0


@pytest.mark.parametrize(
    ("sources", "says"),
    [
        (numbered({"band": "B4"}), "add a column scene or time"),
        (numbered(*({"band": f"B{i}", "scene": "a"} for i in range(1001))), "did you mean another column"),
        (
            numbered({"band": "cloud", "scene": "a", "columns": {"cloud": 1}}),
            "'cloud' is the name of a band and",
        ),
        (numbered(*({"columns": {f"c{i}": 1}} for i in range(201))), "more than 200 columns"),
    ],
)
def test_table_refuses_lines_that_do_not_go_together(sources: list[Source], says: str) -> None:
    """The error about a contradiction between lines names the list."""
    with pytest.raises(RequestError, match=r"^l\.csv: ") as caught:
        table_of(sources)

    assert says in str(caught.value)


def test_digest_changes_with_any_line_and_not_with_harmless_order() -> None:
    """A changed list has another digest, so that a resumed gather notices it."""
    given: list[dict[str, Any]] = [{"time_us": 1, "columns": {"a": 1}}, {"time_us": 2, "columns": {"a": 2}}]

    def digest(sources: list[Source], *, is_typed: bool = True) -> str:
        with table_of(sources, is_typed=is_typed) as table:
            return table.digest

    same = digest(numbered(*given))
    others = [
        digest(numbered(*given[:1])),
        digest(numbered(*reversed(given))),  # other hrefs at these times
        digest(numbered({"time_us": 0, "columns": {"a": 1}}, given[1])),
        digest(numbered({"time_us": 1, "columns": {"a": 3}}, given[1])),
        digest(numbered({"time_us": 1, "columns": {"b": 1}}, given[1])),
        digest(numbered(*({**each, "scene": "s"} for each in given))),
        digest(numbered(*({**each, "band": "B4"} for each in given))),
    ]

    assert digest(numbered(*given)[::-1]) == same
    assert len({same, *others}) == 1 + len(others)


def test_lists_are_the_same_by_all_fields_of_their_sources() -> None:
    """Each of them becomes part of the cube. Whoever adds one has to say whether it does."""
    first = Source(href="s3://b/0", band="B4", scene="s", time_us=1, columns={"a": 1})

    def digest(source: Source) -> str:
        with table_of([source, Source(href="s3://b/1", band="B4", scene="z", time_us=9)]) as table:
            return table.digest

    changes = {
        "href": another(first, href="s3://b/2"),
        "band": another(first, band="B5"),
        "scene": another(first, scene="t"),
        "time_us": another(first, time_us=2),
        "columns": another(first, columns={"a": 2}),
    }
    check_identity(digest, changes, fields=Source.__struct_fields__)


def test_digest_of_a_plain_list_never_changes() -> None:
    """By it, unfinished cubes are resumed, complete ones are found, and tables keep their names."""
    with table_of([Source(href="s3://b/a", time_us=1, columns={"a": 1})]) as table:
        assert table.digest[:16] == "9a1ae0c92ddfe167"


def test_table_removes_its_file() -> None:
    """No file is left, neither after use nor after an error."""
    with table_of(numbered({})) as table:
        folder = Path(table._folder.name)
        assert folder.is_dir()
        port: SourceTable = table

    assert not folder.exists()
    assert port.bands == ()


def test_table_is_put_in_order_in_time() -> None:
    """The time is checked after the last line, too, and no file is left."""
    is_read = False

    def check() -> None:
        if is_read:
            raise TimeoutError("too late")

    def sources() -> Iterator[Source]:
        nonlocal is_read
        yield from numbered(*[{"time_us": -n} for n in range(20_000)])
        is_read = True

    with pytest.raises(TimeoutError, match="too late"):
        SqliteSourceTable(SourceList(name="l.csv", is_typed=True, sources=sources()), check=check)


@pytest.mark.long
def test_table_holds_few_long_lines_at_a_time() -> None:
    """Lines may be a hundred times longer than usual without filling the memory."""
    long = ({str(c): f"{n}" + "x" * 9_990 for c in range(10)} for n in range(1000))
    sources = (Source(href="s3://bucket/a", columns=columns) for columns in long)

    tracemalloc.start()
    table_of(sources).close()
    _, peak_nbytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_nbytes < 30e6


_GATHER_LIST = """
import re, sys, time
from pathlib import Path
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather.io.lists.source_list import open_source_list
from pixel_gather.io.lists import source_table
from pixel_gather.io.lists.source_table import SqliteSourceTable
from pixel_gather.core.request.href_policy import IN_PROCESS

assert "cache_size = -16384" in source_table._SCHEMA
source_table._SCHEMA = source_table._SCHEMA.replace("cache_size = -16384", "cache_size = -1024")
started = time.perf_counter()
opened = open_source_list(
    sys.argv[1], list_policy=IN_PROCESS, policy=IN_PROCESS, objects=Objects(StoreSettings())
)
with SqliteSourceTable(opened) as table:
    loaded = time.perf_counter()
    table.digest, table.columns, table.spread(16, band=None)
    # ru_maxrss outlives exec, so it would tell the peak of the process that started this one
    peak_kib = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
    print(table.n_rows, int(peak_kib) / 1024,
          round(loaded - started, 1), round(time.perf_counter() - loaded, 1))
"""

_FORMATS = {
    "text": ("", "s3://bucket/sentinel/31/U/FU/2023/{0:07d}/B04.tif"),
    "csv": (
        "href,time,cloud,tile\n",
        "s3://bucket/sentinel/31/U/FU/2023/{0:07d}/B04.tif,20{1:02d}-{2:02d}-{3:02d}T10:{4:02d}:{5:02d}Z,{1}.5,{3:04d}",
    ),
    "bands": (
        "href,time,scene,band,cloud\n",
        "s3://bucket/sentinel/31/U/FU/2023/{0:07d}/B04.tif,20{1:02d}-{2:02d}-{3:02d}T10:{4:02d}Z,S{6},B{7},{1}.5",
    ),
}


def _write_list(path: Path, kind: str, n: int) -> Path:
    header, line = _FORMATS[kind]
    with path.open("w") as file:
        file.write(header)
        for i in range(n):
            j = i * 7919 % n
            file.write(
                line.format(i, j % 24, j % 12 + 1, j % 28 + 1, j % 60, j // 60 % 60, i // 4, i % 4) + "\n"
            )
    return path


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
@pytest.mark.parametrize("kind", _FORMATS)
def test_memory_is_flat_in_the_length_of_the_list(tmp_path: Path, kind: str) -> None:
    """Each further line takes less than 75 bytes: 40,000 of them less than 3 MB.

    SQLite keeps pages up to a fixed size. It is made small: otherwise it takes 100,000 lines to fill it.
    """
    peaks_mib = []
    for n in (20_000, 60_000):
        path = _write_list(tmp_path / f"{kind}{n}", kind, n)
        ran = subprocess.run(  # noqa: S603 # our own code, in a process whose peak is its own
            [sys.executable, "-c", _GATHER_LIST, str(path)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        n_rows, peak_mib, load_s, digest_s = map(float, ran.stdout.split())
        print(f"{kind} {n}: {peak_mib:.0f} MiB, {load_s} s to load, {digest_s} s for digest and columns")  # noqa: T201 # a figure for the reader of -s
        assert n_rows == (n // 4 if kind == "bands" else n)
        peaks_mib.append(peak_mib)

    assert peaks_mib[1] - peaks_mib[0] < 3_000_000 / 2**20


def test_table_learns_what_an_index_tells_of_its_sources() -> None:
    """Each line gets the last entry of its href. Hrefs that are not in the list are ignored."""
    sources = [Source(href=f"s3://b/{n % 3}", band=f"B{n % 2}", time_us=n // 2) for n in range(6)]
    with table_of(sources) as table:
        before = list(table.packed_headers(0, table.n_rows))
        table.learn([("s3://b/0", b"old"), ("s3://b/9", b"x"), ("s3://b/2", b"two"), ("s3://b/0", b"new")])

        assert before == [(None, None)] * 3
        assert table.n_known == 4
        assert list(table.packed_headers(0, 3)) == [(b"new", None), (b"two", b"new"), (None, b"two")]
        assert list(table.packed_headers(1, 2)) == [(b"two", b"new")]


def test_table_with_an_index_has_the_digest_that_it_has_without() -> None:
    """An index makes a gather faster and does not change its digest."""
    sources = numbered({}, {}, {})
    with table_of(sources) as plain, table_of(sources) as table:
        table.learn([("s3://bucket/1", b"x")])

        assert table.digest == plain.digest
        assert list(table.rows(0, 3)) == list(plain.rows(0, 3))


def test_table_learns_from_an_index_of_a_whole_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only entries of the list's own sources take room."""
    monkeypatch.setattr("pixel_gather.io.lists.source_table._MOST_KNOWN_NBYTES", 2**20)
    others = [(f"s3://other/{n}", b"x" * 1000) for n in range(3000)]
    ours = [(f"s3://bucket/{n}", b"x" * 1000) for n in range(3000)]
    with table_of(numbered(*({} for _ in range(3000)))) as table:
        table.learn(others + ours[:100])
        assert table.n_known == 100
        table.learn(ours)
        assert 900 < table.n_known < 2000


def test_table_learns_in_time() -> None:
    """Reading a long index stops at the time limit."""

    def check() -> None:
        raise TimeoutError("too long")

    with table_of(numbered(*({} for _ in range(5000)))) as table, pytest.raises(TimeoutError):
        table.learn(((f"s3://bucket/{n}", b"x" * 100) for n in range(200_000)), check=check)


@pytest.mark.parametrize(
    ("names", "expected"), [("", 0), ("a", 0), ("ab", 0), ("aba", 1), ("bbab", 2), ("aaa", 2)]
)
def test_table_counts_sources_that_were_named_before(names: str, expected: int) -> None:
    """The first source of an href does not count, but all others do, wherever they are."""
    with table_of([Source(href=f"s3://bucket/{name}") for name in names]) as table:
        assert table.n_repeated == expected


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        (
            [("a_red.tif", 1, None), ("a_nir.tif", 1, None), ("b_red.tif", 2, None)],
            "2 of 3 files have the time",
        ),
        ([("a.tif", 1, "red"), ("b.tif", 1, "red"), ("c.tif", 2, "nir")], "2 of 3 rows have the time"),
        ([("a.tif", 1, "red"), ("b.tif", 1, "nir"), ("c.tif", 2, "red")], None),
        ([("a.tif", 1, None), ("b.tif", 2, None)], None),
        ([("a.tif", 1, None), ("a.tif", 1, None)], None),
        ([("a_red.tif", 1, None), ("a_nir.tif", 1, None), ("b_red.tif", None, None)], "(red, nir)"),
        (
            [
                ("LC08_L1TP_013032_20181201_B2.TIF", None, None),
                ("LC08_L1TP_013032_20181201_B4.TIF", None, None),
            ],
            "(B2, B4)",
        ),
    ],
)
def test_table_notes_what_may_be_mixed_in_one_array(
    sources: list[tuple[str, int | None, str | None]], said: str | None
) -> None:
    """Equal times of different files, and names of several bands. The note outlives the table."""
    made = [Source(href=href, time_us=time_us, band=band) for href, time_us, band in sources]
    with table_of(made) as table:
        pass

    assert [each for each in table.notes if said and said in each] == list(table.notes)
    assert len(table.notes) == (said is not None)


@pytest.mark.parametrize(
    ("hrefs", "common"),
    [
        (["s3://a/x/1.tif", "s3://a/x/2.tif", "s3://a/x/10.tif"], "s3://a/x/"),
        (["s3://a/x/1.tif"], "s3://a/x/1.tif"),
        (["s3://a/x/1.tif", "s3://b/x/1.tif"], "s3://"),
        (["b.tif", "a.tif"], ""),
    ],
)
def test_what_all_hrefs_begin_with_is_known(hrefs: list[str], common: str) -> None:
    """Gathers at the same time tell by it whether they read below one prefix."""
    with table_of(Source(href=each) for each in hrefs) as table:
        assert table.common_href == common
