"""A web server on loopback that answers what a test tells it."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request."""

    method: str
    path: str
    parameters: dict[str, str]
    body: Any
    headers: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the server sends back."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    def content(self) -> Iterator[bytes]:
        """Yield the body's bytes: those of an iterator one after another, without knowing how many."""
        if isinstance(self.body, bytes):
            yield self.body
        elif isinstance(self.body, Iterator):
            yield from self.body
        else:
            yield json.dumps(self.body).encode()


@dataclass
class Server:
    """The server as a test sees it."""

    url: str
    asked: list[Asked]


@contextmanager
def serving(answer: Callable[[Asked], Answer]) -> Iterator[Server]:
    """Serve on 127.0.0.1 while the context lasts."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            split = urlsplit(self.path)
            content = self.rfile.read(int(self.headers.get("content-length") or 0))
            request = Asked(
                method=self.command,
                path=split.path,
                parameters=dict(parse_qsl(split.query)),
                body=json.loads(content) if content else None,
                headers={name.lower(): value for name, value in self.headers.items()},
            )
            asked.append(request)
            given = answer(request)
            self.send_response(given.status)
            for name, value in given.headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                for part in given.content():
                    self.wfile.write(part)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the client had enough

        do_GET = do_POST = _answer  # noqa: N815 # the names that the server calls

        def log_message(self, *_arguments: Any) -> None:
            """Say nothing."""

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    thread = threading.Thread(target=httpd.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield Server(url=f"http://127.0.0.1:{httpd.server_port}", asked=asked)
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


def landing(url: str, *, method: str = "POST", can_query: bool = False) -> dict[str, Any]:
    """Return the landing page of a STAC API."""
    classes = ["https://api.stacspec.org/v1.0.0/item-search"]
    return {
        "type": "Catalog",
        "conformsTo": [*classes, *([f"{classes[0]}#query"] if can_query else [])],
        "links": [{"rel": "search", "href": f"{url}/search", "method": method}],
    }


def page(items: list[Any], *links: dict[str, Any]) -> Answer:
    """Return one page of items."""
    return Answer(body={"type": "FeatureCollection", "features": items, "links": list(links)})
