"""The benchmark's server speaks TLS to who trusts it, and keeps to a bandwidth."""

import asyncio
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

import pytest

from benchmarks.loopback_server import Behaviour, LoopbackServer, run_server
from benchmarks.paced_link import PacedLink

CONTENT = bytes(range(256)) * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackServer]:
    """One server, with TLS, for all tests below; each sets the behaviour that it wants."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "a.tif").write_bytes(CONTENT)
    with run_server(folder, tls=True) as running:
        yield running


def fetch(connection: HTTPConnection, path: str = "/a.tif") -> bytes:
    """Send one GET."""
    with closing(connection):
        connection.request("GET", path)
        return connection.getresponse().read()


def test_server_answers_by_tls_and_without(server: LoopbackServer) -> None:
    """Both ports serve the same files and write one log."""
    assert server.tls_port is not None
    trusting = ssl.create_default_context(cafile=server.authority)
    server.behave(Behaviour())

    by_tls = fetch(HTTPSConnection("127.0.0.1", server.tls_port, context=trusting))
    plain = fetch(HTTPConnection("127.0.0.1", server.port), "/0/a.tif")

    assert by_tls == plain == CONTENT
    assert [row.path for row in server.log().requests] == ["/a.tif", "/0/a.tif"]


def test_server_is_refused_by_who_does_not_trust_its_authority(server: LoopbackServer) -> None:
    """What is measured by TLS is measured with the certificate checked."""
    assert server.tls_port is not None

    with pytest.raises(ssl.SSLCertVerificationError):
        fetch(HTTPSConnection("127.0.0.1", server.tls_port, context=ssl.create_default_context()))


def test_server_shares_its_bandwidth_between_connections(server: LoopbackServer) -> None:
    """Four bodies together take as long as their bytes at that rate, and all arrive whole."""
    rate = 4 * len(CONTENT) / 0.2
    server.behave(Behaviour(bytes_per_s=rate))
    began = time.monotonic()

    with ThreadPoolExecutor(4) as threads:
        bodies = list(threads.map(lambda _: fetch(HTTPConnection("127.0.0.1", server.port)), range(4)))
    took_s = time.monotonic() - began

    assert bodies == [CONTENT] * 4
    assert took_s >= 0.15  # the last piece of each is not waited for


def test_paced_link_takes_turns() -> None:
    """A long body does not keep a short one waiting until it is through."""
    done: list[str] = []

    async def send_both() -> None:
        link = PacedLink(bytes_per_s=1e8)
        ends = asyncio.Event(), asyncio.Event()

        def note(name: str, end: asyncio.Event) -> None:
            done.append(name)
            end.set()

        link.send(bytes(1_000_000), lambda _: True, lambda: note("long", ends[0]))
        link.send(bytes(100_000), lambda _: True, lambda: note("short", ends[1]))
        for end in ends:
            await end.wait()

    asyncio.run(send_both())

    assert done == ["short", "long"]


def test_paced_link_drops_what_nobody_listens_to() -> None:
    """A closed connection's rest takes no bandwidth from the others."""
    pieces: list[int] = []
    done: list[str] = []

    def refuse(piece: bytes | memoryview) -> bool:
        pieces.append(len(piece))
        return False

    async def send() -> None:
        PacedLink(bytes_per_s=1.0).send(bytes(10_000_000), refuse, lambda: done.append("told"))

    asyncio.run(send())

    assert len(pieces) == 1
    assert done == ["told"]


def test_paced_link_goes_on_when_the_next_answer_is_sent_at_once(tmp_path: Path) -> None:
    """One kept connection gets answer after answer, as a client that reads file after file does."""
    (tmp_path / "a.tif").write_bytes(CONTENT)
    with (
        run_server(tmp_path) as server,
        closing(HTTPConnection("127.0.0.1", server.port, timeout=10)) as client,
    ):
        server.behave(Behaviour(bytes_per_s=1e8))
        for _ in range(3):
            client.request("GET", "/a.tif")
            assert client.getresponse().read() == CONTENT
