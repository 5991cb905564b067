"""Parts of a cube's files, as a web server asks for them."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Protocol

import obstore
from msgspec import Struct
from obstore.store import LocalStore

from pixel_gather.io.store.object_store import Store

_PART_NBYTES: Final = 2**20
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")

type Range = tuple[int, int] | dict[str, int]
"""Start and stop, or ``offset``: from there to the end, or ``suffix``: so many bytes at the end."""


class FilePart(Struct, frozen=True, kw_only=True):
    """Bytes [start, stop) of a file."""

    start: int
    stop: int
    file_nbytes: int
    content: Iterable[Any]
    """The bytes in pieces. They are read when they are taken."""


class Files(Protocol):
    """The files of one cube, by keys below it."""

    def part(self, key: str, wanted: Range | None) -> FilePart:
        """Return a part of a file; None means all of it.

        Raises:
            FileNotFoundError: There is no such file.
            BaseError: The store failed, or the part begins beyond the end.
        """


class StoredFiles(Struct, frozen=True):
    """Files of a cube on disk or in a bucket."""

    store: Store

    def part(self, key: str, wanted: Range | None) -> FilePart:
        """Return a part of a file. Links out of a local folder are not followed."""
        if isinstance(self.store, LocalStore):
            root = Path(self.store.prefix or "/").resolve()
            if not (root / key).resolve().is_relative_to(root):
                raise FileNotFoundError(key)
        options: Any = {} if wanted is None else {"range": wanted}
        found = obstore.get(self.store, key, options=options)
        start, stop = found.range
        content = found.stream(min_chunk_size=_PART_NBYTES)
        return FilePart(start=start, stop=stop, file_nbytes=found.meta["size"], content=content)


def range_of(header: str | None) -> Range | None:
    """Return the one range of a Range header; None for the whole file.

    A header of several ranges or of another form counts as none, as RFC 9110 allows.
    """
    found = None if header is None else _RANGE.fullmatch(header.strip())
    if found is None or found[0] == "bytes=-":
        return None
    first, last = found.groups()
    if not first:
        return {"suffix": int(last)}
    if not last:
        return {"offset": int(first)}
    return (int(first), int(last) + 1) if int(first) <= int(last) else None
