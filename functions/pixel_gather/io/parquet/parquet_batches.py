"""Reads Parquet in a process of its own, since a damaged page may end the process that decodes it.

The process is started when it is first needed, and serves one file after the other. It gets the bytes of a
file from here. It has no credentials, files or sockets, and its memory and CPU time are limited.
"""

import atexit
import io
import os
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Final

from msgspec import Struct

from pixel_gather.core.errors import BusyError, StoreError
from pixel_gather.io.child_channel import PAIR, Channel, Kind
from pixel_gather.io.limit_child import clean_environment
from pixel_gather.io.parquet.parquet_pages import check_pages
from pixel_gather.io.store.open_list_file import Check, no_deadline

if TYPE_CHECKING:
    from arro3.core import RecordBatch, RecordBatchReader, Schema


_START: Final = "from pixel_gather.io.parquet.parquet_child import main; main()"
_S_BETWEEN_CHECKS: Final = 0.5


class ParquetError(Exception):
    """A file is no Parquet, is damaged, or takes too much memory or time."""


def parquet_batches(
    file: IO[bytes], *, batch_size: int, check: Check = no_deadline
) -> "tuple[Schema, Iterator[RecordBatch]]":
    """Return the schema of a Parquet file, and its batches, which are decoded one at a time.

    The file is read at many positions, also while batches are taken. The caller closes it. ``check`` is
    called meanwhile, and raises to give it up.

    Raises:
        ParquetError: The file cannot be decoded. The batches raise it, too.
    """
    tables = _tables(file, batch_size, check)
    schema = next(tables).schema
    return schema, (batch for table in tables for batch in table)


def checked_batches(
    file: IO[bytes], *, field: str, batch_size: int, check: Check = no_deadline
) -> "tuple[Schema, Iterator[RecordBatch]]":
    """Do as `parquet_batches`, after a look at the pages of a file that anybody may have written.

    Raises:
        RequestError, ValueError: As `check_pages`. The error names ``field``.
        ParquetError: The file cannot be decoded. The batches raise it, too.
    """
    check_pages(file, field=field, check=check)
    return parquet_batches(file, batch_size=batch_size, check=check)


@contextmanager
def blame_file(what: str) -> Iterator[None]:
    """Turn errors of one of our own files into a `StoreError` that names it."""
    try:
        yield
    except (ParquetError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise StoreError(f"{what} is damaged: {error}") from error


def _tables(file: IO[bytes], batch_size: int, check: Check) -> "Generator[RecordBatchReader]":
    """Yield the file's schema as a table without rows, then one table for each batch."""
    from arro3.io import read_ipc_stream  # noqa: PLC0415 # 30 ms, for Parquet alone

    with _child(check) as channel:
        channel.send(Kind.REQUEST, PAIR.pack(batch_size, file.seek(0, io.SEEK_END)))
        while (table := _answer(channel, file)) is not None:
            yield read_ipc_stream(io.BytesIO(table))
            channel.send(Kind.NEXT)


def _answer(channel: Channel, file: IO[bytes]) -> bytearray | None:
    """Return the next table, and give the child the bytes that it needs for it."""
    while True:
        kind, payload = channel.receive()
        if kind is Kind.FAILED:
            raise ParquetError(payload.decode())
        if kind is not Kind.NEED:
            return payload if kind is Kind.TABLE else None
        start, stop = PAIR.unpack(payload)
        file.seek(start)
        channel.send(Kind.BYTES, file.read(stop - start))


class _ParquetChild(Struct, frozen=True):
    process: subprocess.Popen[bytes]
    channel: Channel

    def end(self) -> None:
        """Kill it and wait for its end."""
        _running.discard(self)
        self.channel.socket.close()
        self.process.kill()
        self.process.wait()


_idle: Final[list[_ParquetChild]] = []
_running: Final[set[_ParquetChild]] = set()
"""All children, also those that are lent.

Without this, the garbage collector could drop a reader together with its child. It would close the child's
socket, and the reader would still hand the child back.
"""


@contextmanager
def _child(check: Check) -> Iterator[Channel]:
    """Lend a child. The next file gets it again, unless it was interrupted in the middle of an answer."""
    child = _pick_idle_child() or _start_child()
    child.channel.check = check
    try:
        yield child.channel
    except (GeneratorExit, ParquetError):  # the child is idle and can take the next file
        _idle.append(child)
        raise
    except (EOFError, ConnectionError) as error:
        child.end()
        raise ParquetError("a page is damaged, or takes too much memory or time") from error
    except BaseException:
        child.end()
        raise
    _idle.append(child)


def _pick_idle_child() -> _ParquetChild | None:
    """Return an idle child, if there is one."""
    while True:
        try:
            child = _idle.pop()
        except IndexError:
            return None
        if child.process.poll() is None:
            return child
        child.end()


def _start_child() -> _ParquetChild:
    """Start a child and wait until it is ready.

    Raises:
        BusyError: It does not start: the system lacks memory or processes.
    """
    ours, theirs = socket.socketpair()
    ours.settimeout(_S_BETWEEN_CHECKS)
    try:
        with theirs:
            command = (sys.executable, "-P", "-s", "-c", _START)
            process = subprocess.Popen(  # noqa: S603 # a fixed program
                command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, env=clean_environment()
            )
        child = _ParquetChild(process, Channel(ours))
    except OSError as error:
        ours.close()
        raise BusyError(f"the process that reads Parquet did not start ({error}): run again") from error
    try:
        child.channel.receive()
    except (EOFError, ConnectionError) as error:
        child.end()
        raise BusyError(
            f"the process that reads Parquet did not start (exit code {process.returncode}): run again"
        ) from error
    except BaseException:
        child.end()
        raise
    _running.add(child)
    return child


def _forget_all() -> None:
    """Leave the children to the process that started them."""
    _idle.clear()
    _running.clear()


def _end_all() -> None:
    while child := _pick_idle_child():
        child.end()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
