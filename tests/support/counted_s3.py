"""moto's S3 server on loopback. It records every request."""

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.request import Request, urlopen

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


class _Moto(DomainDispatcherApplication):
    """moto's application. moto looks into its folder twice at each request; here, once for each service."""

    def __init__(self) -> None:
        super().__init__(create_backend_app)
        self._backends: dict[str | None, Any] = {}

    def get_backend_for_host(self, host: str | None) -> Any:
        """Return the name of the service that answers for a host."""
        if host not in self._backends:
            self._backends[host] = super().get_backend_for_host(host)
        return self._backends[host]


@dataclass
class CountedS3:
    """A running server."""

    endpoint: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Method and path with query of each request."""

    ranges: list[tuple[str, int, int]] = field(default_factory=list)
    """Path, first byte and the byte after the last of each GET of a range that names both."""

    signed: set[tuple[str, str]] = field(default_factory=set)
    """Access key and session token of requests; empty texts of those without."""

    sent_nbytes: int = 0
    """Bytes of all answers' bodies."""

    received_nbytes: int = 0
    """Bytes of all requests' bodies."""

    denied: str | None = None
    """End of the paths that are refused, as S3 refuses whoever may not read them."""

    def __call__(self, environment: dict[str, Any], start: Any) -> Iterable[bytes]:
        """Answer one request by moto."""
        if self.denied is not None and environment["PATH_INFO"].endswith(self.denied):
            start("403 Forbidden", [])
            return [b""]
        query = environment.get("QUERY_STRING", "")
        path = environment["PATH_INFO"] + (f"?{query}" if query else "")
        self.asked.append((environment["REQUEST_METHOD"], path))
        key = environment.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].partition("/")[0]
        self.signed.add((key, environment.get("HTTP_X_AMZ_SECURITY_TOKEN", "")))
        if range_ := environment.get("HTTP_RANGE"):
            first, _, last = range_.removeprefix("bytes=").partition("-")
            if first and last:  # others begin, or end, with the object
                self.ranges.append((environment["PATH_INFO"], int(first), int(last) + 1))
        self.received_nbytes += int(environment.get("CONTENT_LENGTH") or 0)
        body = b"".join(self._moto(environment, start))
        self.sent_nbytes += len(body) if environment["REQUEST_METHOD"] != "HEAD" else 0
        return [body]

    def __post_init__(self) -> None:
        """Make moto's application."""
        self._moto: Any = _Moto()

    def forget(self) -> None:
        """Count from 0 again."""
        self.asked.clear()
        self.ranges.clear()
        self.signed.clear()
        self.sent_nbytes = self.received_nbytes = 0


@contextmanager
def counted_s3() -> Iterator[CountedS3]:
    """Serve on loopback until the context ends. The store is empty at the start and at the end."""
    found = CountedS3()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, found, threaded=True)
    found.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    reset = Request(f"{found.endpoint}/moto-api/reset", method="POST")  # noqa: S310 # our own server
    try:
        urlopen(reset).close()  # noqa: S310 # as above; moto is one for all tests
        found.forget()
        yield found
    finally:
        urlopen(reset).close()  # noqa: S310 # as above
        server.shutdown()
        server.server_close()
        thread.join()
