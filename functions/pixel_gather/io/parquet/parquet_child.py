"""The process that decodes Parquet. It serves one file at a time, until the parent closes the channel.

For some damaged pages arro3 ends its process instead of raising an error. So it runs in a process that may
end. ``parquet_batches.py`` starts it. The channel is standard input.
"""

import io
import os
import socket
from collections.abc import Buffer, Iterator
from typing import TYPE_CHECKING, Any, Final, cast, override

import arro3.io
from arro3.core import Array, DataType, Table

from pixel_gather.io import limit_child
from pixel_gather.io.child_channel import PAIR, Channel, Kind
from pixel_gather.io.store.ranged_file import RangedFile

if TYPE_CHECKING:
    from arro3.core import RecordBatch

_MEMORY_MIB: Final = 1024
_CPU_S: Final = 60.0
"""CPU time for one batch. Measured: 16,384 rows of eight texts take 0.03 s."""

_BUFFER_NBYTES: Final = 64 << 10


class _ParentsFile(RangedFile):
    """The file that the parent reads."""

    def __init__(self, channel: Channel, nbytes: int) -> None:
        super().__init__(nbytes)
        self._channel = channel

    @override
    def fetch(self, start: int, stop: int) -> Buffer:
        self._channel.send(Kind.NEED, PAIR.pack(start, stop))
        return self._channel.receive()[1]


def main() -> None:
    """Serve files until the channel ends."""
    channel = Channel(socket.socket(fileno=0))
    _warm_up()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # arro3 prints where it panics
    limit_child.limit_memory(_MEMORY_MIB)
    limit_child.lock_files()
    channel.send(Kind.READY)
    tables: Iterator[bytes] = iter(())
    while True:
        try:
            kind, payload = channel.receive()
        except (EOFError, ConnectionError):
            return
        limit_child.limit_cpu(_CPU_S)
        try:
            if kind is Kind.REQUEST:
                tables = _tables(channel, *PAIR.unpack(payload))
            table = next(tables, None)
        except BaseException as error:  # noqa: BLE001 # arro3's panics are no Exceptions
            channel.send(Kind.FAILED, str(error).encode(errors="replace"))
        else:
            channel.send(Kind.DONE) if table is None else channel.send(Kind.TABLE, table)


def _tables(channel: Channel, batch_size: int, nbytes: int) -> Iterator[bytes]:
    """Yield a table without rows, then one for each batch."""
    file = io.BufferedReader(_ParentsFile(channel, nbytes), buffer_size=_BUFFER_NBYTES)
    batches = arro3.io.read_parquet(cast("Any", file), batch_size=batch_size)
    yield _write_stream(Table.from_batches([], schema=batches.schema))
    for batch in batches:
        yield _write_stream(batch)


def _write_stream(table: "Table | RecordBatch") -> bytes:
    """Return an Arrow stream."""
    out = io.BytesIO()
    arro3.io.write_ipc_stream(table, out, compression=None)
    return out.getvalue()


def _warm_up() -> None:
    """Do everything once: no file can be opened later, so nothing can be imported."""
    file = io.BytesIO()
    arro3.io.write_parquet(Table.from_pydict({"a": Array([1], DataType.int64())}), file)
    for batch in arro3.io.read_parquet(file):
        _write_stream(batch)
