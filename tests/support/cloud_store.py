"""Object stores on loopback: S3, Google Cloud Storage and Azure, over one set of objects.

PUTs are refused if their conditions do not hold. Uploads in parts have no conditions. A share of the requests
may fail, in one of seven ways.
"""

import hashlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from email.message import Message
from http.server import BaseHTTPRequestHandler
from typing import Any, Final, Literal, override
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from support.local_server import running

ACCOUNT: Final = "devstoreaccount1"
"""Of Azure. Azurite has it, too."""

MODIFIED: Final = "Thu, 01 Jan 2026 00:00:00 GMT"
"""When every object was written."""

_WAYS: Final = ("503", "500", "reset", "lost", "cut", "late", "hang")


type Answer = tuple[int, bytes, dict[str, str]]
"""Status, body and headers."""

type Cloud = Literal["s3", "gs", "az"]
"""How a store is asked, by the scheme of addresses."""

type PassOn = Callable[[str, str, dict[str, str], bytes], Answer | None]
"""Answers a request in place of the store; None leaves it to the store.

Takes the method, path, headers and body of the request.
"""


@dataclass
class CloudStore:
    """The objects of all buckets, and how requests to them fail.

    It is asked as S3, as Google Cloud Storage, or as Azure.
    """

    objects: dict[str, bytes] = field(default_factory=dict)
    """By ``bucket/key``."""

    failing: float = 0.0
    """Share of the requests that fail."""

    chance: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311 # no secret
    generations: Counter[str] = field(default_factory=Counter)
    """How often each object was written. Google compares this, where the others compare ETags."""

    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)
    """Parts of uploads, by their ids."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    counts: Counter[str] = field(default_factory=Counter)

    hangs_s: float = 3.0
    """How long a request that hangs is kept waiting. Longer than its sender waits."""

    pass_on: PassOn | None = None
    """Asked first about each request that does not fail."""

    def way(self) -> str:
        """Return how the next request fails; an empty text if it does not."""
        with self.lock:
            way = self.chance.choice(_WAYS) if self.chance.random() < self.failing else ""
            self.counts[way or "well"] += 1
        return way

    def put(self, path: str, content: bytes, asked: Mapping[str, str | None] | Message) -> bool:
        """Keep an object if the conditions in a request's headers hold. Return whether they do."""
        if_none, if_match = asked.get("If-None-Match"), asked.get("If-Match")
        generation = asked.get("x-goog-if-generation-match")
        with self.lock:
            there = self.objects.get(path)
            now = 0 if there is None else self.generations[path]
            if (
                (if_none and there is not None)
                or (if_match and (there is None or if_match != etag_of(there)))
                or (generation is not None and int(generation) != now)
            ):
                return False
            self.objects[path] = content
            self.generations[path] += 1
            return True


class DrawnOrder:
    """Draws whose request is answered next, of several writers that ask one store at the same time.

    Each writer has a server of its own. A request waits until all writers that have not ended have one
    waiting. So one is answered at a time, and the order is that of the draws.
    """

    def __init__(self, writers: Iterable[str], chance: random.Random) -> None:
        """Nobody has asked yet."""
        self.order: list[str] = []
        self._going, self._chance = set(writers), chance
        self._waiting: list[tuple[str, int]] = []
        self._n_asked = 0
        self._may_go: set[tuple[str, int]] = set()
        self._changed = threading.Condition()

    def store_of(self, writer: str, there: CloudStore) -> CloudStore:
        """Return the store as a writer asks it."""
        return replace(there, pass_on=lambda *_: self._wait(writer))

    @contextmanager
    def until_end(self, writer: str) -> Iterator[None]:
        """Wait for no request of a writer after the block."""
        try:
            yield
        finally:
            with self._changed:
                self._going.remove(writer)
                self._draw()

    def _wait(self, writer: str) -> None:
        with self._changed:
            self._n_asked += 1
            mine = writer, self._n_asked
            self._waiting.append(mine)
            self._draw()
            self._changed.wait_for(lambda: mine in self._may_go)

    def _draw(self) -> None:
        if self._waiting and self._going <= {writer for writer, _ in self._waiting}:
            drawn = self._chance.choice(sorted(self._waiting))
            self._waiting.remove(drawn)
            self._may_go.add(drawn)
            self.order.append(drawn[0])
            self._changed.notify_all()


def etag_of(content: bytes) -> str:
    """Return the ETag that S3 gives to content."""
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


@contextmanager
def serving(store: CloudStore, cloud: Cloud = "s3") -> Iterator[str]:
    """Serve on loopback. Yields the endpoint."""
    from support.azure_blobs import AzureHandler  # noqa: PLC0415 # it imports this module

    class Handler(AzureHandler if cloud == "az" else S3Handler):  # type: ignore[misc] # one of them
        there = store

    with running(Handler) as endpoint:
        yield endpoint


