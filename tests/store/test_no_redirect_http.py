"""Reading from web servers without following their redirects."""

import asyncio
import gzip
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import replace
from dataclasses import dataclass
from typing import override

import pytest

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.io.store.fetched import Fetched
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.store_settings import StoreSettings
from support.local_server import Answer, Asked, Script, in_thread, ranged, serving

CONTENT = bytes(range(256)) * 40
FAST = StoreSettings(stays_on_host=True, request_timeout_s=60, max_retries=2, first_backoff_s=0.001)
HURRIED = replace(FAST, request_timeout_s=0.5)


def get(
    root: str,
    *,
    etag: str | None = None,
    cost: Cost | None = None,
    path: str = "a.tif",
    settings: StoreSettings = FAST,
) -> Fetched:
    """Read bytes 10 to 20 of an object."""
    objects = Objects(settings)
    return asyncio.run(objects.get_range(f"{root}/{path}", 10, 20, etag=etag, cost=cost or Cost()))


def good(asked: Asked) -> Answer:
    """Answer as an honest server."""
    return ranged(CONTENT, asked, etag='"1"')


def test_fixed_host_reads_a_range_and_tells_its_version() -> None:
    """One request gives the range, the object's whole size and its ETag."""
    cost = Cost()
    with serving(good) as server:
        fetched = get(server.root, cost=cost)

    assert bytes(fetched.content) == CONTENT[10:20]
    assert (fetched.etag, fetched.object_nbytes) == ('"1"', len(CONTENT))
    assert (cost.requests, cost.nbytes) == (1, 10)


def test_fixed_host_sends_the_name_percent_encoded() -> None:
    """A name with blanks and signs arrives at the server unchanged."""
    with serving(good) as server:
        get(server.root, path="a%20b/c%23d%25.tif")

    assert server.asked[0].path == "/a%20b/c%23d%25.tif"


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_fixed_host_follows_no_redirect(code: int) -> None:
    """An allowed host cannot send the reader to one that is not."""
    with serving(good) as inside:
        moved = Answer(status=code, headers={"Location": f"{inside.root}/secret"})
        with serving(lambda _: moved) as outside, pytest.raises(SourceError, match="not followed") as caught:
            get(outside.root)

    assert inside.asked == []
    assert caught.value.status is Status.DENIED


@dataclass(frozen=True)
class Case:
    """One way in which a server gives no bytes."""

    id: str
    script: Script
    status: Status
    n_requests: int


CASES = [
    Case("missing", lambda _: Answer(status=404), Status.MISSING, 1),
    Case("denied", lambda _: Answer(status=403), Status.DENIED, 1),
    Case("without credentials", lambda _: Answer(status=401), Status.DENIED, 1),
    Case("too short", lambda _: Answer(status=416), Status.CORRUPT, 1),
    Case("replaced", lambda _: Answer(status=412), Status.CHANGED, 1),
    Case("no ranges", lambda _: Answer(status=200, body=CONTENT), Status.UNSUPPORTED, 1),
    Case(
        "another range",
        lambda _: Answer(body=b"x" * 10, headers={"Content-Range": "bytes 0-9/10240"}),
        Status.UNSUPPORTED,
        1,
    ),
    Case("busy", lambda _: Answer(status=503), Status.TIMED_OUT, 3),
    Case("slow", lambda _: Answer(delay_s=30), Status.TIMED_OUT, 3),
    Case(
        "encoded",
        lambda _: Answer(
            body=gzip.compress(CONTENT),
            headers={"Content-Encoding": "gzip", "Content-Range": f"bytes 10-19/{len(CONTENT)}"},
        ),
        Status.UNSUPPORTED,
        1,
    ),
    Case("a teapot", lambda _: Answer(status=418), Status.UNSUPPORTED, 1),
]


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_fixed_host_says_what_became_of_the_source(case: Case) -> None:
    """Each answer has its status. Only transient failures are tried again."""
    cost = Cost()
    with serving(case.script) as server, pytest.raises(SourceError) as caught:
        get(server.root, cost=cost, settings=HURRIED if case.id == "slow" else FAST)

    assert caught.value.status is case.status
    assert cost.requests == case.n_requests


