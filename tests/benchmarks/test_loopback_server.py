"""The benchmark's server answers as an object store does, and fails only where it is told to."""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse, IncompleteRead
from pathlib import Path

import pytest

from benchmarks.loopback_server import Behaviour, Fault, LoopbackServer, run_server
from benchmarks.range_answers import Request, StoredFile, answer

CONTENT = bytes(range(256)) * 40
SIZE = len(CONTENT)
STORED = StoredFile(content=memoryview(CONTENT), etag='"one"', last_modified="Sun, 29 Jul 2018 00:00:00 GMT")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One request and what is answered."""

    id: str
    headers: dict[str, str]
    status: int
    body: bytes = b""
    content_range: str | None = None


CASES = (
    Case(id="whole", headers={}, status=200, body=CONTENT),
    Case(
        id="start and end",
        headers={"range": "bytes=5-9"},
        status=206,
        body=CONTENT[5:10],
        content_range=f"bytes 5-9/{SIZE}",
    ),
    Case(
        id="beyond the end",
        headers={"range": f"bytes={SIZE - 2}-{SIZE + 9}"},
        status=206,
        body=CONTENT[-2:],
        content_range=f"bytes {SIZE - 2}-{SIZE - 1}/{SIZE}",
    ),
    Case(
        id="open end",
        headers={"range": f"bytes={SIZE - 3}-"},
        status=206,
        body=CONTENT[-3:],
        content_range=f"bytes {SIZE - 3}-{SIZE - 1}/{SIZE}",
    ),
    Case(
        id="suffix",
        headers={"range": "bytes=-4"},
        status=206,
        body=CONTENT[-4:],
        content_range=f"bytes {SIZE - 4}-{SIZE - 1}/{SIZE}",
    ),
    Case(
        id="starts at the end",
        headers={"range": f"bytes={SIZE}-"},
        status=416,
        content_range=f"bytes */{SIZE}",
    ),
    Case(id="empty suffix", headers={"range": "bytes=-0"}, status=416, content_range=f"bytes */{SIZE}"),
    Case(id="several ranges", headers={"range": "bytes=0-1,4-5"}, status=200, body=CONTENT),
    Case(id="backwards", headers={"range": "bytes=9-5"}, status=200, body=CONTENT),
    Case(id="not bytes", headers={"range": "rows=0-1"}, status=200, body=CONTENT),
    Case(id="same version", headers={"if-match": '"one"'}, status=200, body=CONTENT),
    Case(id="among versions", headers={"if-match": '"zero", "one"'}, status=200, body=CONTENT),
    Case(id="any version", headers={"if-match": "*"}, status=200, body=CONTENT),
    Case(id="other version", headers={"if-match": '"two"'}, status=412, body=b"another version is here\n"),
    Case(id="weak tag", headers={"if-match": 'W/"one"'}, status=412, body=b"another version is here\n"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_answer_follows_the_table(case: Case) -> None:
    """Ranges and preconditions are those of RFC 9110, and HEAD tells the same without the body."""
    given = answer(Request(method="GET", path="/a", headers=case.headers), STORED)
    told = answer(Request(method="HEAD", path="/a", headers=case.headers), STORED)

    assert given.status == case.status
    assert bytes(given.body) == case.body
    assert (case.content_range is not None) == (b"Content-Range:" in given.head)
    assert f"Content-Range: {case.content_range}".encode() in given.head or case.content_range is None
    assert told.head == given.head
    assert told.body == b""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackServer]:
    """One server for all tests below; each sets the behaviour that it wants."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "a.tif").write_bytes(CONTENT)
    with run_server(folder) as running:
        yield running


