"""moto's S3 server on loopback. It records every request."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

import boto3
import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from support.local_server import in_thread

REGION: Final = "eu-central-1"


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

    paid: str | None = None
    """Bucket whose readers pay. Requests that do not say so are refused."""

    _moto: Any = field(default_factory=_Moto)

    @cached_property
    def client(self) -> Any:
        """boto3's client of the server."""
        return boto3.client("s3", endpoint_url=self.endpoint, region_name=REGION)

    def __call__(self, environment: dict[str, Any], start: Any) -> Iterable[bytes]:
        """Answer one request by moto."""
        if self.denied is not None and environment["PATH_INFO"].endswith(self.denied):
            start("403 Forbidden", [])
            return [b""]
        is_paid = environment["PATH_INFO"].split("/")[1] == self.paid
        if is_paid and environment.get("HTTP_X_AMZ_REQUEST_PAYER") != "requester":
            start("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"]
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

    def upload(self, folder: Path, bucket: str, prefix: str) -> None:
        """Put all files of a folder below a prefix."""
        for path in (each for each in folder.rglob("*") if each.is_file()):
            self.client.upload_file(str(path), bucket, f"{prefix}/{path.relative_to(folder)}")

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
    reset = Request(f"{found.endpoint}/moto-api/reset", method="POST")  # noqa: S310 # our own server
    with server, in_thread(server):
        try:
            urlopen(reset).close()  # noqa: S310 # as above; moto is one for all tests
            found.forget()
            yield found
        finally:
            urlopen(reset).close()  # noqa: S310 # as above


@contextmanager
def s3_with(*buckets: str) -> Iterator[CountedS3]:
    """Serve new buckets. The environment has the Region, and credentials as any that this server takes."""
    with pytest.MonkeyPatch.context() as patch, counted_s3() as found:
        for name, value in (("ACCESS_KEY_ID", "x"), ("SECRET_ACCESS_KEY", "y"), ("REGION", REGION)):
            patch.setenv(f"AWS_{name}", value)
        for bucket in buckets:
            found.client.create_bucket(
                Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION}
            )
        yield found
