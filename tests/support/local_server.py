"""A small HTTP server with configured answers. It records the requests."""

import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer
from typing import Any, override


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as the server received it."""

    path: str
    range_: str | None
    if_match: str | None
    method: str = "GET"
    headers: Message = field(default_factory=Message, compare=False)
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer. Only the headers of its length and connection are added."""

    status: int = 206
    body: bytes | Iterator[bytes] = b""
    """An iterator's parts are sent one after another, without a word of their length."""

    headers: dict[str, str] = field(default_factory=dict)
    n_sent: int | None = None
    """Break the connection after this many bytes of the body. Of an iterator, all is sent."""

    delay_s: float = 0.0


type Script = Callable[[Asked], Answer]


@dataclass
class LocalServer:
    """A running server."""

    root: str
    """``http://host:port``, or ``https://``."""

    asked: list[Asked]
    stopping: threading.Event


@contextmanager
def serving(script: Script, *, tls: ssl.SSLContext | None = None) -> Iterator[LocalServer]:
    """Serve on loopback until the context ends."""
    asked: list[Asked] = []
    stopping = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # which holds back each body for 40 ms

        def do_GET(self) -> None:  # the base class's name for it
            request = Asked(
                path=self.path,
                range_=self.headers["Range"],
                if_match=self.headers["If-Match"],
                method=self.command,
                headers=self.headers,
                body=self.rfile.read(int(self.headers.get("Content-Length", 0))),
            )
            asked.append(request)
            answer = script(request)
            stopping.wait(answer.delay_s)
            if isinstance(answer.body, bytes):
                ends, parts = {"Content-Length": str(len(answer.body))}, iter([answer.body[: answer.n_sent]])
            else:
                ends, parts = {"Connection": "close"}, answer.body
            self.send_response(answer.status)
            for name, value in (ends | answer.headers).items():
                self.send_header(name, value)
            self.end_headers()
            for part in parts:
                self.wfile.write(part)
            self.close_connection |= answer.n_sent is not None

        do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 # the base class's names for it

        @override
        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    with running(Handler, tls=tls) as root:
        try:
            yield LocalServer(root=root, asked=asked, stopping=stopping)
        finally:
            stopping.set()


@contextmanager
def running(handler: type[BaseHTTPRequestHandler], *, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve on loopback by a handler of requests until the context ends. Yields the address."""
    with _Server(("127.0.0.1", 0), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        with in_thread(server):
            yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"


@contextmanager
def in_thread(server: BaseServer) -> Iterator[None]:
    """Let a server answer in a thread until the context ends."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that have had enough, or were killed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def ranged(
    content: bytes, asked: Asked, *, etag: str | None = '"1"', ignores_if_match: bool = False
) -> Answer:
    """Answer correctly: with the range, with a refusal, or with a changed version."""
    headers = {} if etag is None else {"ETag": etag}
    if asked.if_match is not None and asked.if_match != etag and not ignores_if_match:
        return Answer(status=412)
    assert asked.range_ is not None
    first, _, last = asked.range_.removeprefix("bytes=").partition("-")
    start, stop = int(first), min(int(last) + 1, len(content))
    if start >= len(content):
        return Answer(status=416, headers={"Content-Range": f"bytes */{len(content)}"})
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(content)}"
    return Answer(status=206, body=content[start:stop], headers=headers)
