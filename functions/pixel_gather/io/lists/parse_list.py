"""Reads list files as records. A record maps columns to values and describes one source.

The name's ending decides the format. If the ending is unknown, the first line decides. It also decides
whether list.txt holds CSV, and whether list.csv holds hrefs alone, without a header.
"""

import csv
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import date
from itertools import chain, count
from math import inf
from os import PathLike, fspath
from typing import Any, Final, NamedTuple

from arro3.core import Array, DataType, RecordBatch, Schema, Table
from msgspec import Struct

from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.request.given_rows import is_data_frame
from pixel_gather.core.time_range import format_moment
from pixel_gather.io.lists.list_columns import check_names
from pixel_gather.io.parquet.parquet_batches import checked_batches
from pixel_gather.io.store.open_list_file import PARQUET_MAGIC, Check, no_deadline, parquet_errors

type Record = tuple[int, Mapping[str, object]]
"""Line number, from 1, and the columns of that line. A row of Parquet counts as a line."""

_TIFF_MAGIC: Final = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_PACKED_MAGIC: Final = (b"PK\3\4", b"\x28\xb5\x2f\xfd", b"\xfd7zX")
"""Of zip, zstd and xz. Spreadsheets are zip files."""

_LONGEST_LINE_NBYTES: Final = 1 << 20
_MOST_EMPTY_LINES: Final = 1_000_000
_UNREADABLE: Final = (OSError, EOFError, zlib.error, SourceError)
_N_ROWS_PER_BATCH: Final = 256
"""Small, because a file of some KB may unpack to the same long text in every row."""
_DELIMITERS: Final = (",", ";", "\t")
_REQUESTS: Final = (".yaml", ".yml")
_A_REQUEST: Final = "this is a request, not a list: run, plan and submit take it in REQUEST's place"
_IMAGES: Final = (".tif", ".tiff", ".jp2")
_BY_ENDING: Final = {
    ".txt": "text",
    ".lst": "text",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


class Records(Struct, frozen=True, kw_only=True):
    """The records of one list file."""

    is_typed: bool
    """Whether the format stores types. If not, every value is text."""

    lines: Iterator[Record]


def read_records(file: io.BufferedReader, *, name: str, check: Check = no_deadline) -> Records:
    """Read a list file's records one by one. The file is closed after the last.

    Args:
        file: At its start. Must be seekable if it is Parquet.
        name: What errors call the list. Its ending tells the format.
        check: Called for every line, also blank ones, and for every batch of rows.

    Raises:
        RequestError: A line is not what the format allows; also raised while iterating.
        TimeoutError: Raised by ``check``, also while iterating.
    """
    head = _head(file)
    if (why := _why_no_list(head[:4], name)) is not None:
        file.close()
        raise RequestError(why, field=name)
    kind = next((kind for ending, kind in _BY_ENDING.items() if name.lower().endswith(ending)), None)
    if kind == "parquet" or (kind is None and _first_bytes(file, name, check) == PARQUET_MAGIC):
        return Records(is_typed=True, lines=_parquet_records(file, name, check))
    if b"\r" in head[:-1] and b"\n" not in head:
        file = io.BufferedReader(_EndedByCr(file))
    lines = _lines(file, name, check)
    if kind in (None, "text", "csv"):
        is_first = _Line.has_text if kind == "csv" else _Line.is_content  # a column's name may begin with #
        first = next(filter(is_first, lines), None)
        if first is not None and _is_told_by_line(kind, first.text):
            kind = _kind_of_line(first.text, name)
        lines = chain([first] if first else (), lines)
    read = {None: _text_records, "text": _text_records, "csv": _csv_records, "jsonl": _jsonl_records}[kind]
    return Records(is_typed=kind == "jsonl", lines=read(lines, name))


def table_records(table: Any, *, name: str, check: Check = no_deadline) -> Records:
    """Return the records of a table that a program has given.

    A table is a data frame of pandas, an Arrow table of any library, or a sequence of dicts.

    Raises:
        RequestError: A row is not what a list allows; also raised while iterating.
    """
    if isinstance(table, list | tuple):
        return Records(is_typed=True, lines=_dict_records(table, name, check))
    if is_data_frame(table):
        return Records(is_typed=True, lines=_frame_records(table, name, check))
    return Records(is_typed=True, lines=_arrow_records(table, name, check))


def _why_no_list(magic: bytes, name: str) -> str | None:
    """Say what else a file is, by its first bytes and its name; None if it may be a list."""
    if magic in _TIFF_MAGIC:
        return (
            "it is an image, not a list: write its name in a list file, or name its folder as prefix, by "
            "--prefix on the command line"
        )
    if magic in _PACKED_MAGIC:
        return "it is packed, or a spreadsheet: unpack it, or save it as CSV"
    return _A_REQUEST if name.lower().endswith(_REQUESTS) else None


def _head(file: io.BufferedReader) -> bytes:
    """Return some first bytes; none of a file that cannot be read, as the first line's error says so."""
    try:
        return file.peek(4)
    except _UNREADABLE:
        return b""


def _first_bytes(file: io.BufferedReader, name: str, check: Check) -> bytes:
    try:
        return file.peek(4)[:4]
    except _UNREADABLE as error:
        check()
        raise RequestError(f"the list cannot be read: {error}", field=name) from error


class _EndedByCr(io.RawIOBase):
    """A list whose lines end in CR alone, as programs for old Macs write them."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._file.read1(len(buffer))
        buffer[: len(content)] = content.replace(b"\r", b"\n")
        return len(content)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Line(NamedTuple):
    number: int
    text: str
    """Without the line break."""

    def has_text(self) -> bool:
        """Whether the line is not blank."""
        return self.text.strip() != ""

    def is_content(self) -> bool:
        """Whether the line is neither blank nor a comment."""
        return self.has_text() and not self.text.lstrip().startswith("#")


def _lines(file: io.BufferedReader, name: str, check: Check) -> Iterator[_Line]:
    n_empty = 0
    with closing(file):
        for number in count(1):
            check()
            field = f"{name} line {number}"
            try:
                raw = file.readline(_LONGEST_LINE_NBYTES + 1)
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise RequestError("this line is not UTF-8; save the list as UTF-8", field=field) from error
            except _UNREADABLE as error:
                check()
                raise RequestError(f"the list cannot be read from here on: {error}", field=field) from error
            if not raw:
                return
            if len(raw) > _LONGEST_LINE_NBYTES:
                raise RequestError(f"this line is longer than {_LONGEST_LINE_NBYTES} bytes", field=field)
            line = _Line(number, text.rstrip("\r\n"))
            n_empty = 0 if line.is_content() else n_empty + 1
            if n_empty > _MOST_EMPTY_LINES:
                raise RequestError(
                    f"more than {_MOST_EMPTY_LINES:,} lines in a row are blank or comments; leave them out",
                    field=field,
                )
            yield line


def _kind_of_line(text: str, name: str) -> str:
    if text.lstrip().startswith("{"):
        return "jsonl"
    if text.lstrip().startswith("["):
        raise RequestError("this is a JSON array; write one JSON object a line", field=name)
    return "csv" if len(_split_header(text)) > 1 or text.strip() == "href" else "text"


def _text_records(lines: Iterator[_Line], name: str) -> Iterator[Record]:  # noqa: ARG001 # same signature as the other readers
    for line in lines:
        if line.is_content():
            yield line.number, {"href": _unquote(line.text.strip())}


def _unquote(text: str) -> str:
    """Remove the quotes that spreadsheets and shells put around a line."""
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if is_quoted else text


def _is_told_by_line(kind: str | None, text: str) -> bool:
    """Tell whether the first line decides the format, against the name's ending or because that is unknown.

    list.txt may hold CSV. list.csv may hold hrefs alone: ``pixel-gather ls`` writes these if no name has a
    time.
    """
    if kind != "csv":
        return kind is None or bool(_split_header(text))
    names_a_file = "/" in text or text.strip().lower().endswith(_IMAGES)
    return names_a_file and not any(delimiter in text for delimiter in _DELIMITERS)


def _split_header(text: str) -> list[str]:
    """Return the delimiter that yields a column ``href``, and the names; empty if none does."""
    for delimiter in _DELIMITERS:
        try:
            names = [name.strip() for name in next(csv.reader([text], delimiter=delimiter), [])]
        except csv.Error:
            return []
        if "href" in names:
            return [delimiter, *names]
    return []


class _CsvContent:
    """The lines below a CSV header.

    A quoted value may span many lines, which stay in memory. So the length of a record is limited.
    """

    def __init__(self, lines: Iterator[_Line], name: str) -> None:
        self.n_characters = 0
        """Characters since the last record."""

        self._lines = lines
        self._name = name

    def lines(self) -> Iterator[str]:
        for line in self._lines:
            self.n_characters += len(line.text) + 1
            if self.n_characters > _LONGEST_LINE_NBYTES:
                raise RequestError(
                    f"one record is longer than {_LONGEST_LINE_NBYTES} characters; is a quote missing?",
                    field=f"{self._name} line {line.number}",
                )
            yield line.text + "\n"


def _csv_records(lines: Iterator[_Line], name: str) -> Iterator[Record]:
    header = next((line for line in lines if line.text.strip()), None)
    if header is None:
        return
    field = f"{name} line {header.number}"
    try:
        delimiter, *names = _split_header(header.text) or [",", *next(csv.reader([header.text]))]
    except csv.Error as error:
        raise RequestError(f"this is not CSV: {error}", field=field) from error
    if "" in names:
        raise RequestError(f"column {names.index('') + 1} has no name; name it or leave it out", field=field)
    _check_names(names, field)
    content = _CsvContent(lines, name)
    reader = csv.reader(content.lines(), delimiter=delimiter, strict=True)
    try:
        for values in reader:
            content.n_characters = 0
            if not any(map(str.strip, values)):
                continue
            number = header.number + reader.line_num
            if len(values) != len(names):
                raise RequestError(
                    f"{len(values)} values stand in {len(names)} columns; "
                    f"quote values that contain {delimiter!r}",
                    field=f"{name} line {number}",
                )
            yield number, dict(zip(names, map(str.strip, values), strict=True))
    except csv.Error as error:
        at = f"{name} line {header.number + reader.line_num}"
        raise RequestError(f"this is not CSV: {error}", field=at) from error


def _dict_records(rows: Sequence[Any], name: str, check: Check) -> Iterator[Record]:
    seen: set[str] = set()
    for number, row in enumerate(rows, 1):
        check()
        if not isinstance(row, Mapping):
            raise RequestError("give a dict for each row", field=f"{name} line {number}")
        record = {str(column): _plain(value) for column, value in row.items()}
        _check_row(record, seen, f"{name} line {number}")
        yield number, record


def _frame_records(frame: Any, name: str, check: Check) -> Iterator[Record]:
    names = [str(column) for column in frame.columns]
    _check_names(names, name)
    for number, values in enumerate(frame.itertuples(index=False, name=None), 1):
        check()
        yield number, dict(zip(names, map(_plain, values), strict=True))


def _arrow_records(table: Any, name: str, check: Check) -> Iterator[Record]:
    found = Table.from_arrow(table)
    yield from _batch_records(found.schema, found.to_batches(), name, check)


def _plain(value: Any) -> Any:
    """Return a value of a table as a list file has it: times as text, and None for what is missing."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if type(value).__name__ in ("NaTType", "NAType"):
        return None
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, date):  # datetimes are dates
        return value.isoformat()
    if type(value).__name__ == "datetime64":
        return None if value != value else str(value)  # noqa: PLR0124 # only NaT differs from itself
    return value.item() if hasattr(value, "item") else value