class S3Handler(BaseHTTPRequestHandler):
    """As much of S3 as a gather needs, and of Google Cloud Storage, whose XML is the same."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    there: CloudStore

    def do_GET(self) -> None:  # the base class's names
        """Answer a GET."""
        self._serve(self._get)

    def do_HEAD(self) -> None:
        """Answer a HEAD."""
        self._serve(self._get)

    def do_PUT(self) -> None:
        """Answer a PUT."""
        self._serve(self._put)

    def do_POST(self) -> None:
        """Answer a POST."""
        self._serve(self._post)

    def do_DELETE(self) -> None:
        """Answer a DELETE."""
        self._serve(self._delete)

    def _serve(self, act: Callable[[bytes], Answer]) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        way = self.there.way()
        if way in {"503", "500"}:
            self._send(int(way), b"<Error><Code>SlowDown</Code></Error>", {})
            return
        if way in {"late", "hang"}:
            time.sleep(self.there.hangs_s if way == "hang" else 0.2)
        answer = None if way == "reset" else self._passed_on(body) or act(body)
        if way in {"reset", "lost", "hang"} or answer is None:
            self.close_connection = True
            return
        self._send(*answer, is_cut=way == "cut")

    def _send(self, status: int, body: bytes, headers: dict[str, str], *, is_cut: bool = False) -> None:
        with suppress(ConnectionError):
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body[: len(body) // 2] if is_cut else body)
        self.close_connection = self.close_connection or is_cut

    def _passed_on(self, body: bytes) -> Answer | None:
        pass_on = self.there.pass_on
        return pass_on and pass_on(self.command, self.path, dict(self.headers), body)

    def _asked(self) -> tuple[str, dict[str, list[str]]]:
        path, query = urlsplit(self.path)[2:4]
        return unquote(path).lstrip("/"), parse_qs(query, keep_blank_values=True)

    def _get(self, body: bytes) -> Answer:
        del body
        path, query = self._asked()
        if "list-type" in query:
            return 200, self._listed(path.rstrip("/"), query), {}
        return self._read(path)

    def _read(self, path: str) -> Answer:
        content = self.there.objects.get(path)
        if content is None:
            return 404, b"<Error><Code>NoSuchKey</Code></Error>", {}
        headers = self._told(path, content) | {"Last-Modified": MODIFIED}
        if self.headers["If-Match"] not in {None, headers["ETag"]}:
            return 412, b"", {}
        if self.headers["Range"] is None:
            return 200, content, headers
        first, last = self.headers["Range"].removeprefix("bytes=").partition("-")[::2]
        start, stop = int(first or 0), min(int(last or len(content)) + 1, len(content))
        if not first:  # the last bytes
            start, stop = max(len(content) - int(last), 0), len(content)
        if start >= len(content):
            return 416, b"", {}
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(content)}"
        return 206, content[start:stop], headers

    def _listed(self, bucket: str, query: dict[str, list[str]]) -> bytes:
        objects, folders = self._below(bucket, query)
        found = [
            f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>{escape(etag_of(content))}</ETag><Size>{len(content)}</Size></Contents>"
            for key, content in objects.items()
        ]
        found += [f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in folders]
        return f"<ListBucketResult>{''.join(found)}</ListBucketResult>".encode()

    def _below(self, bucket: str, query: dict[str, list[str]]) -> tuple[dict[str, bytes], list[str]]:
        """Return the objects below a prefix by key, and the folders there if the query has a delimiter."""
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        with self.there.lock:
            objects = dict(self.there.objects)
        found, folders = {}, set()
        for path in sorted(objects):
            key = path.removeprefix(f"{bucket}/")
            if not path.startswith(f"{bucket}/") or not key.startswith(prefix):
                continue
            rest, slash, _ = key[len(prefix) :].partition(delimiter or "\0")
            if delimiter and slash:
                folders.add(f"{prefix}{rest}/")
            else:
                found[key] = objects[path]
        return found, sorted(folders)

    def _put(self, body: bytes) -> Answer:
        path, query = self._asked()
        if "uploadId" in query:
            self.there.parts[query["uploadId"][0]][int(query["partNumber"][0])] = body
            return 200, b"", {"ETag": etag_of(body)}
        is_put = self.there.put(path, body, self.headers)
        return 200 if is_put else 412, b"", self._told(path, body)

    def _told(self, path: str, content: bytes) -> dict[str, str]:
        return {"ETag": etag_of(content), "x-goog-generation": str(self.there.generations[path])}

    def _post(self, body: bytes) -> Answer:
        path, query = self._asked()
        if "uploads" in query:
            id_ = f"{len(self.there.parts)}-{random.random()}"  # noqa: S311 # no secret
            self.there.parts[id_] = {}
            return 200, f"<R><UploadId>{id_}</UploadId></R>".encode(), {}
        if "uploadId" in query:
            parts = self.there.parts[query["uploadId"][0]]
            content = b"".join(parts[number] for number in sorted(parts))
            self.there.put(path, content, {})
            return 200, f"<R><ETag>{escape(etag_of(content))}</ETag></R>".encode(), {}
        keys = [each.partition("</Key>")[0] for each in body.decode().split("<Key>")[1:]]  # ?delete
        with self.there.lock:
            for key in keys:
                self.there.objects.pop(f"{path.rstrip('/')}/{key}", None)
        told = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        return 200, f"<DeleteResult>{told}</DeleteResult>".encode(), {}

    def _delete(self, body: bytes) -> Answer:
        del body
        with self.there.lock:
            self.there.objects.pop(self._asked()[0], None)
        return 204, b"", {}

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def variables(cloud: Cloud, endpoint: str) -> dict[str, str]:
    """Return the variables by which a store at an endpoint is found, and credentials that it takes."""
    return {
        "s3": {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
        },
        "gs": {"GOOGLE_BASE_URL": endpoint, "GOOGLE_BEARER_TOKEN": "testing"},
        "az": {
            "AZURE_STORAGE_ENDPOINT": f"{endpoint}/{ACCOUNT}",
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": "dGVzdGluZw==",
        },
    }[cloud]
