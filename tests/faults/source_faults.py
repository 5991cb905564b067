"""Faults of an object store while sources are read: what the store does, and what the cube must say of it.

`docs/faults.md` is made of these cases.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pixel_gather.core.model.status import Status
from support.local_server import Answer, Asked, ranged

type Behaviour = Callable[[bytes, Asked, int], Answer]
"""From the object's bytes, a request, and how many requests for its tile came before.

A request for the header starts at byte 0. The plan reads some headers, too.
"""

_XML: Final = "<?xml version='1.0'?><Error><Code>{}</Code><Message>said by the store</Message></Error>"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFault:
    """One fault."""

    id: str
    injected: str
    """What the store does, in words."""

    behaviour: Behaviour
    expected: Status
    reason: str = ""
    """Part of the reason that the report tells."""


def _refusal(status: int, code: str) -> Answer:
    return Answer(status=status, body=_XML.format(code).encode())


def _always(status: int, code: str) -> Behaviour:
    return lambda _, __, ___: _refusal(status, code)


def _reads_tile(asked: Asked) -> bool:
    return asked.range_ is not None and not asked.range_.startswith("bytes=0-")


def _tile_at_first(n: int, fault: Callable[[bytes, Asked], Answer]) -> Behaviour:
    """Answer the first requests for the tile by a fault, all others correctly."""
    return lambda content, asked, before: (
        fault(content, asked) if _reads_tile(asked) and before < n else ranged(content, asked)
    )


def _cut(content: bytes, asked: Asked, n_sent: int) -> Answer:
    whole = ranged(content, asked)
    return Answer(status=whole.status, body=whole.body, headers=whole.headers, n_sent=n_sent)


def _replaced(content: bytes, asked: Asked, _: int) -> Answer:
    return ranged(content, asked, etag='"2"' if _reads_tile(asked) else '"1"')


def _replaced_unseen(content: bytes, asked: Asked, _: int) -> Answer:
    return ranged(content, asked, etag='"2"' if _reads_tile(asked) else '"1"', ignores_if_match=True)


def _late(content: bytes, asked: Asked) -> Answer:
    whole = ranged(content, asked)
    return Answer(status=whole.status, body=whole.body, headers=whole.headers, delay_s=0.5)


def _shifted(content: bytes, asked: Asked, _: int) -> Answer:
    right = ranged(content, asked)
    return Answer(body=right.body, headers=right.headers | {"Content-Range": f"bytes 7-99/{len(content)}"})


def _damaged_tile(content: bytes, asked: Asked, _: int) -> Answer:
    return ranged(content[:-64] + bytes(64), asked)


def _damaged_header(content: bytes, asked: Asked, _: int) -> Answer:
    return ranged(b"II*\0\xff\xff\xff\xff" + content[8:], asked)


def _shortened(content: bytes, asked: Asked, _: int) -> Answer:
    return ranged(content[:-200], asked)


FAULTS: Final = (
    SourceFault(
        id="none",
        injected="nothing",
        behaviour=lambda content, asked, _: ranged(content, asked),
        expected=Status.OK,
    ),
    SourceFault(
        id="503-burst",
        injected="503 SlowDown to the first two requests for the tile",
        behaviour=_tile_at_first(2, lambda _, __: _refusal(503, "SlowDown")),
        expected=Status.OK,
    ),
    SourceFault(
        id="503-for-ever",
        injected="503 SlowDown to every request",
        behaviour=_always(503, "SlowDown"),
        expected=Status.TIMED_OUT,
        reason="busy",
    ),
    SourceFault(
        id="500-once",
        injected="500 InternalError once",
        behaviour=_tile_at_first(1, lambda _, __: _refusal(500, "InternalError")),
        expected=Status.OK,
    ),
    SourceFault(
        id="500-for-ever",
        injected="500 InternalError to every request",
        behaviour=_always(500, "InternalError"),
        expected=Status.TIMED_OUT,
        reason="busy",
    ),
    SourceFault(
        id="reset-before-body",
        injected="the connection is reset before the body, once",
        behaviour=_tile_at_first(1, lambda content, asked: _cut(content, asked, 0)),
        expected=Status.OK,
    ),
    SourceFault(
        id="reset-in-body",
        injected="the connection is reset within the body, once",
        behaviour=_tile_at_first(1, lambda content, asked: _cut(content, asked, 100)),
        expected=Status.OK,
    ),
    SourceFault(
        id="truncated-for-ever",
        injected="every body is cut off",
        behaviour=lambda content, asked, _: _cut(content, asked, 50),
        expected=Status.TIMED_OUT,
        reason="connection broke",
    ),
    SourceFault(
        id="hung-once",
        injected="the first request for the tile gets no answer",
        behaviour=_tile_at_first(1, lambda _, __: Answer(delay_s=60)),
        expected=Status.OK,
    ),
    SourceFault(
        id="hung-for-ever",
        injected="no request gets an answer",
        behaviour=lambda _, __, ___: Answer(delay_s=60),
        expected=Status.TIMED_OUT,
    ),
    SourceFault(
        id="slow-tail",
        injected="the tile arrives after half a second",
        behaviour=_tile_at_first(1, _late),
        expected=Status.OK,
    ),
    SourceFault(
        id="404",
        injected="404 NoSuchKey",
        behaviour=_always(404, "NoSuchKey"),
        expected=Status.MISSING,
        reason="no such object",
    ),
    SourceFault(
        id="403",
        injected="403 AccessDenied, which S3 answers for a missing object if the caller may not list the "
        "bucket",
        behaviour=_always(403, "AccessDenied"),
        expected=Status.DENIED,
        reason="403",
    ),
    SourceFault(
        id="expired-credentials",
        injected="400 ExpiredToken to the requests for the tile",
        behaviour=_tile_at_first(99, lambda _, __: _refusal(400, "ExpiredToken")),
        expected=Status.DENIED,
        reason="expired",
    ),
    SourceFault(
        id="other-region",
        injected="301 PermanentRedirect, which S3 answers for a bucket in another Region",
        behaviour=_always(301, "PermanentRedirect"),
        expected=Status.DENIED,
        reason="Region",
    ),
    SourceFault(
        id="replaced-between-header-and-tile",
        injected="the object is replaced after its header was read; the store answers 412",
        behaviour=_replaced,
        expected=Status.CHANGED,
    ),
    SourceFault(
        id="replaced-and-no-412",
        injected="the same, and the store ignores If-Match",
        behaviour=_replaced_unseen,
        expected=Status.CHANGED,
    ),
    SourceFault(
        id="wrong-content-range",
        injected="206 with another Content-Range than asked for",
        behaviour=_shifted,
        expected=Status.UNSUPPORTED,
        reason="another range",
    ),
    SourceFault(
        id="200-instead-of-206",
        injected="200 with the whole object",
        behaviour=lambda content, _, __: Answer(status=200, body=content, headers={"ETag": '"1"'}),
        expected=Status.UNSUPPORTED,
        reason="byte ranges",
    ),
    SourceFault(
        id="damaged-tile",
        injected="the last 64 bytes of the compressed tile are zeros",
        behaviour=_damaged_tile,
        expected=Status.CORRUPT,
    ),
    SourceFault(
        id="damaged-header",
        injected="the header names a directory beyond the end",
        behaviour=_damaged_header,
        expected=Status.CORRUPT,
    ),
    SourceFault(
        id="shortened",
        injected="the object ends before its last tile",
        behaviour=_shortened,
        expected=Status.CORRUPT,
    ),
    SourceFault(
        id="empty",
        injected="the object has no bytes",
        behaviour=lambda _, asked, __: ranged(b"", asked),
        expected=Status.CORRUPT,
        reason="empty",
    ),
)


def faults_text() -> str:
    """Return the table of the documentation."""
    lines = [f"| {each.injected} | `{each.expected.name.lower()}` |" for each in FAULTS]
    return "\n".join(["| injected | status of the row |", "| --- | --- |", *lines])