def _check_row(record: Mapping[str, Any], seen: set[str], field: str) -> None:
    """Check the names of a row, and add them to those of the rows before, which it need not have."""
    if not seen.issuperset(record):
        seen.update(record)
        _check_names([*record, *(seen - record.keys() - {"href"})], field)
    elif "href" not in record:
        _check_names(list(record), field)


def _jsonl_records(lines: Iterator[_Line], name: str) -> Iterator[Record]:
    seen: set[str] = set()
    for line in lines:
        if not line.text.strip():
            continue
        field = f"{name} line {line.number}"
        try:
            record = json.loads(line.text)
        except (ValueError, RecursionError) as error:
            raise RequestError(_why_no_record(line, name, error), field=field) from error
        if not isinstance(record, dict):
            raise RequestError('write one JSON object a line, such as {"href": ...}', field=field)
        if "href" not in record and record.keys() >= {"sources", "window"}:
            raise RequestError(_A_REQUEST, field=name)
        _check_row(record, seen, field)
        yield line.number, record


def _why_no_record(line: _Line, name: str, error: Exception) -> str:
    """Return what is wrong with a line that is no JSON by itself. The first may begin a longer object."""
    goes_on = isinstance(error, json.JSONDecodeError) and error.pos >= len(line.text.rstrip())
    if line.number > 1 or not goes_on:
        return f"this is not JSON: {error}"
    if name.lower().endswith(".geojson"):
        return "this is GeoJSON, not a list of sources: a list names one source a line"
    said = 'this object goes on in the next line, and a list has one object a line, such as {"href": ...}'
    if name.lower().endswith(".json"):
        said += ". If it is a request: run, plan and submit take it in REQUEST's place"
    return said