def get(connection: HTTPConnection, path: str, **headers: str) -> tuple[HTTPResponse, bytes]:
    """Send one GET on an open connection."""
    connection.request(
        "GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    response = connection.getresponse()
    return response, response.read()


def connect(server: LoopbackServer) -> "closing[HTTPConnection]":
    """Open a connection that closes with its block."""
    return closing(HTTPConnection("127.0.0.1", server.port, timeout=10))


def test_server_logs_every_request_and_keeps_the_connection(server: LoopbackServer) -> None:
    """Requests per tile are counted here, so none may be missing."""
    server.behave(Behaviour())

    with connect(server) as client:
        first, _ = get(client, "/0/a.tif", range="bytes=0-9")
        second, _ = get(client, "/1/a.tif")
        third, _ = get(client, "/1/b.tif")
    log = server.log()

    assert [row.path for row in log.requests] == ["/0/a.tif", "/1/a.tif", "/1/b.tif"]
    assert [row.range for row in log.requests] == ["bytes=0-9", None, None]
    assert (
        [row.status for row in log.requests] == [first.status, second.status, third.status] == [206, 200, 404]
    )
    assert log.n_connections == 2  # the other one asked for the log


def test_server_delays_the_first_byte(server: LoopbackServer) -> None:
    """The delay is at least what was asked for."""
    server.behave(Behaviour(ttfb_s=0.05))

    with connect(server) as client:
        began = time.monotonic()
        get(client, "/a.tif")

    assert time.monotonic() - began >= 0.049  # event loops round timers to a millisecond


def test_server_makes_the_share_of_responses_slow(server: LoopbackServer) -> None:
    """A share of 1 is every response."""
    server.behave(Behaviour(slow_share=1.0, slow_s=0.05))

    with connect(server) as client:
        began = time.monotonic()
        get(client, "/a.tif")

    assert time.monotonic() - began >= 0.049


def test_server_serves_a_replaced_file_under_a_new_etag(tmp_path: Path) -> None:
    """A reader that pins the old version is told so."""
    (tmp_path / "a.tif").write_bytes(b"old")
    with run_server(tmp_path) as server, connect(server) as client:
        etag = get(client, "/a.tif")[0].headers["ETag"]
        (tmp_path / "b").write_bytes(b"new")
        os.replace(tmp_path / "b", tmp_path / "a.tif")  # noqa: PTH105 # says that it replaces

        pinned, _ = get(client, "/a.tif", if_match=etag)
        _, content = get(client, "/a.tif")

    assert pinned.status == 412
    assert content == b"new"


def test_server_refuses_what_comes_too_fast(server: LoopbackServer) -> None:
    """A tenth of a second's worth is let through at once, the rest is answered 503 and logged so."""
    server.behave(Behaviour(max_rate=20))

    with connect(server) as client:
        statuses = [get(client, "/a.tif")[0].status for _ in range(4)]
        time.sleep(0.06)
        statuses.append(get(client, "/a.tif")[0].status)

    assert statuses == [200, 200, 503, 503, 200]
    assert [request.status for request in server.log().requests] == statuses


def test_fault_strikes_its_path_so_many_times(server: LoopbackServer) -> None:
    """Then, and elsewhere, all is well."""
    server.behave(Behaviour(faults={"/0/a.tif": Fault(times=2, status=503)}))

    with connect(server) as client:
        statuses = [get(client, path)[0].status for path in ("/0/a.tif", "/1/a.tif", "/0/a.tif", "/0/a.tif")]

    assert statuses == [503, 200, 503, 200]


def test_fault_resets_the_connection_amid_the_body(server: LoopbackServer) -> None:
    """The client sees a broken connection, not a short file."""
    server.behave(Behaviour(faults={"/a.tif": Fault(stop_at=100)}))

    with connect(server) as client, pytest.raises((ConnectionResetError, IncompleteRead)):
        get(client, "/a.tif")


def test_fault_stalls_amid_the_body(server: LoopbackServer) -> None:
    """The rest follows when the silence is over."""
    server.behave(Behaviour(faults={"/a.tif": Fault(stop_at=100, stall_s=0.05)}))

    with connect(server) as client:
        began = time.monotonic()
        _, content = get(client, "/a.tif")

    assert content == CONTENT
    assert time.monotonic() - began >= 0.049