def test_fixed_host_notices_another_version() -> None:
    """A server that ignores If-Match cannot mix bytes of two versions."""
    with (
        serving(lambda asked: ranged(CONTENT, asked, etag='"2"', ignores_if_match=True)) as server,
        pytest.raises(SourceError, match="replaced"),
    ):
        get(server.root, etag='"1"')


def test_fixed_host_tries_again_after_a_connection_that_broke() -> None:
    """A truncated answer is never used as if it were complete."""
    cut = Answer(
        body=CONTENT[10:20], n_sent=4, headers={"Content-Range": f"bytes 10-19/{len(CONTENT)}", "ETag": '"1"'}
    )
    answers = iter([cut])
    cost = Cost()
    with serving(lambda asked: next(answers, None) or good(asked)) as server:
        fetched = get(server.root, cost=cost)

    assert bytes(fetched.content) == CONTENT[10:20]
    assert cost.retries == 1


def test_fixed_host_takes_no_more_than_it_asked_for() -> None:
    """A server that sends without end does not fill the memory."""
    much = Answer(body=CONTENT, headers={"Content-Range": f"bytes 10-{len(CONTENT) - 1}/{len(CONTENT)}"})
    with serving(lambda _: much) as server:
        fetched = get(server.root)

    assert fetched.content.nbytes == 10


@contextmanager
def dripping(head: bytes, dripped: bytes) -> Iterator[str]:
    """Serve headers at once, then single bytes, each well within the time-out. Yields the root."""
    stopping = threading.Event()

    class Handler(socketserver.StreamRequestHandler):
        @override
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            with suppress(OSError):
                self.wfile.write(head)
                for byte in dripped:
                    self.wfile.write(bytes([byte]))
                    stopping.wait(0.1)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        with in_thread(server):
            try:
                yield f"http://127.0.0.1:{server.server_address[1]}"
            finally:
                stopping.set()


HEAD = b"HTTP/1.1 206 Partial Content\r\nContent-Length: 10\r\nContent-Range: bytes 10-19/99\r\n"


@pytest.mark.parametrize(
    ("head", "dripped"), [(HEAD + b"\r\n", CONTENT[10:20]), (HEAD, b"X-A: b\r\n\r\n" + CONTENT[10:20])]
)
def test_fixed_host_does_not_wait_for_an_answer_that_drips(head: bytes, dripped: bytes) -> None:
    """The time-out holds for the whole answer. Otherwise a server could block a thread for ever."""
    cost = Cost()
    with dripping(head, dripped) as root, pytest.raises(SourceError, match="no answer in time") as caught:
        get(root, cost=cost, settings=HURRIED)

    assert caught.value.status is Status.TIMED_OUT
    assert cost.requests == 3


def test_fixed_host_uses_a_connection_again_after_its_time_out() -> None:
    """A connection is used again, because each answer has its own time-out."""
    objects = Objects(HURRIED)

    async def twice(root: str) -> list[bytes]:
        found = []
        for _ in range(2):
            fetched = await objects.get_range(f"{root}/a.tif", 10, 20, etag=None, cost=Cost())
            found.append(bytes(fetched.content))
            await asyncio.sleep(HURRIED.request_timeout_s + 0.1)
        return found

    with serving(good) as server:
        assert asyncio.run(twice(server.root)) == [CONTENT[10:20]] * 2


def test_objects_take_the_settings_of_one_bucket_or_host() -> None:
    """The settings of one bucket hold for that bucket only."""
    theirs = StoreSettings(requester_pays=True)
    objects = Objects(FAST, {"s3://theirs": theirs})

    assert objects.settings_of("s3://theirs/a.tif") is theirs
    assert objects.settings_of("s3://ours/a.tif") is FAST