def _parquet_records(file: io.BufferedReader, name: str, check: Check) -> Iterator[Record]:
    with closing(file):
        if not file.seekable():
            raise RequestError("Parquet cannot be read from a pipe; name the file instead", field=name)
        if _first_bytes(file, name, check) != PARQUET_MAGIC:
            raise RequestError("this is not Parquet, as its name says", field=name)
        with parquet_errors("this is not Parquet, or is damaged", field=name, check=check):
            schema, batches = checked_batches(file, field=name, batch_size=_N_ROWS_PER_BATCH, check=check)
            most_nbytes = _N_ROWS_PER_BATCH * _LONGEST_LINE_NBYTES
            yield from _batch_records(schema, batches, name, check, most_nbytes=most_nbytes)


def _batch_records(
    schema: Schema, batches: Iterable[RecordBatch], name: str, check: Check, *, most_nbytes: float = inf
) -> Iterator[Record]:
    """Yield the rows of batches, each of so many bytes at most, without a nameless index of pandas."""
    names = [column for column in schema.names if not column.startswith("__index_level_")]
    _check_names(names, name)
    number = 0
    for batch in batches:
        check()
        if batch.nbytes > most_nbytes:
            raise RequestError(
                f"rows are longer than {_LONGEST_LINE_NBYTES} bytes on the average; leave long columns out",
                field=f"{name} line {number + 1}",
            )
        columns = [_to_python(batch[column], column, name) for column in names]
        for values in zip(*columns, strict=True):
            number += 1
            yield number, dict(zip(names, values, strict=True))


def _to_python(array: Array, column: str, name: str) -> list[Any]:
    """Return a column's values. Times and dates become ISO 8601 text."""
    if (values := array.type.value_type) is not None and DataType.is_dictionary(array.type):
        array = array.cast(values)
    kind = array.type
    try:
        if DataType.is_timestamp(kind) or DataType.is_date(kind):
            # cast to integers: arro3 needs the system's time zone database to make datetimes
            zone = kind.tz if DataType.is_timestamp(kind) else None
            numbers = array.cast(DataType.timestamp("us", tz=zone)).cast(DataType.int64())
            return [None if us is None else format_moment(us) for us in numbers.to_pylist()]
        if DataType.is_decimal(kind) or DataType.is_binary(kind) or DataType.is_nested(kind):
            said = "holds lists, objects, bytes or decimals; leave it out or make it text"
            raise RequestError(f"column {column} {said}", field=name)
        return list(array.to_pylist())
    except OverflowError as error:
        raise RequestError(f"column {column} has a time outside the years 1 to 9999", field=name) from error


def _check_names(names: list[str], field: str) -> None:
    try:
        check_names(names)
    except ValueError as error:
        raise RequestError(str(error), field=field) from error
