"""A store of files over HTTP/1.1 on 127.0.0.1, slow or faulty on demand, in a process of its own.

``/anything/name`` is the file ``name`` of the folder, so that one file has as many addresses as a test wants.
What the process does stands in ``serving.py``.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Final, NamedTuple, Self

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

    connection_bytes_per_s: float | None = None
    """Bandwidth of each connection by itself, within what all share; None for as fast as it goes."""

    max_rate: float | None = None
    """Requests per second above which the answer is 503; a tenth of a second's worth may come at once."""

    faults: dict[str, Fault] = field(default_factory=dict)
    """By path, from its slash on."""

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """Restore what ``json.dumps(asdict(behaviour))`` wrote."""
        values = json.loads(content)
        return cls(**values | {"faults": {path: Fault(**fault) for path, fault in values["faults"].items()}})


class LoggedRequest(NamedTuple):
    """One request that was answered."""

    method: str
    path: str
    range: str | None
    status: int


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
    """The certificate that clients of the TLS port are to trust; see `certificates.trusting`."""

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
        self._control("PUT", json.dumps(asdict(behaviour)))

    def log(self) -> ServerLog:
        """Return what happened since ``behave``."""
        values = json.loads(self._control("GET"))
        return ServerLog(**values | {"requests": tuple(LoggedRequest(*row) for row in values["requests"])})

    def _control(self, method: str, body: str | None = None) -> bytes:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request(method, CONTROL, body)
            return connection.getresponse().read()


@contextmanager
def run_server(folder: Path, *, tls: bool = False) -> Iterator[LoopbackServer]:
    """Serve a folder from another process until the block ends, with ``tls`` on a second port as well."""
    if not tls:
        with _serve(folder, []) as ports:
            yield LoopbackServer(int(ports[0]))
        return
    from benchmarks.certificates import AUTHORITY, SERVER, make_certificates  # noqa: PLC0415 # few want it

    with tempfile.TemporaryDirectory() as certificates:
        make_certificates(Path(certificates))
        with _serve(folder, ["--certificate", f"{certificates}/{SERVER}"]) as ports:
            yield LoopbackServer(int(ports[0]), int(ports[1]), Path(certificates, AUTHORITY))


@contextmanager
def _serve(folder: Path, options: list[str]) -> Iterator[list[bytes]]:
    command = [sys.executable, "-m", "benchmarks.serving", str(folder), *options]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    # it ends when its standard input does, so that it outlives no parent
    with subprocess.Popen(  # noqa: S603 # our own module
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise AssertionError
        yield process.stdout.readline().split()
        process.stdin.close()
