"""The loopback server's process: asyncio, files mapped into memory, little CPU per request."""

import argparse
import asyncio
import functools
import mmap
import os
import random
import socket
import ssl
import struct
import sys
import time
from collections.abc import Iterable
from copy import replace
from email.utils import formatdate
from pathlib import Path
from typing import Final, cast
from urllib.parse import unquote

import msgspec
import uvloop

from benchmarks.loopback_server import CONTROL, Behaviour, Fault, LoggedRequest, ServerLog
from benchmarks.paced_link import PacedLink
from benchmarks.range_answers import Answer, Request, StoredFile, answer, answer_with
from benchmarks.throttle import Throttle
from pixel_gather.core.process_usage import cpu_s

_SLOW_DOWN: Final = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class _Folder:
    """Files by name, mapped into memory, as long as they do not change on disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mapped: dict[str, tuple[tuple[int, int, int], StoredFile]] = {}
        self._is_flat = not any(path.is_dir() for path in folder.iterdir())
        for path in folder.rglob("*"):
            if path.is_file():
                self.find(f"/{path.relative_to(folder)}")

    def find(self, address: str) -> StoredFile | None:
        name = address.rpartition("/")[2] if self._is_flat else address[1:]
        name = unquote(name) if "%" in name else name  # as clients of Google's stores ask
        path = f"{self._folder}/{name}"
        try:
            stat = os.stat(path)  # noqa: PTH116 # at every request: pathlib doubles its cost
        except OSError:
            return None
        version = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        known = self._mapped.get(name)
        if known is None or known[0] != version:
            known = self._mapped[name] = (version, _map(path, stat))
        return known[1]


def _map(path: str, stat: os.stat_result) -> StoredFile:
    content = memoryview(b"")
    if stat.st_size:
        with Path(path).open("rb") as file:
            content = memoryview(
                mmap.mmap(file.fileno(), 0, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=mmap.PROT_READ)
            )
    return StoredFile(
        content=content,
        etag=f'"{stat.st_ino:x}-{stat.st_mtime_ns:x}-{stat.st_size:x}"',
        last_modified=formatdate(stat.st_mtime, usegmt=True),
    )


class _Server:
    """What all connections share: the files, the behaviour, the log."""

    def __init__(self, folder: Path) -> None:
        self._folder = _Folder(folder)
        self.start(Behaviour())

    def start(self, behaviour: Behaviour) -> None:
        self.n_connections = 0
        self.link = PacedLink(behaviour.bytes_per_s) if behaviour.bytes_per_s else None
        self.behaviour = behaviour
        self._throttle = Throttle(behaviour.max_rate) if behaviour.max_rate else None
        self._faults = dict(behaviour.faults)
        self._random = random.Random(behaviour.seed)  # noqa: S311 # draws who is slow
        self._log: list[LoggedRequest] = []
        self._cpu_before_s = cpu_s()

    def answer(self, request: Request) -> tuple[Answer, Fault | None, float]:
        """Return what to answer, what goes wrong in it, and after how many seconds it begins."""
        if request.path == CONTROL:
            return self._steer(request), None, 0.0
        fault = self._next_fault(request.path)
        if fault is not None and fault.status is not None:
            given, fault = answer_with(fault.status), None
        elif self._throttle is not None and not self._throttle.grants(time.monotonic()):
            given = answer_with(503, body=_SLOW_DOWN)
        elif request.method in ("GET", "HEAD"):
            given = answer(request, self._folder.find(request.path))
        else:
            given = answer_with(405)
        logged = LoggedRequest(request.method, request.path, request.headers.get("range"), given.status)
        self._log.append(logged)
        is_slow = self.behaviour.slow_share > self._random.random()
        return given, fault, self.behaviour.ttfb_s + is_slow * self.behaviour.slow_s

    def _next_fault(self, path: str) -> Fault | None:
        fault = self._faults.pop(path, None)
        if fault is not None and fault.times > 1:
            self._faults[path] = replace(fault, times=fault.times - 1)
        return fault

    def _steer(self, request: Request) -> Answer:
        if request.method == "PUT":
            self.start(msgspec.json.decode(request.body, type=Behaviour))
            return answer_with(204)
        log = ServerLog(
            requests=tuple(self._log),
            n_connections=self.n_connections,
            cpu_s=cpu_s() - self._cpu_before_s,
        )
        return answer_with(200, body=msgspec.json.encode(log))


class _Connection(asyncio.Protocol):
    """One client's connection: one request after another, answered in order."""

    _transport: asyncio.Transport

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._received = b""
        self._is_answering = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        self._server.n_connections += 1
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._answer_next()

    def _answer_next(self) -> None:
        if self._is_answering or (request := self._take_request()) is None:
            return
        self._is_answering = True
        given, fault, delay_s = self._server.answer(request)
        closes = request.headers.get("connection", "").lower() == "close"
        if delay_s:
            asyncio.get_running_loop().call_later(delay_s, self._send, given, fault, closes)
        else:
            self._send(given, fault, closes)

    def _take_request(self) -> Request | None:
        """Return the next request once all of it is there, and forget its bytes."""
        head, end, rest = self._received.partition(b"\r\n\r\n")
        if not end:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body_nbytes = int(headers.get("content-length", 0))
        if len(rest) < body_nbytes:
            return None
        method, path, _ = first.split(" ")
        self._received = rest[body_nbytes:]
        return Request(method=method, path=path, headers=headers, body=rest[:body_nbytes])

    def _send(self, given: Answer, fault: Fault | None, closes: bool) -> None:  # noqa: FBT001 # call_later passes by place
        if self._transport.is_closing():
            return
        loop = asyncio.get_running_loop()
        if fault is None:
            self._finish((given.head, given.body), closes)
            return
        before, after = given.body[: fault.stop_at], given.body[fault.stop_at :]
        self._transport.writelines((given.head, before))
        if fault.stall_s is None:
            loop.call_soon(self._reset)
        else:
            loop.call_later(fault.stall_s, self._finish, (after,), closes)

    def _finish(self, parts: Iterable[bytes | memoryview], closes: bool) -> None:  # noqa: FBT001 # as above
        if self._transport.is_closing():
            return
        link = self._server.link
        if link is None:
            self._transport.writelines(parts)
            self._end(closes)
            return
        *heads, body = parts
        self._transport.writelines(heads)
        link.send(body, self._write, functools.partial(self._end, closes))

    def _write(self, piece: bytes | memoryview) -> bool:
        if self._transport.is_closing():
            return False
        self._transport.write(piece)
        return True

    def _end(self, closes: bool) -> None:  # noqa: FBT001 # as above
        self._is_answering = False
        if closes:
            self._transport.close()
        else:
            self._answer_next()

    def _reset(self) -> None:
        """Close with RST, so that the client sees a broken connection and not a short body."""
        self._transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE
        )
        self._transport.abort()


async def _serve(folder: Path, certificate: Path | None) -> None:
    loop = asyncio.get_running_loop()
    server = _Server(folder)
    contexts: list[ssl.SSLContext | None] = [None]
    if certificate is not None:
        by_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        by_tls.load_cert_chain(certificate)
        contexts.append(by_tls)
    ports = []
    for context in contexts:
        listening = await loop.create_server(
            lambda: _Connection(server), "127.0.0.1", 0, backlog=1024, ssl=context
        )
        ports.append(listening.sockets[0].getsockname()[1])
    sys.stdout.write(f"{' '.join(map(str, ports))}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    """Serve a folder until standard input ends; the ports are the first line of standard output."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--certificate", type=Path, help="with its key; adds a second port, by TLS")
    options = parser.parse_args()
    asyncio.run(_serve(options.folder, options.certificate), loop_factory=uvloop.new_event_loop)


if __name__ == "__main__":
    main()
