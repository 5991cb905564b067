"""A server that takes every PUT and keeps nothing, in a process of its own: the cheapest store there is."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.child import serving_module

_TAKEN = b'HTTP/1.1 200 OK\r\nETag: "1"\r\nContent-Length: 0\r\n\r\n'


@contextmanager
def run_sink() -> Iterator[str]:
    """Run it until the block ends; gives its address."""
    with serving_module("put_sink") as (port,):
        yield f"http://127.0.0.1:{port}"


async def _take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while head := await _head(reader):
        lines = (line.partition(b":") for line in head.lower().split(b"\r\n"))
        left = next((int(value) for name, _, value in lines if name == b"content-length"), 0)
        while left > 0:
            left -= len(await reader.read(min(left, 1 << 20)))
        writer.write(_TAKEN)
    writer.close()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


async def _serve() -> None:
    server = await asyncio.start_server(_take, "127.0.0.1", 0, limit=1 << 20)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    os._exit(0)  # connections that are kept open would keep the loop


if __name__ == "__main__":
    asyncio.run(_serve())
