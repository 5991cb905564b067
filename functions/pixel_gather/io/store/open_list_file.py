"""Opens a list file, local or remote, as a binary stream."""

import asyncio
import gzip
import io
import re
import sys
from collections.abc import Buffer, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Final, cast, override

from pixel_gather.core.errors import GatherError, RequestError, SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.core.request.href_policy import BUCKET_SCHEMES
from pixel_gather.io.store.object_store import Objects, split_href
from pixel_gather.io.store.ranged_file import RangedFile
from pixel_gather.io.store.regular_file import open_given_file

STDIN: Final = "-"
_BLOCK_NBYTES: Final = 4 << 20
PARQUET_MAGIC: Final = b"PAR1"
_GZIP_MAGIC: Final = b"\x1f\x8b"
_S_BETWEEN_CHECKS: Final = 0.5

type Check = Callable[[], None]
"""Called repeatedly while a list is read. Raises TimeoutError when the time limit has passed."""


def no_deadline() -> None:
    """Set no time limit."""


GIVE_A_FOLDER: Final = (
    "pixel-gather ls makes a list of it; run and plan take it by --prefix, and requests as prefix"
)


def open_list_file(
    place: str,
    *,
    objects: Objects,
    stdin: BinaryIO | None = None,
    check: Check = no_deadline,
    what: str = "list",
) -> tuple[str, io.BufferedReader]:
    """Open a list file. Gzip is unpacked.

    Reading a remote list runs its own event loop, so call it in a thread that has none.

    Args:
        place: A checked href, or ``-``.
        objects: Reads what is remote; belongs to the caller.
        stdin: Read for ``-`` instead of the process's standard input.
        check: Called before and during each request for a part of a remote list.
        what: What error messages call the file.

    Returns:
        The file's name for error messages, with the ending of its format, and the file.

    Raises:
        RequestError: The file cannot be read.
        TimeoutError: Raised by ``check``, also later while reading.
    """
    if place == STDIN:
        return _gunzip("stdin", io.BufferedReader(cast("io.RawIOBase", stdin or sys.stdin.buffer)))
    root, path = split_href(place)
    name = PurePosixPath(path).name
    try:
        if root == "file://":
            return _gunzip(name, open_given_file(f"/{path}"))
        remote = _RemoteFile(place, objects, check)
        return _gunzip(name, io.BufferedReader(remote, buffer_size=_BLOCK_NBYTES))
    except (OSError, SourceError) as error:
        check()
        if isinstance(error, IsADirectoryError):
            reason = f"it is a folder: {GIVE_A_FOLDER if what == 'list' else 'name a file in it'}"
        else:
            reason = error.reason if isinstance(error, SourceError) else (error.strerror or str(error))
            is_missing = isinstance(error, SourceError) and error.status is Status.MISSING
            is_in_bucket = root.partition(":")[0] in BUCKET_SCHEMES
            if is_missing and is_in_bucket and what == "list" and "." not in name:
                reason += f"; if it is a folder, {GIVE_A_FOLDER}"
            if "*" in name and what == "list":
                folder = place.rpartition("/")[0].removeprefix("file://")
                reason += f"; for a pattern use --prefix {folder}/ --glob '{name}'"
        raise RequestError(f"the {what} cannot be read: {reason} ({place})", field=name) from error


@contextmanager
def parquet_errors(says: str, *, field: str, check: Check) -> Iterator[None]:
    """Turn errors of a Parquet file into a ``RequestError``.

    ``check`` raises if the time limit was the real cause. arro3's own message follows ``says``.
    """
    try:
        yield
    except (GatherError, TimeoutError):
        raise
    except Exception as error:
        check()
        raise RequestError(f"{says}: {_parquet_problem(error)}", field=field) from error


def _parquet_problem(error: BaseException) -> str:
    """Return arro3's message without its Rust syntax."""
    said = re.search(r'\("(.+)"\)', str(error))
    return said[1] if said else str(error)


def _gunzip(name: str, raw: io.BufferedReader) -> tuple[str, io.BufferedReader]:
    if raw.peek(2)[:2] == _GZIP_MAGIC:
        return name.removesuffix(".gz"), io.BufferedReader(cast("io.RawIOBase", gzip.GzipFile(fileobj=raw)))
    return name, raw


class _RemoteFile(RangedFile):
    """One version of an object, read by ranges. ``Objects`` retries failed requests."""

    def __init__(self, href: str, objects: Objects, check: Check) -> None:
        self._href = href
        self._objects = objects
        self._check = check
        self._cost = Cost()
        first = asyncio.run(
            _wait_unless_refused(objects.get_range(href, 0, 1, etag=None, cost=self._cost), check)
        )
        self._etag = first.etag
        super().__init__(first.object_nbytes)

    @override
    def fetch(self, start: int, stop: int) -> Buffer:
        ask = self._objects.get_range(self._href, start, stop, etag=self._etag, cost=self._cost)
        return asyncio.run(_wait_unless_refused(ask, self._check)).content


async def _wait_unless_refused[T](work: Coroutine[Any, Any, T], check: Check) -> T:
    """Wait for a request and its retries until ``check`` raises."""
    task = asyncio.ensure_future(work)
    while not task.done():
        check()
        await asyncio.wait((task,), timeout=_S_BETWEEN_CHECKS)
    return task.result()
