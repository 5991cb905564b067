"""Tests every way of naming sources, and the message for each mistake."""

import asyncio
import gzip
import io
import os
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from arro3.core import Array, DataType, Table
from arro3.io import write_parquet
from hypothesis import given
from hypothesis import strategies as st
from obstore.exceptions import GenericError, PermissionDeniedError
from obstore.store import MemoryStore

from pixel_gather import make_catalog
from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.source import Source
from pixel_gather.core.request.href_policy import IN_PROCESS, HrefPolicy
from pixel_gather.core.time_range import format_moment
from pixel_gather.io.lists import parse_list
from pixel_gather.io.lists.list_columns import RESERVED, parse_time
from pixel_gather.io.lists.list_prefix import ListedObject, list_prefix
from pixel_gather.io.lists.source_list import SourceList, open_source_list, sources_below, sources_of_hrefs
from pixel_gather.io.store.object_store import Objects, Store
from pixel_gather.io.store.ranged_gets import RangedGets
from pixel_gather.io.store.store_settings import StoreSettings

SETTINGS = StoreSettings(max_retries=0)
DAY_US = 86_400_000_000


def us(*when: int) -> int:
    """Return microseconds since 1970 of a time in UTC."""
    return round(datetime(*when, tzinfo=UTC).timestamp() * 1e6)  # type: ignore[arg-type,misc] # year, month, ...


def opened_list(place: str, *, objects: Any = None, **options: Any) -> SourceList:
    """Open a list without restrictions, unless options say otherwise."""
    policies = {"list_policy": IN_PROCESS, "policy": IN_PROCESS}
    return open_source_list(place, objects=objects or Objects(SETTINGS), **{**policies, **options})


def read_list(path: Path) -> list[Source]:
    """Read a local list file without restrictions."""
    return list(opened_list(str(path)).sources)


def read_text(tmp_path: Path, name: str, content: str | bytes) -> list[Source]:
    """Read a list file with this content."""
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_list(path)


@dataclass(frozen=True)
class Case:
    """A list file, and the sources in it."""

    id: str
    name: str
    content: str | bytes
    expected: list[Source]


@dataclass(frozen=True)
class Mistake:
    """A list file, and the position and message of its mistake."""

    id: str
    name: str
    content: str | bytes
    field: str
    says: str


A, B = "s3://bucket/a.tif", "s3://bucket/b.tif"
BOTH = [Source(href=A), Source(href=B)]
WITH_COLUMNS = [
    Source(href=A, time_us=us(2024, 3, 1), band="B04", scene="s1", columns={"cloud": "12.5", "tile": "0034"}),
    Source(href=B, time_us=None, band="B08", scene="s1", columns={"cloud": None, "tile": "31U"}),
]
CSV = f"href,time,band,scene,cloud,tile\n{A},2024-03-01,B04,s1,12.5,0034\n{B},,B08,s1,,31U\n"

READ = [
    Case("text", "l.txt", f"# sources\n\n{A}\n  {B}  \n", BOTH),
    Case("text without a line end, windows", "l.txt", f"\ufeff{A}\r\n{B}", BOTH),
    Case("csv", "l.csv", CSV, WITH_COLUMNS),
    Case("csv with semicolons", "l.csv", CSV.replace(",", ";"), WITH_COLUMNS),
    Case("csv with tabs", "l.tsv", CSV.replace(",", "\t"), WITH_COLUMNS),
    Case(
        "csv with blanks around names", "l.csv", f"href , n\n{A}, 1\n\n", [Source(href=A, columns={"n": "1"})]
    ),
    Case("csv without a header", "l.csv", f"{A}\n{B}\n", BOTH),
    Case("csv quoted, without a header", "l.csv", f'"{A}"\n"{B}"\n', BOTH),
    Case("text in quotes", "l.txt", f"\"{A}\"\n'{B}'\n", BOTH),
    Case("csv quoted", "l.csv", f'href,n\n"{A}","x, ""y"""\n', [Source(href=A, columns={"n": 'x, "y"'})]),
    Case("csv told by content", "list", CSV, WITH_COLUMNS),
    Case("csv of one column told by content", "list", f"href\n{A}\n{B}\n", BOTH),
    Case("text told by content", "list", f"# mine\n{A}\n{B}\n", BOTH),
    Case(
        "jsonl",
        "l.jsonl",
        f'{{"href":"{A}","n":1,"ok":true}}\n\n{{"href":"{B}","time":2024,"id":"01"}}',
        [
            Source(href=A, columns={"n": 1, "ok": True}),
            Source(href=B, time_us=us(2024, 1, 1), columns={"id": "01"}),
        ],
    ),
    Case("jsonl told by content", "list", f'{{"href":"{A}"}}\n{{"href":"{B}"}}\n', BOTH),
    Case("csv with empty rows", "l.csv", CSV.replace("\n", "\n  \n,,,\n", 1) + ",,,\n", WITH_COLUMNS),
    Case("csv of an old Mac", "l.csv", CSV.replace("\n", "\r"), WITH_COLUMNS),
    Case("text of an old Mac", "l.txt", f"{A}\r{B}", BOTH),
    Case("old Mac, gzip", "list.gz", gzip.compress(CSV.replace("\n", "\r").encode()), WITH_COLUMNS),
    Case("old Mac, long", "l.txt", f"{A}\r" * 100_000, [Source(href=A)] * 100_000),
    Case("gzip", "l.csv.gz", gzip.compress(CSV.encode()), WITH_COLUMNS),
    Case("gzip told by content", "list", gzip.compress(CSV.encode()), WITH_COLUMNS),
]

