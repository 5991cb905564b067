"""Finds how much memory the unpacked pages of a Parquet file take. Reads only the page headers.

A page of some KB may unpack to gigabytes, and arro3 has no limit for that. So the headers are checked before
arro3 reads the file. Each page has one, a small structure in Thrift's compact protocol.
"""

import io
from collections.abc import Iterator
from typing import IO, Any, Final

from pixel_gather.core.errors import RequestError
from pixel_gather.io.store.open_list_file import PARQUET_MAGIC, Check

LARGEST_UNPACKED_NBYTES: Final = 256 << 20
"""Limit for the pages that are unpacked at one time: one page and one dictionary of every column."""

_TAIL_NBYTES: Final = 8
"""The footer's length and the bytes ``PAR1``."""

_LARGEST_FOOTER_NBYTES: Final = 32 << 20
_HEADER_NBYTES: Final = 4096
_LARGEST_HEADER_NBYTES: Final = 1 << 20
"""A header may hold the smallest and the largest value of its page."""

_ROW_GROUPS, _COLUMNS, _COLUMN = 4, 1, 3
_COMPRESSED, _DATA_AT, _DICTIONARY_AT = 7, 9, 11
_PAGE_TYPE, _UNPACKED_SIZE, _PACKED_SIZE = 1, 2, 3
_DICTIONARY: Final = 2
"""Numbers of fields in Parquet's structures, and the type of a dictionary page."""

type _Struct = dict[int, Any]


def check_pages(file: IO[bytes], *, field: str, check: Check) -> None:
    """Refuse a Parquet file whose pages take too much memory.

    The file is left at its start. ``check`` is called for every page.

    Raises:
        RequestError: The pages take more than ``LARGEST_UNPACKED_NBYTES``.
        ValueError: The headers cannot be understood.
    """
    nbytes = unpacked_nbytes(file, check=check)
    if nbytes > LARGEST_UNPACKED_NBYTES:
        raise RequestError(
            f"its pages take {nbytes / 1e6:,.0f} MB of memory at one time; the limit is "
            f"{LARGEST_UNPACKED_NBYTES / 1e6:,.0f} MB: write it anew in smaller row groups",
            field=field,
        )
    file.seek(0)


def unpacked_nbytes(file: IO[bytes], *, check: Check) -> int:
    """Return the most memory that the pages take at one time, according to their headers.

    The file's position afterwards is undefined. ``check`` is called for every page.

    Raises:
        ValueError: The headers cannot be understood.
    """
    try:
        return max((_largest_of_row_group(file, group, check) for group in _row_groups(file)), default=0)
    except (KeyError, TypeError, IndexError, OverflowError, RecursionError) as error:
        raise ValueError("its headers cannot be understood") from error


def _row_groups(file: IO[bytes]) -> list[_Struct]:
    end = file.seek(0, io.SEEK_END)
    file.seek(max(end - _TAIL_NBYTES, 0))
    tail = file.read(_TAIL_NBYTES)
    if not tail.endswith(PARQUET_MAGIC):
        return []  # arro3 has a better message
    nbytes = int.from_bytes(tail[:4], "little")
    if nbytes > min(end - _TAIL_NBYTES, _LARGEST_FOOTER_NBYTES):
        raise ValueError(f"its footer has {nbytes:,} bytes")
    file.seek(end - _TAIL_NBYTES - nbytes)
    groups: list[_Struct] = _Compact(file.read(nbytes)).struct().get(_ROW_GROUPS, [])
    return groups


def _largest_of_row_group(file: IO[bytes], group: _Struct, check: Check) -> int:
    return sum(_largest_of_column(file, chunk[_COLUMN], check) for chunk in group[_COLUMNS])


def _largest_of_column(file: IO[bytes], column: _Struct, check: Check) -> int:
    """Return the size of its largest page and its largest dictionary."""
    dictionary = page = 0
    for header in _pages(file, column, check):
        if header[_PAGE_TYPE] == _DICTIONARY:
            dictionary = max(dictionary, header[_UNPACKED_SIZE])
        else:
            page = max(page, header[_UNPACKED_SIZE])
    return dictionary + page


def _pages(file: IO[bytes], column: _Struct, check: Check) -> Iterator[_Struct]:
    starts = column[_DATA_AT], column.get(_DICTIONARY_AT, 0)  # pyarrow writes 0 if a group has no row
    at = min((start for start in starts if start > 0), default=0)
    stop = at + column[_COMPRESSED]
    while at < stop:
        check()
        header, nbytes = _page_header(file, at)
        if min(header[_UNPACKED_SIZE], header[_PACKED_SIZE]) < 0:
            raise ValueError("a page has less than no bytes")
        yield header
        at += nbytes + header[_PACKED_SIZE]


def _page_header(file: IO[bytes], at: int) -> tuple[_Struct, int]:
    """Return a page's header and its length."""
    nbytes = _HEADER_NBYTES
    while True:
        file.seek(at)
        content = _Compact(file.read(nbytes))
        try:
            return content.struct(), content.at
        except IndexError:
            if nbytes >= _LARGEST_HEADER_NBYTES:
                raise
            nbytes *= 16


class _Compact:
    """Reads Thrift's compact protocol into plain values. A structure becomes a dict by field number."""

    def __init__(self, content: bytes) -> None:
        self.at = 0
        self._content = content

    def struct(self) -> _Struct:
        """Read the structure at the current position."""
        found: _Struct = {}
        number = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            number = number + step if step else self._read_signed()
            found[number] = kind == 1 if kind in (1, 2) else self._value(kind)
        return found

    def _value(self, kind: int) -> Any:
        match kind:
            case 1 | 2 | 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._read_signed()
            case 7:
                return self._bytes(8)
            case 8:
                return self._bytes(self._read_unsigned())
            case 9 | 10:
                head = self._byte()
                n = self._read_unsigned() if head >> 4 == 15 else head >> 4  # noqa: PLR2004 # all four bits set
                return [self._value(head & 15) for _ in range(n)]
            case 12:
                return self.struct()
            case _:
                raise ValueError(f"it has a value of type {kind}")

    def _byte(self) -> int:
        byte = self._content[self.at]
        self.at += 1
        return byte

    def _bytes(self, nbytes: int) -> bytes:
        start, self.at = self.at, self.at + nbytes
        if self.at > len(self._content):
            raise IndexError(self.at)
        return self._content[start : self.at]

    def _read_unsigned(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:  # noqa: PLR2004 # the highest bit is 0 in the last byte of a number
                return number
            shift += 7

    def _read_signed(self) -> int:
        number = self._read_unsigned()
        return (number >> 1) ^ -(number & 1)
