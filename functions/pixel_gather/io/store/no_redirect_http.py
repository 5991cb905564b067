"""Ranged GETs from one web server that never follow a redirect, so an allowed host cannot lead to another.

It uses urllib3 in threads. That is slower than obstore, but obstore always follows redirects. aiohttp
needs no threads. But it takes four times as long to import (300 ms of CPU against 70), and 12 MB of every
package.
"""

import asyncio
import io
import re
import socket
import time
from collections.abc import Buffer, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pixel_gather.core.errors import PickledError
from pixel_gather.core.model.status import Status
from pixel_gather.io.store.fetched import Fetched

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from urllib3 import BaseHTTPResponse

_THREADS: Final = 400
"""Started when needed. As many as requests in flight: one that waits for a thread would seem late."""

MANY: Final = 100
"""More retries than any setting allows, so the setting decides."""

_CONTENT_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
PAST_THE_END: Final = "it is cut off: it ends before bytes that its header names"
"""The reason where a range begins after the last byte."""

_BY_CODE: Final[dict[int, tuple[Status, str, int]]] = {
    401: (Status.DENIED, "the server wants credentials (401)", 0),
    403: (Status.DENIED, "the server refused access (403)", 0),
    404: (Status.MISSING, "no such object", 0),
    410: (Status.MISSING, "no such object", 0),
    412: (Status.CHANGED, "replaced while it was being read", 0),
    416: (Status.CORRUPT, PAST_THE_END, 0),
    200: (Status.UNSUPPORTED, "the server does not answer byte ranges", 0),
}


class HttpRefusedError(PickledError, OSError):
    """The server did not answer, or answered without the bytes."""

    def __init__(self, status: Status, reason: str, tries: int, *, throttles: bool = False) -> None:
        """Say what it means for the source.

        ``tries`` says how many retries are worthwhile.
        """
        super().__init__(reason)
        self.throttles = throttles
        self.status = status
        self.reason = reason
        self.tries = tries


class FixedHost:
    """One ``https://host`` or ``http://host``."""

    def __init__(
        self,
        root: str,
        *,
        connect_timeout_s: float,
        first_byte_timeout_s: float,
        stall_timeout_s: float,
        request_timeout_s: float,
    ) -> None:
        """Connect at the first request.

        The root has no trailing slash. The time-outs are those of a connection, of the first byte, of silence
        within an answer, and of all of it.
        """
        import urllib3  # noqa: PLC0415 # 40 ms that only deployments with web servers pay

        self._root = root
        self._pool = urllib3.PoolManager(
            maxsize=_THREADS,
            retries=False,
            timeout=urllib3.Timeout(connect=connect_timeout_s, read=first_byte_timeout_s),
        )
        pool = self._pool.connection_from_url(root)
        pool.ConnectionCls = type(
            "Connection",
            (pool.ConnectionCls,),
            {
                "response_class": staticmethod(
                    partial(_in_time, stall_s=stall_timeout_s, total_s=request_timeout_s)
                )
            },
        )
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="https")

    def get(
        self, path: str, start: int, stop: int, *, if_match: str | None, on_begin: Callable[[], None]
    ) -> asyncio.Future[Fetched]:
        """Read bytes [start, stop).

        The path is not percent-encoded. ``on_begin`` is called in another thread at the first byte of the
        answer.

        Raises:
            HttpRefusedError: The bytes cannot be read.
        """
        return asyncio.get_running_loop().run_in_executor(
            self._threads, self._get, path, start, stop, if_match, on_begin
        )

    def _get(
        self, path: str, start: int, stop: int, if_match: str | None, on_begin: Callable[[], None]
    ) -> Fetched:
        import urllib3  # noqa: PLC0415 # as above

        headers = {"Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
        if if_match is not None:
            headers["If-Match"] = if_match
        # Ask, and take no more bytes than were asked for.
        try:
            answer = self._pool.request(
                "GET",
                f"{self._root}/{quote(path)}",
                headers=headers,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
            on_begin()
            content = _read(answer, stop - start)  # ignores whatever else the server sends
            if answer.length_remaining == 0:
                answer.release_conn()
            else:
                answer.close()
        except urllib3.exceptions.NewConnectionError as error:
            raise HttpRefusedError(Status.TIMED_OUT, "no connection to the server", MANY) from error
        except urllib3.exceptions.TimeoutError as error:
            raise HttpRefusedError(Status.TIMED_OUT, "no answer in time", MANY) from error
        except urllib3.exceptions.HTTPError as error:
            raise HttpRefusedError(Status.TIMED_OUT, "the request failed", MANY) from error
        # Is the answer that range of the file, as it is stored?
        if answer.status != 206:  # noqa: PLR2004 # Partial Content
            raise _refusal(answer.status)
        if answer.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
            raise HttpRefusedError(
                Status.UNSUPPORTED, "the server compresses its answer, although it was not asked to", 0
            )
        described = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if described is None or int(described[1]) != start:
            raise HttpRefusedError(Status.UNSUPPORTED, "the server answers with another range", 0)
        return Fetched(
            content=memoryview(content),
            etag=answer.headers.get("ETag"),
            object_nbytes=int(described[3]),
        )


def _read(answer: "BaseHTTPResponse", nbytes: int) -> bytes:
    """Read up to this many bytes. urllib3 reports a truncated answer only when reading continues."""
    blocks = []
    while nbytes and (block := answer.read(nbytes)):
        blocks.append(block)
        nbytes -= len(block)
    return b"".join(blocks)


def _in_time(
    sock: socket.socket, *args: Any, stall_s: float, total_s: float, **options: Any
) -> "HTTPResponse":
    """Return a response that keeps the time-outs. The socket's own time-out holds for the first byte."""
    from http.client import HTTPResponse  # noqa: PLC0415 # as above

    answer = HTTPResponse(sock, *args, **options)
    answer.fp = io.BufferedReader(_InTime(answer.fp.detach(), sock, stall_s=stall_s, total_s=total_s))
    return answer


class _InTime(io.RawIOBase):
    """Bytes from a socket, with a time-out for silence and one for the whole answer.

    A server that sends single bytes slowly gets no more time than a silent one.
    """

    def __init__(
        self, received: io.RawIOBase, sock: socket.socket, *, stall_s: float, total_s: float
    ) -> None:
        self._received = received
        self._sock = sock
        self._silence_s = sock.gettimeout() or stall_s
        self._stall_s = stall_s
        self._until = time.monotonic() + total_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int | None:
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the answer takes too long")
        self._sock.settimeout(min(left_s, self._silence_s))
        n_read = self._received.readinto(buffer)
        self._silence_s = self._stall_s
        return n_read

    def close(self) -> None:
        self._received.close()
        super().close()


def _refusal(code: int) -> HttpRefusedError:
    if code in _BY_CODE:
        return HttpRefusedError(*_BY_CODE[code])
    if code in range(300, 400):
        return HttpRefusedError(
            Status.DENIED, "the server redirects to another address, which is not followed", 0
        )
    if code in (408, 429) or code >= 500:  # noqa: PLR2004 # server errors
        return HttpRefusedError(
            Status.TIMED_OUT, "the store stayed busy (5xx)", MANY, throttles=code in (429, 503)
        )
    return HttpRefusedError(Status.UNSUPPORTED, f"the server answers {code}", 0)