WRONG = [
    Mistake("nothing", "l.csv", "", "l.csv", "names no source"),
    Mistake("only a header", "l.csv", "href,time\n", "l.csv", "names no source"),
    Mistake("only comments", "l.txt", "# a\n\n", "l.txt", "names no source"),
    Mistake("no href", "l.csv", "url,time\na,b\n", "l.csv line 1", "the columns are url, time"),
    Mistake("no href in json", "l.jsonl", '{"url":"a"}\n', "l.jsonl line 1", "columns are url"),
    Mistake(
        "no href in a later line",
        "l.jsonl",
        f'{{"href":"{A}","n":1}}\n{{"n":2}}\n',
        "l.jsonl line 2",
        "no column href",
    ),
    Mistake(
        "items",
        "l.jsonl",
        '{"type":"Feature","assets":{}}',
        "l.jsonl line 1",
        "any other STAC items by --items",
    ),
    Mistake("ragged", "l.csv", f"href,n\n{A},1\n{A},1,2\n", "l.csv line 3", "3 values stand in 2"),
    Mistake("short", "l.csv", f"href,n\n{A}\n", "l.csv line 2", "1 values stand in 2"),
    Mistake("open quote", "l.csv", f'href,n\n{A},"x\n', "l.csv line 2", "not CSV"),
    Mistake("twice", "l.csv", f"href,n,n\n{A},1,2\n", "l.csv line 1", "two columns 'n'"),
    Mistake("twice href", "l.csv", f"href,href\n{A},{A}\n", "l.csv line 1", "two columns 'href'"),
    Mistake("spreadsheet", "l.xlsx", b"PK\3\4" + bytes(9), "l.xlsx", "a spreadsheet: unpack it, or save"),
    Mistake("zstd", "l.csv.zst", b"\x28\xb5\x2f\xfd" + bytes(9), "l.csv.zst", "it is packed"),
    Mistake("nameless", "l.csv", f",href\n0,{A}\n", "l.csv line 1", "column 1 has no name"),
    Mistake("reserved", "l.csv", f"href,status\n{A},1\n", "l.csv line 1", "rename it"),
    Mistake("path as a name", "l.csv", f"href,a/b\n{A},1\n", "l.csv line 1", "rename it"),
    Mistake("reserved in json", "l.jsonl", f'{{"href":"{A}","x":1}}', "l.jsonl line 1", "rename it"),
    Mistake("reserved band", "l.csv", f"href,band\n{A},y\n", "l.csv line 2", "the band 'y'"),
    Mistake("latin-1", "l.txt", f"{A}\n".encode() + b"/data/\xe9.tif\n", "l.txt line 2", "not UTF-8"),
    Mistake("utf-16", "l.csv", CSV.encode("utf-16"), "l.csv line 1", "not UTF-8"),
    Mistake("bad time", "l.csv", f"href,time\n{A},spring\n", "l.csv line 2", "'spring'; write ISO"),
    Mistake(
        "seconds since 1970",
        "l.jsonl",
        f'{{"href":"{A}","time":1704067200}}',
        "l.jsonl line 1",
        "rename the column to keep it as text",
    ),
    Mistake("bad href", "l.csv", f"href,n\n{A},1\nftp://b/k,2\n", "l.csv line 3", "ftp:// is not read"),
    Mistake("empty href", "l.csv", "href,n\n,1\n", "l.csv line 2", "href is empty"),
    Mistake("href is a number", "l.jsonl", '{"href":1}', "l.jsonl line 1", "column href is 1"),
    Mistake("some bands", "l.csv", f"href,band\n{A},B04\n{B},\n", "l.csv line 3", "some have none"),
    Mistake("some bands, later", "l.csv", f"href,band\n{A},\n{B},B1\n", "l.csv line 3", "some have"),
    Mistake("nested", "l.jsonl", f'{{"href":"{A}","g":[1]}}', "l.jsonl line 1", "column g holds a list"),
    Mistake("infinite", "l.jsonl", f'{{"href":"{A}","g":Infinity}}', "l.jsonl line 1", "infinite"),
    Mistake("half a character", "l.jsonl", f'{{"href":"{A}","g":"\\ud800"}}', "l.jsonl line 1", "half"),
    Mistake("not json", "l.jsonl", f'{{"href":"{A}"}}\n{{', "l.jsonl line 2", "not JSON"),
    Mistake("object of lines", "l.json", '{\n"a": 1}', "l.json line 1", "If it is a request: run, plan"),
    Mistake("features", "l.geojson", '{"a": [\n1]}', "l.geojson line 1", "GeoJSON, not a list of sources"),
    Mistake("request", "r.yaml", "sources: a\n", "r.yaml", "a request, not a list: run, plan and submit"),
    Mistake("request in json", "r.json", '{"sources":"a","window":{}}', "r.json", "a request, not a list"),
    Mistake("deep json", "l.jsonl", "[" * 100_000, "l.jsonl line 1", "not JSON"),
    Mistake("json lines of arrays", "l.jsonl", "[1]", "l.jsonl line 1", "one JSON object a line"),
    Mistake("json array", "l.json", '[{"href":"a"}]', "l.json", "write one JSON object a line"),
    Mistake("endless line", "l.txt", "a" * (1 << 20) + "b", "l.txt line 1", "longer than"),
    Mistake(
        "too many columns",
        "l.csv",
        "href," + ",".join(f"c{i}" for i in range(200)),
        "l.csv line 1",
        "more than 200",
    ),
    Mistake(
        "very many columns",
        "l.csv",
        "href," + ",".join(f"c{i}" for i in range(140_000)),
        "l.csv line 1",
        "more than 200",
    ),
    Mistake(
        "endless record",
        "l.csv",
        'href,n\n"' + '\n","' * 300_000,
        "l.csv line 262146",
        "is a quote missing",
    ),
    Mistake("blank lines", "l.txt.gz", gzip.compress(b"\n" * 1_000_001), "l.txt line 1000001", "in a row"),
    Mistake("broken gzip", "list", b"\x1f\x8b" + b"x" * 50, "list", "the list cannot be read"),
    Mistake("half a gzip", "l.txt.gz", gzip.compress(os.urandom(9000))[:5000], "l.txt line 1", "list"),
    Mistake("not parquet", "l.parquet", b"href\n", "l.parquet", "not Parquet"),
    Mistake("damaged parquet", "list", b"PAR1" + bytes(99) + b"PAR1", "list", "not Parquet"),
]


