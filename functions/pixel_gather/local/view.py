"""Serve one cube and the page that shows it to a browser on this machine.

The browser needs no access to the cube's store: this process reads with the user's own credentials. Other
programs and web pages get nothing. The server listens on loopback, its addresses hold a random token, it
answers only its own host name, and it reads only objects below the cube.
"""

import logging
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, override
from urllib.parse import quote, unquote

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore

from pixel_gather.adapters.cube.zarr_cube import ROOT_KEY
from pixel_gather.adapters.object_store.error_status import judge, said_of_place
from pixel_gather.adapters.object_store.no_redirect_http import PAST_THE_END
from pixel_gather.adapters.object_store.object_store import Store, StoreSettings
from pixel_gather.adapters.report.view_page import VIEW_KEY, view_page
from pixel_gather.errors import StoreError
from pixel_gather.local.gather import open_existing
from pixel_gather.model.status import Status

_log: Final = logging.getLogger(__name__)

_LOOPBACK: Final = "127.0.0.1"
_TOKEN_NBYTES: Final = 24
_PART_NBYTES: Final = 2**20
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_STATUSES: Final = {Status.MISSING: HTTPStatus.NOT_FOUND, Status.DENIED: HTTPStatus.FORBIDDEN}
_NOT_OURS: Final = "sandbox allow-scripts"
"""Content security policy of all but our own page: they get origins of their own, so they read nothing."""

type Range = tuple[int, int] | dict[str, int]


class CubeServer(ThreadingHTTPServer):
    """Serves one cube on loopback, read only."""

    daemon_threads = True

    def __init__(self, store: Store, name: str) -> None:
        """Listen on a free port.

        Args:
            store: At the cube's root.
            name: What the page calls the cube.
        """
        super().__init__((_LOOPBACK, 0), _Handler)
        self.store = store
        self.page = view_page()
        self.folder = f"/{secrets.token_urlsafe(_TOKEN_NBYTES)}/{quote(name, safe='')}/"
        """Path of the cube. It holds the token."""
        self.hosts = {f"{host}:{self.server_port}" for host in (_LOOPBACK, "localhost")}

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://{_LOOPBACK}:{self.server_port}{self.folder}{VIEW_KEY}"

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an error of one connection, such as a closed tab, instead of printing a traceback."""
        _log.debug("a connection ended", exc_info=True)


@contextmanager
def serving_cube(
    place: str | os.PathLike[str], *, stores: StoreSettings | None = None
) -> Iterator[CubeServer]:
    """Open a server for one cube. Call ``serve_forever`` on it; it ends with the context.

    Args:
        place: The cube: a folder, or ``s3://bucket/prefix``.
        stores: How to access S3.

    Raises:
        RequestError: The place is neither a local folder nor on S3.
        StoreError: No cube is there, or it cannot be read.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    store, name = open_existing(place, stores)
    try:
        obstore.head(store, ROOT_KEY)
    except FileNotFoundError as error:
        raise StoreError(f"{name}: no cube is there; name the folder that a gather has written") from error
    except (BaseError, OSError) as error:
        raise StoreError(f"{name} could not be read: {said_of_place(error)}") from error
    with CubeServer(store, name.rstrip("/").rpartition("/")[2] or "cube") as server:
        yield server


class _Handler(BaseHTTPRequestHandler):
    server: CubeServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 120.0
    server_version, sys_version = "pixel-gather", ""

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: paths hold the token."""

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        if self.headers.get_all("Host") not in [[host] for host in self.server.hosts]:
            return self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "this server has another name")
        key = self._key()
        if key is None:
            return self._refuse(HTTPStatus.NOT_FOUND, "nothing is here")
        if key == VIEW_KEY:
            return self._send_page(with_body=with_body)
        wanted = range_of(self.headers.get("Range"))
        options: Any = {"head": not with_body} | ({} if wanted is None else {"range": wanted})
        try:
            found = obstore.get(self.server.store, key, options=options)
        except (BaseError, OSError, ValueError) as error:
            return self._refuse(*_said(error))
        return self._send(found, key, is_part=wanted is not None, with_body=with_body)

    def _key(self) -> str | None:
        """Return the object that is asked for, or None if the path leads elsewhere."""
        path = self.path.partition("?")[0]
        folder = self.server.folder
        if not secrets.compare_digest(path[: len(folder)].encode(), folder.encode()):
            return None
        key = unquote(path[len(folder) :])
        return key if is_below(self.server.store, key) else None

    def _send_page(self, *, with_body: bool) -> None:
        self.send_response(HTTPStatus.OK)
        self._send_headers(_TYPES[".html"], len(self.server.page))
        if with_body:
            self.wfile.write(self.server.page)

    def _send(self, found: Any, key: str, *, is_part: bool, with_body: bool) -> None:
        start, stop = found.range
        self.send_response(HTTPStatus.PARTIAL_CONTENT if is_part else HTTPStatus.OK)
        if is_part:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{found.meta['size']}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Security-Policy", _NOT_OURS)
        self._send_headers(_TYPES.get(Path(key).suffix, "application/octet-stream"), stop - start)
        if with_body:
            for part in found.stream(min_chunk_size=_PART_NBYTES):
                self.wfile.write(part)

    def _send_headers(self, content_type: str, nbytes: int) -> None:
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(nbytes))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.end_headers()

    def _refuse(self, status: HTTPStatus, said: str) -> None:
        """Answer with a line of text, and close the connection: the request's body, if any, is not read."""
        body = f"{said}\n".encode()
        self.send_response(status)
        self.send_header("Connection", "close")
        self._send_headers(_TYPES[".txt"], len(body))
        if self.command != "HEAD":
            self.wfile.write(body)


def range_of(header: str | None) -> Range | None:
    """Return the one range of a Range header, as obstore takes it; None for the whole object.

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


def is_below(store: Store, key: str) -> bool:
    """Tell whether a key names an object of the cube, and no other file by dots, slashes or links."""
    if any(part in ("", ".", "..") for part in key.split("/")) or "\\" in key or not key.isprintable():
        return False
    if not isinstance(store, LocalStore):
        return True
    root = Path(store.prefix or "/").resolve()
    return (root / key).resolve().is_relative_to(root)


def _said(error: Exception) -> tuple[HTTPStatus, str]:
    status, reason, _ = judge(error)
    if reason == PAST_THE_END:
        return HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, reason
    return _STATUSES.get(status, HTTPStatus.BAD_GATEWAY), reason
