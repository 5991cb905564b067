"""Serve one cube and the page that shows it to a browser on this machine.

The browser needs no access to the cube's store: this process reads with the user's own credentials. Other
programs and web pages get nothing. The server listens on loopback, and its addresses hold a random token. It
answers only its own host name, and reads only objects below the cube.
"""

import logging
import os
import secrets
import shlex
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final, Self, override
from urllib.parse import quote, unquote

from obstore.exceptions import BaseError

from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.model.status import Status
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.core.stores import NOT_COMPLETE
from pixel_gather.in_process.joined_places import holds_joined, refuse_choice
from pixel_gather.in_process.places import open_existing
from pixel_gather.io.cube.open_group import read_root
from pixel_gather.io.cube.served_files import FilePart, Files, StoredFiles, range_of
from pixel_gather.io.cube.written_report import VIEW_KEY, view_page
from pixel_gather.io.cube.zarr_metadata import is_of_chips, is_unfinished
from pixel_gather.io.store.no_redirect_http import PAST_THE_END
from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_error_status import classify_store_error
from pixel_gather.io.store.store_settings import StoreSettings

_log: Final = logging.getLogger(__name__)

_LOOPBACK: Final = "127.0.0.1"
_TOKEN_NBYTES: Final = 24
_CLOSES_WITHIN_S: Final = 0.1
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".webp": "image/webp",
}
_STATUSES: Final = {Status.MISSING: HTTPStatus.NOT_FOUND, Status.DENIED: HTTPStatus.FORBIDDEN}
_NOT_OURS: Final = "sandbox allow-scripts"
"""Content security policy of all but our own page: they get origins of their own, so they read nothing."""


class CubeServer(ThreadingHTTPServer):
    """Serves one cube on loopback, read only."""

    daemon_threads = True

    def __init__(self, files: Files, name: str) -> None:
        """Listen on a free port."""
        super().__init__((_LOOPBACK, 0), _Handler)
        self.files = files
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


class ViewedCube:
    """A cube that a browser on this machine can show, until `close` or the end of the process.

    A context manager: the server ends with the context.
    """

    def __init__(self, ended: ExitStack, server: CubeServer) -> None:
        """Answer requests in a thread from now on.

        ``ended`` closes the server, which listens already, and what it reads.
        """
        self.url: str = server.url
        """Address of the page. It holds a random token, and works on this machine only."""
        self._ended = ended
        thread = Thread(target=server.serve_forever, args=(_CLOSES_WITHIN_S,), daemon=True)
        thread.start()
        ended.callback(thread.join)
        ended.callback(server.shutdown)

    def close(self) -> None:
        """End the server. A second call does nothing."""
        self._ended.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the server."""
        self.close()

    def __repr__(self) -> str:
        return f"<cube shown at {self.url}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: a link that opens the page."""
        url = escape(self.url)
        return f'<a href="{url}" target="_blank" rel="noopener">{url}</a>'


@check_arguments
def view(
    cube: str | os.PathLike[str],
    *,
    group: str | None = None,
    open_browser: bool = True,
    stores: StoreSettings | None = None,
) -> ViewedCube:
    """Show a cube's pixels in a browser, as ``pixel-gather view`` does. Returns at once.

    A small server in this process reads the cube with your credentials. It listens on 127.0.0.1 and answers
    only requests that know the random token in its address. It writes nothing. It ends with ``close()``, with
    a ``with`` statement, or with the process.

    Args:
        cube: A folder, or ``s3://bucket/prefix``, of a cube, of joined cubes or of a virtual cube.
        group: Name of the group, if joined cubes have several.
        open_browser: Open the page in the default browser. On a machine without one, the address is in
            ``url`` all the same.
        stores: How to access S3.

    Raises:
        RequestError: The place is neither a local folder nor on S3, or it has no such group.
        StoreError: No cube is there, or it cannot be read.
        MissingExtraError: Cubes are joined there, and icechunk is not installed.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    with ExitStack() as opening:
        server = opening.enter_context(serving_cube(cube, group=group, stores=stores))
        viewed = ViewedCube(opening.pop_all(), server)
    if open_browser:
        webbrowser.open(viewed.url)
    return viewed


@contextmanager
def serving_cube(
    place: str | os.PathLike[str],
    *,
    group: str | None = None,
    stores: StoreSettings | None = None,
) -> Iterator[CubeServer]:
    """Open a server for one cube, for joined cubes or for a virtual cube.

    Call ``serve_forever``. It ends with the context. Arguments and errors are those of `view`.
    """
    store, name = open_existing(place, stores)
    files: Files
    if holds_joined(store, name):
        from pixel_gather.features.join.join import joined_files  # noqa: PLC0415 # 0.2 s, for joined cubes alone

        files = joined_files(place, group=group, stores=stores)
    else:
        refuse_choice(group, None)
        _check_cube(store, name)
        files = StoredFiles(store)
    with CubeServer(files, name.rstrip("/").rpartition("/")[2] or "cube") as server:
        yield server


def _check_cube(store: Store, name: str) -> None:
    root, _ = read_root(store, name)
    if is_unfinished(root):
        raise StoreError(f"{name}: {NOT_COMPLETE}")
    if is_of_chips(root):
        raise RequestError(
            f"{name} is a cube of chips, which the page does not show: pixel-gather report "
            f"{shlex.quote(name)} --to FOLDER shows some of its chips, and "
            "pixel_gather.open_chips reads them all",
            field="cube",
        )


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
        try:
            found = self.server.files.part(key, wanted)
        except (BaseError, OSError, ValueError, StoreError) as error:
            return self._refuse(*_said(error))
        return self._send(found, key, is_part=wanted is not None, with_body=with_body)

    def _key(self) -> str | None:
        """Return the object that is asked for, or None if the path leads elsewhere."""
        path = self.path.partition("?")[0]
        folder = self.server.folder
        if not secrets.compare_digest(path[: len(folder)].encode(), folder.encode()):
            return None
        key = unquote(path[len(folder) :])
        return key if _is_plain(key) else None

    def _send_page(self, *, with_body: bool) -> None:
        self.send_response(HTTPStatus.OK)
        self._send_headers(_TYPES[".html"], len(self.server.page))
        if with_body:
            self.wfile.write(self.server.page)

    def _send(self, found: FilePart, key: str, *, is_part: bool, with_body: bool) -> None:
        self.send_response(HTTPStatus.PARTIAL_CONTENT if is_part else HTTPStatus.OK)
        if is_part:
            self.send_header("Content-Range", f"bytes {found.start}-{found.stop - 1}/{found.file_nbytes}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Security-Policy", _NOT_OURS)
        self._send_headers(_TYPES.get(Path(key).suffix, "application/octet-stream"), found.stop - found.start)
        if with_body:
            for part in found.content:
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


def _is_plain(key: str) -> bool:
    """Tell whether a key names a file by plain names, without dots or slashes that lead elsewhere."""
    return (
        all(part not in ("", ".", "..") for part in key.split("/")) and "\\" not in key and key.isprintable()
    )


def _said(error: Exception) -> tuple[HTTPStatus, str]:
    if isinstance(error, StoreError):
        return HTTPStatus.BAD_GATEWAY, str(error)
    status, reason, _ = classify_store_error(error)
    if reason == PAST_THE_END:
        return HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, reason
    return _STATUSES.get(status, HTTPStatus.BAD_GATEWAY), reason
