"""The benchmark's server answers as an object store does, and is slow or fails only where it is told to."""

import asyncio
import os
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection, IncompleteRead
from pathlib import Path

import pytest

from benchmarks.loopback_server import Behaviour, Fault, LoopbackServer, run_server
from benchmarks.paced_link import PacedLink
from benchmarks.range_answers import Request, StoredFile, answer
from benchmarks.throttle import Throttle
from support.in_loop import in_loop

CONTENT = bytes(range(256)) * 1024
SIZE = len(CONTENT)
STORED = StoredFile(content=memoryview(CONTENT), etag='"one"', last_modified="Sun, 29 Jul 2018 00:00:00 GMT")
ALMOST_50_MS = 0.049
"""Event loops round timers to a millisecond."""

RANGES = {
    "bytes=5-9": (5, 10),
    f"bytes={SIZE - 2}-{SIZE + 9}": (SIZE - 2, SIZE),
    f"bytes={SIZE - 3}-": (SIZE - 3, SIZE),
    "bytes=-4": (SIZE - 4, SIZE),
}
"""Ranges, and the bytes that are answered."""


@pytest.mark.parametrize(("header", "span"), RANGES.items())
def test_a_range_is_answered_with_its_bytes(header: str, span: tuple[int, int]) -> None:
    """The answer is that of RFC 9110."""
    given = answer(Request(method="GET", path="/a", headers={"range": header}), STORED)

    assert (given.status, bytes(given.body)) == (206, CONTENT[slice(*span)])
    assert f"Content-Range: bytes {span[0]}-{span[1] - 1}/{SIZE}\r\n".encode() in given.head


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("range", f"bytes={SIZE}-", 416),
        ("range", "bytes=-0", 416),
        ("range", "bytes=0-1,4-5", 200),
        ("range", "bytes=9-5", 200),
        ("range", "rows=0-1", 200),
        ("if-match", '"one"', 200),
        ("if-match", '"zero", "one"', 200),
        ("if-match", "*", 200),
        ("if-match", '"two"', 412),
        ("if-match", 'W/"one"', 412),
    ],
)
def test_headers_decide_the_status(name: str, value: str, status: int) -> None:
    """What is no range is ignored; another version is refused. HEAD tells the same without the body."""
    given = answer(Request(method="GET", path="/a", headers={name: value}), STORED)
    told = answer(Request(method="HEAD", path="/a", headers={name: value}), STORED)

    assert given.status == status
    assert (bytes(given.body) == CONTENT) == (status == 200)
    assert (b"Content-Range:" in given.head) == (status == 416)
    assert (told.head, told.body) == (given.head, b"")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackServer]:
    """One server, with TLS, for all tests below; each sets the behaviour that it wants."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "a.tif").write_bytes(CONTENT)
    with run_server(folder, tls=True) as running:
        yield running


def get(connection: HTTPConnection, path: str = "/a.tif", **headers: str) -> tuple[HTTPResponse, bytes]:
    """Send one GET on an open connection."""
    connection.request(
        "GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    response = connection.getresponse()
    return response, response.read()


def connect(server: LoopbackServer) -> "closing[HTTPConnection]":
    """Open a connection that closes with its block."""
    return closing(HTTPConnection("127.0.0.1", server.port, timeout=10))


def seconds_of_get(server: LoopbackServer) -> float:
    """Return how long one GET takes, whose content is checked."""
    with connect(server) as client:
        began = time.monotonic()
        assert get(client)[1] == CONTENT
        return time.monotonic() - began


def test_server_logs_every_request_and_keeps_the_connection(server: LoopbackServer) -> None:
    """Requests per tile are counted here, so none may be missing."""
    server.behave(Behaviour())

    with connect(server) as client:
        get(client, "/0/a.tif", range="bytes=0-9")
        get(client, "/1/a.tif")
        get(client, "/1/b.tif")
    log = server.log()

    assert [(row.path, row.range, row.status) for row in log.requests] == [
        ("/0/a.tif", "bytes=0-9", 206),
        ("/1/a.tif", None, 200),
        ("/1/b.tif", None, 404),
    ]
    assert log.n_connections == 2  # the other one asked for the log


@pytest.mark.parametrize(
    "behaviour",
    [
        Behaviour(ttfb_s=0.05),
        Behaviour(slow_share=1.0, slow_s=0.05),
        Behaviour(faults={"/a.tif": Fault(stop_at=100, stall_s=0.05)}),
        Behaviour(bytes_per_s=SIZE / 0.06),  # the last piece is not waited for
    ],
)
def test_server_takes_its_time(server: LoopbackServer, behaviour: Behaviour) -> None:
    """By a delay, by late answers, by silence amid a body, by its bandwidth; all of the body comes."""
    server.behave(behaviour)

    assert seconds_of_get(server) >= ALMOST_50_MS


def test_server_shares_its_bandwidth_between_connections(server: LoopbackServer) -> None:
    """Four bodies together take as long as their bytes at that rate."""
    server.behave(Behaviour(bytes_per_s=4 * SIZE / 0.2))

    began = time.monotonic()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(seconds_of_get, [server] * 4))

    assert time.monotonic() - began >= 0.15


def test_server_goes_on_when_the_next_request_comes_at_once(server: LoopbackServer) -> None:
    """One kept connection gets answer after answer, also at a bandwidth."""
    server.behave(Behaviour(bytes_per_s=1e8))

    with connect(server) as client:
        assert [get(client)[1] for _ in range(3)] == [CONTENT] * 3


def test_server_serves_a_replaced_file_under_a_new_etag(tmp_path: Path) -> None:
    """A reader that pins the old version is told so."""
    (tmp_path / "a.tif").write_bytes(b"old")
    with run_server(tmp_path) as server, connect(server) as client:
        etag = get(client)[0].headers["ETag"]
        (tmp_path / "b").write_bytes(b"new")
        os.replace(tmp_path / "b", tmp_path / "a.tif")  # noqa: PTH105 # says that it replaces

        pinned, _ = get(client, if_match=etag)
        _, content = get(client)

    assert pinned.status == 412
    assert content == b"new"


def test_server_refuses_what_comes_too_fast(server: LoopbackServer) -> None:
    """What is let through at once, the rest is answered 503 and logged so."""
    server.behave(Behaviour(max_rate=0.001))

    with connect(server) as client:
        statuses = [get(client)[0].status for _ in range(3)]

    assert statuses == [200, 503, 503]
    assert [request.status for request in server.log().requests] == statuses


def test_a_throttle_grants_a_tenth_of_a_second_at_once() -> None:
    """Later one more for each share of a second, but never more than that at once."""
    throttle = Throttle(20)

    assert [throttle.grants(100.0) for _ in range(3)] == [True, True, False]
    assert [throttle.grants(at_s) for at_s in (100.04, 100.06, 100.07)] == [False, True, False]
    assert [throttle.grants(200.0) for _ in range(3)] == [True, True, False]


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
        get(client)


def test_server_answers_by_tls_to_who_trusts_it(server: LoopbackServer) -> None:
    """Both ports serve the same files and write one log; the certificate is checked."""
    assert server.tls_port is not None
    trusting = ssl.create_default_context(cafile=server.authority)
    server.behave(Behaviour())

    with closing(HTTPSConnection("127.0.0.1", server.tls_port, context=trusting)) as client:
        assert get(client)[1] == CONTENT
    distrusting = HTTPSConnection("127.0.0.1", server.tls_port, context=ssl.create_default_context())
    with closing(distrusting) as client, pytest.raises(ssl.SSLCertVerificationError):
        get(client)

    assert [row.path for row in server.log().requests] == ["/a.tif"]


@in_loop
async def test_paced_link_takes_turns() -> None:
    """A long body does not keep a short one waiting until it is through."""
    done: list[str] = []

    link, end = PacedLink(bytes_per_s=1e8), asyncio.Event()

    def note_the_end() -> None:
        done.append("long")
        end.set()

    link.send(bytes(1_000_000), lambda _: True, note_the_end)
    link.send(bytes(100_000), lambda _: True, lambda: done.append("short"))
    await end.wait()

    assert done == ["short", "long"]


@in_loop
async def test_paced_link_drops_what_nobody_listens_to() -> None:
    """A closed connection's rest takes no bandwidth from the others."""
    sizes: list[int] = []
    done: list[str] = []

    def refuse(piece: bytes | memoryview) -> bool:
        sizes.append(len(piece))
        return False

    PacedLink(bytes_per_s=1.0).send(bytes(10_000_000), refuse, lambda: done.append("told"))

    assert len(sizes) == 1
    assert done == ["told"]
