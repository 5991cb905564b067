"""JSON from web servers: bounded in size and time, to allowed hosts only, redirects refused.

A catalog's answers name the next address to ask, so every address passes the same check as the first one.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from pixel_gather.core.errors import DeniedError, RequestError, StoreError, ThrottledError, UnreachableError
from pixel_gather.core.request.web_address import CheckUrl, shown_url

_LARGEST_ANSWER_NBYTES: Final = 64 << 20
_CONNECT_S: Final = 5.0
_SILENCE_S: Final = 30.0
_ANSWER_S: Final = 60.0
_TRIES: Final = 5
_LONGEST_WAIT_S: Final = 30.0
_FIRST_WAIT_S: Final = 0.5
_BUSY: Final = (429, 500, 502, 503, 504)
"""Statuses after which a server is asked again."""

_CHUNK_NBYTES: Final = 1 << 16
_HEADERS: Final = {"accept": "application/json, application/geo+json", "user-agent": "pixel-gather"}


class JsonAnswer(Struct, frozen=True, kw_only=True):
    """What a server answered."""

    body: Any
    headers: Mapping[str, str]
    """Names in lower case."""


class JsonClient:
    """Asks for JSON; one for all requests of a search."""

    def __init__(self, check_url: CheckUrl, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """Connect when first asked. Every address passes ``check_url``."""
        import urllib3  # noqa: PLC0415 # 40 ms that only catalogs pay

        self.check_url = check_url
        self.n_requests = 0
        self._sleep = sleep
        self._pool = urllib3.PoolManager(
            retries=False, timeout=urllib3.Timeout(connect=_CONNECT_S, read=_SILENCE_S)
        )

    def ask(self, url: str, *, body: Any = None, headers: Mapping[str, str] = {}) -> JsonAnswer:
        """Ask by GET, or by POST with a body of JSON.

        Raises:
            RequestError: The address may not be asked, or the server refuses the request.
            DeniedError: The server wants credentials.
            ThrottledError: The server is busy, also after several tries.
            UnreachableError: There is no answer.
            StoreError: The answer is no JSON, or too large.
        """
        self.check_url(url)
        for attempt in range(_TRIES):
            try:
                status, answered, content = self._once(url, body, headers)
            except UnreachableError:
                if attempt == _TRIES - 1:
                    raise
                self._sleep(_FIRST_WAIT_S * 2**attempt)
                continue
            if status not in _BUSY or attempt == _TRIES - 1:
                return _judge_answer(status, answered, content, url)
            self._sleep(_wait_s(answered, attempt))
        raise AssertionError("the last try returns or raises")

    def _once(self, url: str, body: Any, headers: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
        import urllib3  # noqa: PLC0415 # as above

        self.n_requests += 1
        of_body = {} if body is None else {"content-type": "application/json"}
        try:
            answer = self._pool.request(
                "GET" if body is None else "POST",
                url,
                body=None if body is None else json.dumps(body),
                headers={**_HEADERS, **headers, **of_body},
                redirect=False,
                preload_content=False,
            )
            content = _read_bounded(answer, url)
            answer.release_conn()
        except urllib3.exceptions.HTTPError as error:
            raise UnreachableError(f"{urlsplit(url).netloc} does not answer: {_short(error)}") from error
        return answer.status, {name.lower(): value for name, value in answer.headers.items()}, content


def _read_bounded(answer: Any, url: str) -> bytes:
    """Read an answer, but neither more than is allowed nor for longer."""
    until = time.monotonic() + _ANSWER_S
    parts, n = [], 0
    while part := answer.read1(_CHUNK_NBYTES):  # whatever is there: a slow server is noticed in time
        n += len(part)
        if n > _LARGEST_ANSWER_NBYTES:
            answer.close()
            raise StoreError(f"{shown_url(url)} answers with more than {_LARGEST_ANSWER_NBYTES >> 20} MiB")
        if time.monotonic() > until:
            answer.close()
            raise UnreachableError(f"{shown_url(url)} takes longer than {_ANSWER_S:.0f} s to answer")
        parts.append(part)
    return b"".join(parts)


def _judge_answer(status: int, headers: dict[str, str], content: bytes, url: str) -> JsonAnswer:
    host = urlsplit(url).netloc
    if status in _BUSY:
        raise ThrottledError(
            f"{host} is busy ({status}); ask again later",
            retry_after_s=retry_after_s(headers.get("retry-after", "")),
        )
    if status in (401, 403):
        raise DeniedError(f"{host} refuses access ({status}); give credentials that it knows")
    if 300 <= status < 400:  # noqa: PLR2004 # redirects
        raise RequestError(f"{host} redirects to another address ({status}); write that one", field="stac")
    if status >= 400:  # noqa: PLR2004 # the request's fault
        said = content[:300].decode(errors="replace").replace("\n", " ")
        raise RequestError(f"{host} refuses the request ({status}): {said}", field="stac")
    try:
        return JsonAnswer(body=msgspec.json.decode(content), headers=headers)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StoreError(f"{shown_url(url)} does not answer with JSON: {_short(error)}") from error


def _wait_s(headers: Mapping[str, str], attempt: int) -> float:
    asked = retry_after_s(headers.get("retry-after", ""))
    return min(asked if asked is not None else _FIRST_WAIT_S * 2**attempt, _LONGEST_WAIT_S)


def _short(error: Exception) -> str:
    return re.sub(r"\?\S+", "?…", str(error).partition("\n")[0])[:200]  # a query may hold a key


_DAY_S: Final = 86_400.0


def retry_after_s(text: str) -> float | None:
    """Return the seconds to wait, from 0 to a day, or None if the text says nothing.

    Args:
        text: The header's value: a number of seconds, or a date (RFC 9110, section 10.2.3).
    """
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except ValueError:
            return None
    return min(max(seconds, 0.0), _DAY_S) if seconds == seconds else None  # noqa: PLR0124 # NaN
