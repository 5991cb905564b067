"""A store of files over HTTP/1.1 on 127.0.0.1, slow or faulty on demand, in a process of its own.

``/anything/name`` is the file ``name`` of the folder, so that one file has as many addresses as a test wants.
A folder with folders in it is served as it is.
What the process does stands in ``serving.py``.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

CONTROL: Final = "/-"
"""PUT sets the behaviour and empties the log; GET returns the log and the server's own CPU time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong with the next requests of one path: a status instead, or trouble amid the body."""

    times: int = 1
    """How many requests it strikes; later ones are answered well."""

    status: int | None = None
    """Answer with this status and no body."""

    stop_at: int = 0
    """Without a status: bytes of the body sent before the trouble."""

    stall_s: float | None = None
    """Be silent for so long after those bytes, then send the rest; None resets the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How the server answers from now on."""

    ttfb_s: float = 0.0
    """Delay before each response's first byte."""

    slow_share: float = 0.0
    """This share of the responses, drawn with ``seed``, is late by ``slow_s`` more."""

    slow_s: float = 0.0
    seed: int = 0
    bytes_per_s: float | None = None
    """Bandwidth that all connections share, or None for as fast as it goes."""

    max_rate: float | None = None
    """Requests per second above which the answer is 503; a tenth of a second's worth may come at once."""

    faults: dict[str, Fault] = field(default_factory=dict)
    """By path, from its slash on."""


class LoggedRequest(NamedTuple):
    """One request that was answered."""

    method: str
    path: str
    range: str | None
    status: int

    @property
    def range_nbytes(self) -> int:
        """Bytes that were asked for; 0 without a range of a first and a last byte."""
        first, _, last = (self.range or "").removeprefix("bytes=").partition("-")
        return int(last) + 1 - int(first) if first and last else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLog:
    """What happened since the behaviour was last set."""

    requests: tuple[LoggedRequest, ...]
    """In the order of arrival."""

    n_connections: int
    cpu_s: float
    """User and system time of the server's process."""


@dataclass(frozen=True, slots=True)
class LoopbackServer:
    """A running server, as a test or benchmark sees it."""

    port: int
    tls_port: int | None = None
    authority: Path | None = None
    """The certificate that clients of the TLS port are to trust."""

    @property
    def url(self) -> str:
        """Address of the folder, without a slash at its end."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def tls_url(self) -> str:
        """As ``url``, by TLS; the server was run with ``tls``."""
        return f"https://127.0.0.1:{self.tls_port}"

    def behave(self, behaviour: Behaviour) -> None:
        """Answer like this from now on, and start an empty log."""
        self._control("PUT", msgspec.json.encode(behaviour))

    def log(self) -> ServerLog:
        """Return what happened since ``behave``."""
        return msgspec.json.decode(self._control("GET"), type=ServerLog)

    def _control(self, method: str, body: bytes | None = None) -> bytes:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request(method, CONTROL, body)
            return connection.getresponse().read()


@contextmanager
def run_server(folder: Path, *, tls: bool = False) -> Iterator[LoopbackServer]:
    """Serve a folder from another process until the block ends, with ``tls`` on a second port as well."""
    if not tls:
        with _serving(str(folder)) as (port,):
            yield LoopbackServer(port)
        return
    from pixel_gather_emulator.certificates import write_certificates  # noqa: PLC0415 # few want it

    with tempfile.TemporaryDirectory() as temporary:
        made = write_certificates(Path(temporary), {})
        pair = Path(temporary, "pair.pem")
        pair.write_bytes(made.key.read_bytes() + made.certificate.read_bytes())
        with _serving(str(folder), "--certificate", str(pair)) as (port, tls_port):
            yield LoopbackServer(port, tls_port, made.bundle)


@contextmanager
def _serving(*arguments: str) -> Iterator[list[int]]:
    """Run the server, and yield the ports that it prints. It ends with its standard input."""
    command = [sys.executable, "-m", "benchmarks.serving", *arguments]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(  # noqa: S603 # our own module
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield [int(port) for port in process.stdout.readline().split()]
        process.stdin.close()