@pytest.mark.parametrize("case", READ, ids=lambda case: case.id)
def test_open_source_list_reads_every_format(tmp_path: Path, case: Case) -> None:
    """The same list gives the same sources in every format."""
    assert read_text(tmp_path, case.name, case.content) == case.expected


@pytest.mark.slow
@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.id)
def test_open_source_list_names_list_and_line_of_a_mistake(tmp_path: Path, case: Mistake) -> None:
    """The error names the list and the line."""
    with pytest.raises(RequestError) as caught:
        read_text(tmp_path, case.name, case.content)

    assert caught.value.field == case.field
    assert case.says in str(caught.value)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_open_source_list_refuses_reserved_columns(tmp_path: Path, name: str) -> None:
    """A column may not have the name of an array that every cube has."""
    with pytest.raises(RequestError, match="rename it"):
        read_text(tmp_path, "l.csv", f"href,{name}\n{A},1\n")


def _parquet(columns: dict[str, Array]) -> bytes:
    file = io.BytesIO()
    write_parquet(Table.from_pydict({**columns}), file)
    return file.getvalue()


def _cast(values: list[int | None], kind: DataType, via: DataType | None = None) -> Array:
    return Array(values, via or DataType.int64()).cast(kind)


HREFS = Array([A, B], DataType.utf8())
TIMES: dict[str, Array] = {
    "microseconds": _cast([us(2024, 3, 1, 12), None], DataType.timestamp("us")),
    "nanoseconds in a zone": _cast([us(2024, 3, 1, 12) * 1000, None], DataType.timestamp("ns", tz="UTC")),
    "seconds in another zone": _cast(
        [us(2024, 3, 1, 12) // 10**6, None], DataType.timestamp("s", tz="Asia/Tokyo")
    ),
    "few times": _cast([us(2024, 3, 1, 12), None], DataType.timestamp("us")).cast(
        DataType.dictionary(DataType.int8(), DataType.timestamp("us"))
    ),
    "text": Array(["2024-03-01T12:00", None], DataType.large_utf8()),
    "text with an offset": Array(["2024-03-01T14:00:00+02:00", None], DataType.utf8()),
}


@pytest.mark.parametrize("kind", TIMES)
def test_open_source_list_reads_times_of_parquet(tmp_path: Path, kind: str) -> None:
    """Every type of time in Parquet gives the same time."""
    sources = read_text(tmp_path, "l.parquet", _parquet({"href": HREFS, "time": TIMES[kind]}))

    assert [source.time_us for source in sources] == [us(2024, 3, 1, 12), None]


def test_open_source_list_reads_columns_of_parquet(tmp_path: Path) -> None:
    """Parquet's own types are kept. Dates and times other than ``time`` become text."""
    columns = {
        "href": HREFS,
        "time": _cast([19783, None], DataType.date32(), DataType.int32()),
        "n": Array([1, None], DataType.int16()),
        "f": Array([1.5, float("nan")], DataType.float32()),
        "ok": Array([True, False], DataType.bool()),
        "id": Array(["01", ""], DataType.utf8()),
        "made": _cast([0, 1], DataType.timestamp("us")),
    }

    first, second = read_text(tmp_path, "list", _parquet(columns))

    assert first.time_us == us(2024, 3, 1)
    assert first.columns == {"n": 1, "f": 1.5, "ok": True, "id": "01", "made": "1970-01-01T00:00:00Z"}
    made = "1970-01-01T00:00:00.000001Z"
    assert second.columns == {"n": None, "f": None, "ok": False, "id": None, "made": made}


def test_columns_of_parquet_that_pandas_and_others_write(tmp_path: Path) -> None:
    """A data frame's index without a name is no column. Two columns of one name are refused."""
    with_index = {"href": HREFS, "n": Array([1, 2], DataType.int8()), "__index_level_0__": HREFS}

    assert [source.columns for source in read_text(tmp_path, "l.parquet", _parquet(with_index))] == [
        {"n": 1},
        {"n": 2},
    ]
    for name in ("n", "href"):
        pq.write_table(pa.table([[A], [B], [3]], names=["href", name, "n"]), tmp_path / "twice.parquet")
        with pytest.raises(RequestError, match=f"two columns '{name}'"):
            read_list(tmp_path / "twice.parquet")


def test_open_source_list_names_the_row_of_a_mistake_in_parquet(tmp_path: Path) -> None:
    """The error names the row, or the column that holds no scalars."""
    with pytest.raises(RequestError, match=r"l\.parquet line 2: .*spring"):
        read_text(
            tmp_path,
            "l.parquet",
            _parquet({"href": HREFS, "time": Array(["2024", "spring"], DataType.utf8())}),
        )
    with pytest.raises(
        RequestError, match="column wkb holds lists, objects, bytes or decimals; leave it out"
    ):
        read_text(
            tmp_path, "l.parquet", _parquet({"href": HREFS, "wkb": Array([b"", b""], DataType.binary())})
        )
    late = _cast([10**12, 0], DataType.timestamp("s"))
    with pytest.raises(RequestError, match="outside the years 1 to 9999"):
        read_text(tmp_path, "l.parquet", _parquet({"href": HREFS, "time": late}))


def test_open_source_list_starts_relative_hrefs_from_the_lists_folder(tmp_path: Path) -> None:
    """Relative hrefs start from the list's folder, so that it can be moved with its files."""
    (tmp_path / "my lists").mkdir()

    first, second = read_text(tmp_path / "my lists", "l.txt", "sub/a 1.tif\n../b.tif\n")

    assert first.href == f"file://{tmp_path}/my%20lists/sub/a%201.tif"
    assert second.href == f"file://{tmp_path}/b.tif"


class _Pipe(io.BytesIO):
    def seekable(self) -> bool:
        return False


@pytest.mark.parametrize("content", [CSV, f"href\n{A}\n", f"{A}\n", f'{{"href":"{A}"}}'])
def test_open_source_list_reads_standard_input(content: str) -> None:
    """The format is detected from the content. Relative hrefs start from the working folder."""
    opened = opened_list("-", stdin=_Pipe(content.encode()))

    assert opened.name == "stdin"
    assert next(opened.sources).href == A


def test_open_source_list_refuses_parquet_from_a_pipe() -> None:
    """Parquet cannot come from a pipe, because it is read from its end."""
    opened = opened_list("-", stdin=_Pipe(_parquet({"href": HREFS})))

    with pytest.raises(RequestError, match="name the file instead"):
        next(opened.sources)


@pytest.mark.parametrize("make", [Path.exists, Path.mkdir, lambda path: path.symlink_to(path)])
def test_open_source_list_says_that_a_list_is_not_there(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    """A list that cannot be opened is a RequestError."""
    path = tmp_path / "l.csv"
    make(path)

    with pytest.raises(RequestError, match=r"^l\.csv: the list cannot be read: .*l\.csv"):
        read_list(path)


def _remote(store: MemoryStore) -> Objects:
    objects = Objects(SETTINGS)
    in_memory: Any = store  # serves as well
    objects._back_ends["s3://lists"] = RangedGets(
        "s3://lists", in_memory, hedging=None, first_byte_timeout_s=10, pace=None
    )
    return objects


def _with_list(name: str, hrefs: list[str]) -> Objects:
    """Return a bucket with a list of hrefs, written as its name says."""
    text = "\n".join(["href", *hrefs]).encode()
    table = {"href": Array(hrefs, DataType.utf8())}
    store = MemoryStore()
    store.put(f"x/{name}", {"l.csv": text, "l.csv.gz": gzip.compress(text)}.get(name) or _parquet(table))
    return _remote(store)


@pytest.mark.long
@pytest.mark.parametrize("name", ["l.csv", "l.csv.gz", "l.parquet"])
def test_open_source_list_reads_from_a_bucket(name: str) -> None:
    """A remote list is read in ranges, and relative hrefs stay in its folder."""
    many = [f"{i:06}.tif" for i in range(200_000 if name == "l.csv" else 5000)]

    opened = opened_list(f"s3://lists/x/{name}", objects=_with_list(name, many))

    assert [source.href for source in opened.sources] == [f"s3://lists/x/{each}" for each in many]
    assert opened.is_typed == (name == "l.parquet")


@pytest.mark.parametrize("place", ["s3://lists/x/", "s3://lists/x", "/data/x/", "x/"])
def test_a_folder_instead_of_a_list_is_taken_by_prefix(place: str) -> None:
    """Whether it is told by its slash, or by the bucket that has no such object."""
    with pytest.raises(RequestError, match=r"folder[:,] pixel-gather ls makes a list of it; .* by --prefix"):
        opened_list(place, list_policy=IN_PROCESS.within("/data"), objects=_remote(MemoryStore()))


def test_a_catalog_instead_of_a_list_is_taken_by_its_option(tmp_path: Path) -> None:
    """As `make_catalog` writes it."""
    files = sorted(Path(__file__).parents[1].glob("data/series/files/stactools-noaa-cdr/heat_*yearly*.tif"))
    make_catalog({"hrefs": files, "time": "_%Y"}, kind="sources", to=tmp_path / "catalog.parquet")

    with pytest.raises(RequestError, match="a catalog that pixel-gather catalog wrote is given by --catalog"):
        read_list(tmp_path / "catalog.parquet")


@dataclass
class Clock:
    """A check that raises an error from the nth call on."""

    n: int
    called: int = 0

    def __call__(self) -> None:
        """Count the call."""
        self.called += 1
        if self.called > self.n:
            raise TimeoutError("too late")


IDLE = {
    "text": ("l.txt", "# nothing\n\n" * 500),
    "no ending": ("list", "\n" * 1000),
    "csv": ("l.csv", "href,n\n" + "\n" * 1000),
    "jsonl": ("l.jsonl", "\n" * 1000),
}


@pytest.mark.parametrize(("name", "content"), IDLE.values(), ids=IDLE)
def test_open_source_list_looks_at_the_clock_where_no_source_comes_out(
    tmp_path: Path, name: str, content: str
) -> None:
    """The check is called for blank lines, too."""
    path = tmp_path / name
    path.write_text(content)

    with pytest.raises(TimeoutError, match="too late"):
        list(opened_list(str(path), check=Clock(900)).sources)


@pytest.mark.long
def test_open_source_list_keeps_none_of_the_lines_that_say_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blank lines are not kept in memory: 20 million of them take 19 KB gzipped."""
    monkeypatch.setattr("pixel_gather.io.lists.parse_list._MOST_EMPTY_LINES", 100_000)
    path = tmp_path / "list"
    path.write_bytes(gzip.compress(b"\n" * 20_000_000))

    tracemalloc.start()
    with pytest.raises(RequestError, match="more than 100,000 lines in a row are blank or comments"):
        read_list(path)
    _, peak_nbytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_nbytes < 4 << 20


def test_open_source_list_takes_a_list_whose_kind_a_comment_hides(tmp_path: Path) -> None:
    """Comments above the first line are left out. Lines keep their numbers."""
    above = "# mine\n\n"

    assert read_text(tmp_path, "list", above + CSV) == WITH_COLUMNS
    with pytest.raises(RequestError, match="list line 5: 1 values"):
        read_text(tmp_path, "list", f"{above}href,n\n{A},1\n{A}\n")


@pytest.mark.parametrize("name", ["l.csv", "l.csv.gz", "l.parquet"])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_open_source_list_ends_in_time_wherever_it_is(name: str, n: int) -> None:
    """The error says that the time is up, not that the list is broken."""
    objects = _with_list(name, [f"{i}.tif" for i in range(100)])

    with pytest.raises(TimeoutError, match="too late"):
        list(opened_list(f"s3://lists/x/{name}", objects=objects, check=Clock(n)).sources)


class _Silent:
    """A store that never answers."""

    async def get_range(self, *_: Any, **__: Any) -> Any:
        """Wait for ever."""
        await asyncio.Event().wait()


def test_open_source_list_does_not_wait_for_a_store_beyond_its_time() -> None:
    """A request that is under way is cancelled at the time limit."""
    with pytest.raises(TimeoutError, match="too late"):
        opened_list("s3://lists/l.csv", objects=_Silent(), check=Clock(2))


def test_open_source_list_refuses_parquet_whose_rows_are_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long rows in a dictionary take little room in the file and much memory."""
    monkeypatch.setattr(parse_list, "_LONGEST_LINE_NBYTES", 100)
    content = _parquet({"href": Array(["s3://b/" + "x" * 300] * 256, DataType.utf8())})

    with pytest.raises(RequestError, match=r"l\.parquet line 1: rows are longer than 100 bytes"):
        read_text(tmp_path, "l.parquet", content)


def test_open_source_list_says_that_a_remote_list_is_not_there() -> None:
    """The error names a missing object."""
    with pytest.raises(RequestError, match=r"no such object \(s3://lists/no.csv\)"):
        opened_list("s3://lists/no.csv", objects=_remote(MemoryStore()))


def test_open_source_list_holds_list_and_sources_to_their_policies(tmp_path: Path) -> None:
    """Lists and sources have separate rules. Neither allows what the other forbids."""
    path = tmp_path / "l.txt"
    path.write_text(f"{A}\n/etc/passwd\n")
    strict = HrefPolicy(schemes=frozenset({"s3"}), buckets=frozenset({"bucket"}))

    opened = opened_list(str(path), policy=strict)

    assert next(opened.sources).href == A
    with pytest.raises(RequestError, match=r"l\.txt line 2: local files are not read here"):
        next(opened.sources)
    with pytest.raises(RequestError, match="local files are not read here"):
        opened_list(str(path), list_policy=strict, policy=strict)


def test_sources_of_hrefs_checks_each(tmp_path: Path) -> None:
    """Relative hrefs start from the working folder. The error names the position of a wrong one."""
    policy = IN_PROCESS.within(str(tmp_path))

    assert [s.href for s in sources_of_hrefs([A, "b.tif"], policy=policy).sources] == [
        A,
        f"file://{tmp_path}/b.tif",
    ]
    with pytest.raises(RequestError, match=r"^sources\.hrefs\.1: ftp://"):
        list(sources_of_hrefs([A, "ftp://x/y"], policy=policy).sources)
    with pytest.raises(RequestError, match="no source is named"):
        list(sources_of_hrefs([], policy=policy).sources)


KEYS = ["a/b.tif", "a.tif", "a/c/d.tif", "a/c/e.jp2", "a-b/f.tif", "é/g 1.tif"]


def _put_in_folder(folder: Path) -> str:
    for key in KEYS:
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(b"123")
    (folder / "a/circle").symlink_to(folder)
    (folder / "a/broken").symlink_to(folder / "gone")
    (folder / "a/itself").symlink_to(folder / "a/itself")
    return str(folder)


def _bucket(_root: str, _settings: StoreSettings) -> Store:
    store = MemoryStore()
    for key in (*KEYS, "a/c/marker/"):
        store.put(f"root/{key}", b"" if key.endswith("/") else b"123")
    store.put("rooted.tif", b"123")
    return store  # type: ignore[return-value] # a store in memory serves as well


BUCKET: dict[str, Any] = {"policy": IN_PROCESS, "settings": SETTINGS, "open_": _bucket}


def listed(prefix: str = "s3://bucket/root", **options: Any) -> list[ListedObject]:
    """List what a bucket has below a prefix."""
    return list(list_prefix(prefix, **{**BUCKET, **options}))


@dataclass(frozen=True)
class Pattern:
    """A request for the objects below a folder, and the keys that are found."""

    id: str
    asked: dict[str, Any]
    found: list[str]


PATTERNS = [
    Pattern("everything", {}, ["a-b/f.tif", "a.tif", "a/b.tif", "a/c/d.tif", "a/c/e.jp2", "é/g 1.tif"]),
    Pattern("star stays in its folder", {"glob": "*.tif"}, ["a.tif"]),
    Pattern(
        "two stars go below",
        {"glob": "**/*.tif"},
        ["a-b/f.tif", "a.tif", "a/b.tif", "a/c/d.tif", "é/g 1.tif"],
    ),
    Pattern("folders in front", {"glob": "a/**/*.tif"}, ["a/b.tif", "a/c/d.tif"]),
    Pattern("part of a name", {"glob": "a/c/[de]*"}, ["a/c/d.tif", "a/c/e.jp2"]),
    Pattern("no wildcard", {"glob": "a/b.tif"}, ["a/b.tif"]),
    Pattern("slash in front", {"glob": "/a/b.tif"}, ["a/b.tif"]),
    Pattern("regular expression", {"regex": r"/[ad]\.(tif|jp2)$"}, ["a.tif", "a/c/d.tif"]),
    Pattern("both", {"glob": "a/**", "regex": "jp2"}, ["a/c/e.jp2"]),
]


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.id)
@pytest.mark.parametrize("slash", ["", "/"])
def test_list_prefix_finds_the_same_in_a_folder_and_in_a_bucket(
    tmp_path: Path, pattern: Pattern, slash: str
) -> None:
    """Both are listed by key. Circular links and folder markers are left out."""
    local = listed(_put_in_folder(tmp_path / "r #") + slash, **pattern.asked)
    remote = listed(f"s3://bucket/root{slash}", **pattern.asked)

    assert [item.href for item in remote] == [f"s3://bucket/root/{key}" for key in pattern.found]
    quoted = [key.replace("é", "%C3%A9").replace(" ", "%20") for key in pattern.found]
    assert [item.href for item in local] == [f"file://{tmp_path}/r%20%23/{key}" for key in quoted]
    assert {item.nbytes for item in (*local, *remote)} == {3}


class _BreaksOnce:
    """Lists a page of two objects and fails, and lists everything from then on."""

    def __init__(self, error: Exception) -> None:
        self.offsets: list[str | None] = []
        self._error = error
        self._list = obstore.list

    def __call__(self, store: Any, prefix: str | None, *, offset: str | None, chunk_size: int) -> Any:
        self.offsets.append(offset)
        pages = self._list(store, prefix, offset=offset, chunk_size=chunk_size)
        if len(self.offsets) > 1:
            yield from pages
            return
        yield next(iter(pages))[:2]
        raise self._error


def test_list_prefix_goes_on_where_a_page_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy store costs a pause. No object is listed twice or left out."""
    breaks = _BreaksOnce(GenericError("HTTP error: status code: 503"))
    monkeypatch.setattr(obstore, "list", breaks)
    patient = StoreSettings(max_retries=1, first_backoff_s=0.001)

    found = listed(settings=patient)

    assert breaks.offsets == [None, "root/a.tif"]
    assert [item.href.removeprefix("s3://bucket/root/") for item in found] == PATTERNS[0].found


def test_list_prefix_says_that_a_bucket_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that no retry can fix is not retried."""
    breaks = _BreaksOnce(PermissionDeniedError("403"))
    monkeypatch.setattr(obstore, "list", breaks)

    with pytest.raises(RequestError, match=r"s3://bucket/root/ cannot be listed: .*refused access"):
        listed(settings=StoreSettings())

    assert len(breaks.offsets) == 1


def test_list_prefix_looks_at_the_clock_where_no_key_matches() -> None:
    """A bucket may hold a billion keys that do not match."""
    clock = Clock(3)

    with pytest.raises(TimeoutError, match="too late"):
        listed(glob="*.no", check=clock)

    assert clock.called == 4


def test_list_prefix_looks_at_the_clock_before_it_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that stays busy does not delay the time limit."""
    breaks = _BreaksOnce(GenericError("HTTP error: status code: 503"))
    monkeypatch.setattr(obstore, "list", breaks)

    with pytest.raises(TimeoutError, match="too late"):
        listed(settings=StoreSettings(), check=Clock(2))

    assert len(breaks.offsets) == 1


def test_sources_below_says_that_nothing_matches() -> None:
    """A pattern that finds nothing is a RequestError with a hint."""
    nothing = sources_below("s3://bucket/root", glob="*.tiff", **BUCKET)

    with pytest.raises(RequestError, match=r"^sources\.prefix: .* \*\* stands for folders"):
        list(nothing.sources)


def test_sources_below_yields_checked_sources() -> None:
    """Hrefs that were listed pass the same checks as hrefs that were written."""
    found = sources_below("s3://bucket/root", glob="*.tif", **BUCKET)

    assert list(found.sources) == [Source(href="s3://bucket/root/a.tif")]


@pytest.mark.long
@pytest.mark.parametrize(
    ("prefix", "asked", "says"),
    [
        ("", {}, "prefix: the prefix is empty"),
        ("/no/such/folder", {}, "there is no folder"),
        (
            __file__,
            {},
            "test_source_list.py is a file: name the folder that it lies in. If it is a list, run ",
        ),
        ("ftp://b/x", {}, "ftp:// is not read"),
        ("https://h.org/x/", {}, "prefix: web servers cannot be listed"),
        ("s3://bucket/x", {"regex": "("}, "regex: this is not a regular expression"),
        ("s3://bucket/x", {"glob": "*.{tif,jp2}"}, "glob: braces are no wildcard: give a regex"),
        ("s3://bucket/x", {"regex": "(" * 480 + "a" + ")" * 480}, "too many parentheses inside one another"),
        ("s3://bucket/x", {"regex": "a" * 1001}, "longer than 1000"),
        ("s3://bucket/root", {"regex": r"^((\w|\W|.)+)+(?<!f)$"}, "over 1 s to match"),
    ],
)
def test_list_prefix_says_what_is_wrong(prefix: str, asked: dict[str, Any], says: str) -> None:
    """A wrong prefix or pattern is refused before anything is listed."""
    with pytest.raises(RequestError, match=r"^(prefix|glob|regex): ") as caught:
        listed(prefix, **asked)

    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("prefix", "asked", "field"),
    [("/no/such/folder", {}, "prefix"), ("s3://bucket/x", {"regex": "("}, "regex")],
)
def test_sources_below_names_the_field_of_a_request(prefix: str, asked: dict[str, Any], field: str) -> None:
    """A request has it within its sources, and the command of a listing has not."""
    with pytest.raises(RequestError, match=rf"^sources\.{field}: "):
        list(sources_below(prefix, **asked, **BUCKET).sources)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024", us(2024, 1, 1)),
        ("2024-03", us(2024, 3, 1)),
        ("202403", us(2024, 3, 1)),
        ("20240301", us(2024, 3, 1)),
        ("2024-03-01", us(2024, 3, 1)),
        ("2024-03-01T10:20", us(2024, 3, 1, 10, 20)),
        ("2024-03-01 10:20:30", us(2024, 3, 1, 10, 20, 30)),
        ("20240301T102030Z", us(2024, 3, 1, 10, 20, 30)),
        ("2024-03-01T10:20:30+02:00", us(2024, 3, 1, 8, 20, 30)),
        ("2024-03-01T10:20:30.5Z", us(2024, 3, 1, 10, 20, 30) + 500_000),
        ("1969-12-31", -DAY_US),
    ],
)
def test_parse_time_reads_iso_8601(text: str, expected: int) -> None:
    """Dates, times and whole months become times in UTC."""
    assert parse_time(text) == expected


@given(st.integers(min_value=us(1, 1, 1), max_value=us(9999, 12, 31)))
def test_format_moment_is_read_back(time_us: int) -> None:
    """Formatting and parsing a time gives the same time."""
    assert parse_time(format_moment(time_us)) == time_us
