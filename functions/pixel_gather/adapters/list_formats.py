"""Reads the formats of list files as records: one mapping of column to value for each source.

Formats are told by the name's ending, and by the first line where the ending says nothing.
"""

import csv
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, count
from typing import IO, Any, Final, NamedTuple, cast

import arro3.io
from arro3.core import Array, DataType

from pixel_gather.adapters.list_columns import check_names, format_time
from pixel_gather.errors import GatherError, RequestError, SourceError

type Record = tuple[int, Mapping[str, object]]
"""Line of the list, from 1, and its columns. Rows of Parquet count as lines."""

_LONGEST_LINE_NBYTES: Final = 1 << 20
_PARQUET_MAGIC: Final = b"PAR1"
_N_ROWS_PER_BATCH: Final = 8192
_DELIMITERS: Final = (",", ";", "\t")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The records of one list file."""

    is_typed: bool
    """Whether values have types of their own; without, all of them are text."""

    lines: Iterator[Record]


def read_records(file: io.BufferedReader, *, name: str) -> Records:
    """Read a list file's records as they are asked for; the file is closed after the last.

    Args:
        file: Not yet read from; Parquet has to be able to seek.
        name: What errors call the list; its ending tells the format.

    Raises:
        RequestError: A line is not what the format allows; also raised while iterating.
    """
    kind = next((kind for ending, kind in _BY_ENDING.items() if name.lower().endswith(ending)), None)
    if kind == "parquet" or (kind is None and file.peek(4)[:4] == _PARQUET_MAGIC):
        return Records(is_typed=True, lines=_parquet_records(file, name))
    lines = _lines(file, name)
    if kind is None:
        ahead = _up_to_first_content(lines)
        kind = _kind_of_line(ahead[-1].text, name) if ahead else "text"
        lines = chain(ahead, lines)
    read = {"text": _text_records, "csv": _csv_records, "jsonl": _jsonl_records}[kind]
    return Records(is_typed=kind == "jsonl", lines=read(lines, name))


class _Line(NamedTuple):
    number: int
    text: str
    """Without its end."""

    @property
    def is_content(self) -> bool:
        """Whether a text list has a href here, not a comment and not a blank line."""
        return not self.text.strip().startswith("#") and not self.text.isspace() and self.text != ""


def _lines(file: io.BufferedReader, name: str) -> Iterator[_Line]:
    with closing(file):
        for number in count(1):
            field = f"{name} line {number}"
            try:
                raw = file.readline(_LONGEST_LINE_NBYTES + 1)
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise RequestError("this line is not UTF-8; save the list as UTF-8", field=field) from error
            except (OSError, EOFError, zlib.error, SourceError) as error:
                raise RequestError(f"the list cannot be read from here on: {error}", field=field) from error
            if not raw:
                return
            if len(raw) > _LONGEST_LINE_NBYTES:
                raise RequestError(f"this line is longer than {_LONGEST_LINE_NBYTES} bytes", field=field)
            yield _Line(number, text.rstrip("\r\n"))


def _up_to_first_content(lines: Iterator[_Line]) -> list[_Line]:
    ahead: list[_Line] = []
    for line in lines:
        ahead.append(line)
        if line.is_content:
            break
    return ahead


def _kind_of_line(text: str, name: str) -> str:
    if text.lstrip().startswith("{"):
        return "jsonl"
    if text.lstrip().startswith("["):
        raise RequestError("this is a JSON array; write one JSON object a line", field=name)
    return "csv" if len(_split_header(text)) > 1 or text.strip() == "href" else "text"


def _text_records(lines: Iterator[_Line], name: str) -> Iterator[Record]:  # noqa: ARG001 # as the others
    for line in lines:
        if line.is_content:
            yield line.number, {"href": line.text.strip()}


def _split_header(text: str) -> list[str]:
    """Split a header by the delimiter that gives it a column href."""
    for delimiter in _DELIMITERS:
        names = [name.strip() for name in next(csv.reader([text], delimiter=delimiter), [])]
        if "href" in names:
            return [delimiter, *names]
    return []


def _csv_records(lines: Iterator[_Line], name: str) -> Iterator[Record]:
    header = next((line for line in lines if line.text.strip()), None)
    if header is None:
        return
    delimiter, *names = _split_header(header.text) or [",", *next(csv.reader([header.text]))]
    field = f"{name} line {header.number}"
    if twice := next((column for column in names if names.count(column) > 1), None):
        raise RequestError(f"there are two columns {twice!r}; rename one", field=field)
    if "" in names:
        raise RequestError(f"column {names.index('') + 1} has no name; name it or leave it out", field=field)
    _check_names(names, field)
    reader = csv.reader((line.text + "\n" for line in lines), delimiter=delimiter, strict=True)
    try:
        for values in reader:
            if not values:
                continue
            number = header.number + reader.line_num
            if len(values) != len(names):
                raise RequestError(
                    f"{len(values)} values stand in {len(names)} columns; quote values that contain "
                    f"{delimiter!r}",
                    field=f"{name} line {number}",
                )
            yield number, dict(zip(names, map(str.strip, values), strict=True))
    except csv.Error as error:
        at = f"{name} line {header.number + reader.line_num}"
        raise RequestError(f"this is not CSV: {error}", field=at) from error


def _jsonl_records(lines: Iterator[_Line], name: str) -> Iterator[Record]:
    seen: set[str] = set()
    for line in lines:
        if not line.text.strip():
            continue
        field = f"{name} line {line.number}"
        try:
            record = json.loads(line.text)
        except (ValueError, RecursionError) as error:
            raise RequestError(f"this is not JSON: {error}", field=field) from error
        if not isinstance(record, dict):
            raise RequestError('write one JSON object a line, such as {"href": ...}', field=field)
        if not seen.issuperset(record):
            seen.update(record)
            _check_names([*record, *(seen - record.keys() - {"href"})], field)
        elif "href" not in record:
            _check_names(list(record), field)
        yield line.number, record


def _parquet_records(file: io.BufferedReader, name: str) -> Iterator[Record]:
    with closing(file):
        if not file.seekable():
            raise RequestError("Parquet cannot be read from a pipe; name the file instead", field=name)
        try:
            batches = iter(arro3.io.read_parquet(cast("IO[bytes]", file), batch_size=_N_ROWS_PER_BATCH))
            names = list(batches.schema.names)
            _check_names(names, name)
            number = 0
            for batch in batches:
                columns = [_to_python(batch[column], column, name) for column in names]
                for values in zip(*columns, strict=True):
                    number += 1
                    yield number, dict(zip(names, values, strict=True))
        except (GatherError, GeneratorExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            # arro3 panics, which is no Exception, where a file is no Parquet
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise RequestError(f"this is not Parquet, or is damaged: {error}", field=name) from error


def _to_python(array: Array, column: str, name: str) -> list[Any]:
    """Return a column's values, times and dates as ISO 8601 text."""
    kind = array.type
    try:
        if DataType.is_timestamp(kind) or DataType.is_date(kind):
            # by way of integers: arro3 makes no datetimes without the machine's list of time zones
            zone = kind.tz if DataType.is_timestamp(kind) else None
            numbers = array.cast(DataType.timestamp("us", tz=zone)).cast(DataType.int64())
            return [None if us is None else format_time(us) for us in numbers.to_pylist()]
        if DataType.is_decimal(kind) or DataType.is_binary(kind) or DataType.is_nested(kind):
            raise RequestError(f"column {column} is {kind}; leave it out or make it text", field=name)
        return list(array.to_pylist())
    except OverflowError as error:
        raise RequestError(f"column {column} has a time outside the years 1 to 9999", field=name) from error


def _check_names(names: list[str], field: str) -> None:
    try:
        check_names(names)
    except ValueError as error:
        raise RequestError(str(error), field=field) from error
