"""What an object store answers to GET and HEAD: ranges, entity tags, preconditions. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One version of one object."""

    content: memoryview
    etag: str
    """With its quotes."""

    last_modified: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request."""

    method: str
    path: str
    headers: Mapping[str, str]
    """By name in lower case."""

    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One HTTP response."""

    status: int
    head: bytes
    """Status line and headers, up to and with the empty line."""

    body: bytes | memoryview


def answer_with(status: int, *headers: str, body: bytes | memoryview = b"", is_head: bool = False) -> Answer:
    """Put a response together; an answer to HEAD tells its body's length and leaves it out."""
    lines = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        *headers,
        f"Content-Length: {len(body)}",
        "\r\n",
    )
    return Answer(status=status, head="\r\n".join(lines).encode("latin-1"), body=b"" if is_head else body)


def answer(request: Request, stored: StoredFile | None) -> Answer:
    """Answer a GET or HEAD of an object as S3 would: 200, 206, 404, 412 or 416."""
    is_head = request.method == "HEAD"
    if stored is None:
        return answer_with(404, body=b"no such object\n", is_head=is_head)
    if not _matches(request.headers.get("if-match"), stored.etag):
        return answer_with(412, body=b"another version is here\n", is_head=is_head)
    version = (f"ETag: {stored.etag}", f"Last-Modified: {stored.last_modified}", "Accept-Ranges: bytes")
    size = len(stored.content)
    span = _span(request.headers.get("range"), size)
    if span is None:
        return answer_with(200, *version, body=stored.content, is_head=is_head)
    start, stop = span
    if start >= stop:
        return answer_with(416, f"Content-Range: bytes */{size}", is_head=is_head)
    content_range = f"Content-Range: bytes {start}-{stop - 1}/{size}"
    return answer_with(206, *version, content_range, body=stored.content[start:stop], is_head=is_head)


def _matches(if_match: str | None, etag: str) -> bool:
    """Compare strongly, as RFC 9110 13.1.1 has it: a weak tag never matches."""
    if if_match is None or if_match.strip() == "*":
        return True
    return etag in (tag.strip() for tag in if_match.split(","))


def _span(range_header: str | None, size: int) -> tuple[int, int] | None:
    """Return bytes [start, stop) of a range, or None where the whole is to be sent.

    A header that is malformed or asks for several ranges is ignored, as RFC 9110 14.2 allows and S3 does.
    An unsatisfiable range comes back empty.
    """
    unit, _, wanted = (range_header or "").partition("=")
    first, dash, last = wanted.strip().partition("-")
    if unit.strip() != "bytes" or not dash or not (first or last) or not f"{first}{last}".isdecimal():
        return None
    if not first:
        return max(size - int(last), 0), size if int(last) else 0
    if last and int(last) < int(first):
        return None
    return int(first), min(int(last) + 1, size) if last else size
