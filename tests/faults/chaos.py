"""Gathers over an S3 that misbehaves, by workers that are killed at random: the cube is that of a calm run.

Every tenth request fails in some way: 503, 500, a connection that breaks before the request is done, after
it, or within the body, a late answer, no answer. Two processes gather the same cube beside each other. Each
is killed after a random time and started again, for a while.
"""

import argparse
import hashlib
import io
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Final, Literal, override
from unittest.mock import patch
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import numpy as np
import tifffile
import urllib3
import xarray as xr
from obstore.store import S3Store
from zarr.storage import ObjectStore

from pixel_gather import Settings, StoreSettings, gather
from pixel_gather.core.errors import GatherError
from pixel_gather.core.model.status import Status
from support.appends import CLOCKS, equal_but_for_clocks
from support.forked_commands import forking

ACCOUNT: Final = "devstoreaccount1"
"""Of Azure. Azurite has it, too."""

_SIDE: Final = 64
_SHARD_ROWS: Final = 64
_FAILING: Final = 0.1
_HANGS_S: Final = 3.0
_COSTS: Final = ("requests", "retries", "bytes", "header_bytes")
SAME: Final = "the same cube"
OTHER_PIXELS: Final = "ANOTHER CUBE"
_WAYS: Final = ("503", "500", "reset", "lost", "cut", "late", "hang")
_OF_CONNECTION: Final = {"connection", "keep-alive", "transfer-encoding", "expect"}
_MODIFIED: Final = "Thu, 01 Jan 2026 00:00:00 GMT"


type Answer = tuple[int, bytes, dict[str, str]]
"""Status, body and headers."""

type Cloud = Literal["s3", "gs", "az"]
"""How a store is asked, by the scheme of addresses."""

type PassOn = Callable[[str, str, dict[str, str], bytes], Answer]
"""Has another store answer a request. Takes its method, path, headers and body."""


@dataclass
class ChaosStore:
    """The objects of all buckets, and how requests to them fail.

    It is asked as S3, as Google Cloud Storage, or as Azure.
    """

    chance: random.Random
    failing: float
    """Share of the requests that fail."""

    objects: dict[str, bytes] = field(default_factory=dict)
    """By ``bucket/key``."""

    generations: Counter[str] = field(default_factory=Counter)
    """How often each object was written. Google compares this, where the others compare ETags."""

    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)
    """Parts of uploads, by their ids."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    counts: Counter[str] = field(default_factory=Counter)

    hangs_s: float = _HANGS_S
    """How long a request gets no answer. Longer than its sender waits."""

    pass_on: PassOn | None = None
    """For a store that has no objects of its own."""

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


def etag_of(content: bytes) -> str:
    """Return the ETag that S3 gives to content."""
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


@contextmanager
def serving(store: ChaosStore, cloud: Cloud = "s3") -> Iterator[str]:
    """Serve on loopback. Yields the endpoint."""
    from faults.azure_blobs import AzureHandler  # noqa: PLC0415 # it imports this module

    class Handler(AzureHandler if cloud == "az" else S3Handler):  # type: ignore[misc] # one of them
        there = store

    server = _Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that were killed."""


class S3Handler(BaseHTTPRequestHandler):
    """As much of S3 as a gather needs, and of Google Cloud Storage, whose XML is the same."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    there: ChaosStore

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
        headers = self._told(path, content) | {"Last-Modified": _MODIFIED}
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


def passing_on(endpoint: str, *, ca_certs: str | None = None) -> PassOn:
    """Return what has the store at an endpoint answer requests.

    Args:
        endpoint: Its address.
        ca_certs: PEM file of the authorities to trust; None for those of the system.
    """
    pool = urllib3.PoolManager(ca_certs=ca_certs, retries=False, maxsize=64, timeout=300)

    def pass_on(method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        answer = pool.request(
            method,
            endpoint + path,
            body=body,
            headers=_without_connection(headers),
            redirect=False,
            decode_content=False,
        )
        return answer.status, answer.data, _without_connection(answer.headers)

    return pass_on


def _without_connection(headers: Mapping[str, str]) -> dict[str, str]:
    """Leave out the headers that are about one connection."""
    return {name.title(): each for name, each in headers.items() if name.lower() not in _OF_CONNECTION}


def made_sources(n_files: int) -> dict[str, bytes]:
    """Return small GeoTIFFs of noise, by ``bucket/key``. Header and tile need a request each."""
    made: dict[str, bytes] = {}
    for index in range(n_files):
        pixels = np.random.default_rng(index).integers(1, 60_000, (_SIDE, _SIDE), "uint16")
        file = io.BytesIO()
        tifffile.imwrite(file, pixels, tile=(_SIDE, _SIDE), compression="zlib")
        made[f"sources/{index:05d}.tif"] = file.getvalue()
    return made


def layout() -> dict[str, Any]:
    """Return the part of a request that says which pixels are wanted, and how they are stored."""
    return {
        "window": {"pixels": [0, 0, _SIDE, _SIDE]},
        "output": {"layout": {"chunk": [16, _SIDE, _SIDE], "shard_rows": _SHARD_ROWS}},
    }


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


@patch.dict(os.environ)
def work(endpoint: str, n_files: int, patience: float = 1.0, cloud: Cloud = "s3") -> None:
    """Gather the cube in this process, as `pixel-gather run` does. It waits ``patience`` times as long."""
    os.environ.update(variables(cloud, endpoint))
    gather(
        {"sources": [f"{cloud}://sources/{index:05d}.tif" for index in range(n_files)], **layout()},
        to=f"{cloud}://cubes/chaos.zarr",
        settings=Settings(
            stores=StoreSettings(
                first_byte_timeout_s=2.0 * patience,
                stall_timeout_s=2.0 * patience,
                write_timeout_s=10.0 * patience,
                first_backoff_s=0.02,
            ),
            header_nbytes=512,
            draws_report=False,
        ),
    )


def _work_quietly(endpoint: str, n_files: int, patience: float, cloud: Cloud) -> None:
    """Gather. Say in one line why it failed."""
    try:
        work(endpoint, n_files, patience, cloud)
    except GatherError as error:
        sys.stderr.write(f"  {type(error).__name__}: {str(error)[:150]}\n")
        sys.exit(1)


@dataclass(kw_only=True)
class ChaosRun:
    """What happened in a run."""

    seconds: float
    n_started: int
    """Processes, or executions of the state machine."""

    n_killed: int
    """Processes."""

    n_failed: int
    """Processes that ended with an error, or tries of the state machine that failed."""

    requests: Counter[str]
    cube: xr.Dataset
    shards: dict[str, bytes]
    """The shards of pixels, by their keys."""


def run(
    n_files: int,
    *,
    seed: int,
    failing: float,
    n_kills: int,
    sources: dict[str, bytes],
    longest_s: float = 900.0,
    patience: float = 1.0,
    cloud: Cloud = "s3",
) -> ChaosRun:
    """Gather until a process ends well.

    Args:
        n_files: Number of sources.
        seed: Seed of everything that is random here. The order of requests is not.
        failing: Share of the requests that fail.
        n_kills: Most processes that are killed.
        sources: From `made_sources`.
        longest_s: Seconds after which the run is given up.
        patience: How many times as long requests are waited for. More than 1 on a machine that is busy.
        cloud: How the store is asked.

    Raises:
        TimeoutError: It does not end.
    """
    hangs_s = _HANGS_S * patience
    store = ChaosStore(random.Random(seed), failing, dict(sources), hangs_s=hangs_s)  # noqa: S311 # no secret
    chance = random.Random(-seed)  # noqa: S311 # as above
    began_s = time.monotonic()
    n_started = n_killed = n_failed = 0
    working: dict[ForkServerProcess, float] = {}
    context = forking()
    with serving(store, cloud) as endpoint:
        while True:
            while len(working) < (1 if not n_kills else 2):
                process = context.Process(
                    target=_work_quietly, args=(endpoint, n_files, patience, cloud), daemon=True
                )
                process.start()
                n_started += 1
                working[process] = time.monotonic() + chance.random() * 12
            time.sleep(0.05)
            ended = [each for each in working if not each.is_alive()]
            if any(each.exitcode == 0 for each in ended):
                break
            for each in ended:
                del working[each]
                n_failed += each.exitcode != -9
            for each, until_s in list(working.items()):
                if n_killed < n_kills and time.monotonic() > until_s:
                    each.kill()
                    n_killed += 1
                    working[each] = float("inf")
            if time.monotonic() - began_s > longest_s:
                raise TimeoutError(f"seed {seed} does not end: {store.counts}")
        for each in working:  # the last one may still be writing
            each.join(60)
            each.kill()
        seconds, store.failing = time.monotonic() - began_s, 0.0
    with serving(store) as endpoint:
        cube = opened(endpoint)
    shards = {path: content for path, content in store.objects.items() if "/band_1/c/" in path}
    return ChaosRun(
        seconds=seconds,
        n_started=n_started,
        n_killed=n_killed,
        n_failed=n_failed,
        requests=store.counts,
        cube=cube,
        shards=shards,
    )


def opened(endpoint: str) -> xr.Dataset:
    """Return the cube, as any reader finds it."""
    client: Any = {"allow_http": True}
    cubes = S3Store(
        "cubes",
        prefix="chaos.zarr",
        endpoint=endpoint,
        region="us-east-1",
        skip_signature=True,
        client_options=client,
    )
    opened: xr.Dataset = xr.open_zarr(ObjectStore(cubes, read_only=True), chunks=None).load()
    return opened


def main() -> int:
    """Run some seeds and tell what happened. Return 1 if a cube differs from that of a calm run."""
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    parser.add_argument("--files", type=int, default=1278)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--longest", type=float, default=900.0, help="seconds after which a run is given up")
    parser.add_argument("--evidence", type=Path, default=Path(".chaos"), help="folder for what differs")
    parser.add_argument("--patience", type=float, default=1.0, help="more than 1 on a busy machine")
    parser.add_argument("--cloud", choices=("s3", "gs", "az"), default="s3", help="how the store is asked")
    parser.add_argument("--stack", action="store_true", help="gather on the emulated stack")
    parser.add_argument(
        "--stops", action="store_true", help="stop processes while a cube grows: see --stops -h"
    )
    if "--stops" in sys.argv:
        from faults.stopped import main as main_with_stops  # noqa: PLC0415 # it imports this module

        return main_with_stops([each for each in sys.argv[1:] if each != "--stops"])
    given = parser.parse_args()
    sources = made_sources(given.files)
    if not given.stack:
        patiently = partial(run, given.files, sources=sources, patience=given.patience, cloud=given.cloud)
        return _compare(given, partial(patiently, longest_s=given.longest))
    from faults.chaos_on_stack import stack_under_faults  # noqa: PLC0415 # the emulator is only for it

    with stack_under_faults(sources) as stack:
        return _compare(given, partial(stack.run, longest_s=given.longest))


def _compare(given: argparse.Namespace, run_one: Callable[..., ChaosRun]) -> int:
    calm = run_one(seed=0, failing=0.0, n_kills=0)
    _tell("calm run", calm, "")
    n_different = 0
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        stormy = run_one(seed=seed, failing=_FAILING, n_kills=given.kills)
        told = difference(stormy.cube, calm.cube)
        n_different += not told.endswith(SAME)
        _tell(f"seed {seed}", stormy, told)
        if lines := [*evidence(stormy.cube, calm.cube), *other_shards(stormy, calm, given.evidence)]:
            given.evidence.mkdir(exist_ok=True)
            text = "\n".join(lines) + "\n"
            (given.evidence / f"seed-{seed}.txt").write_text(text)
            sys.stderr.write(text)
    return int(n_different > 0)


def difference(one: xr.Dataset, other: xr.Dataset) -> str:
    """Say how two cubes differ in their pixels and coordinates, apart from what reading cost.

    A source that cannot be read in all of its tries is no difference if its row is empty and says so.
    """
    left, right = (_without_costs(each) for each in (one, other))
    read = left["status"].values == right["status"].values
    told = f"{int((~read).sum())} rows say why they were not read; " if not read.all() else ""
    if left["band_1"].values[~read].any():
        return "A ROW THAT WAS NOT READ HAS PIXELS"
    rows = dict.fromkeys(left["band_1"].dims[:1], np.flatnonzero(read))
    return told + (SAME if equal_but_for_clocks(left.isel(rows), right.isel(rows)) else OTHER_PIXELS)


def evidence(one: xr.Dataset, other: xr.Dataset) -> Iterator[str]:
    """Yield a line for each row that differs, with statuses and digests, and for each coordinate."""
    left, right = (_without_costs(each) for each in (one, other))
    along = left["band_1"].dims[0]
    for row, (mine, theirs) in enumerate(zip(left["band_1"].values, right["band_1"].values, strict=True)):
        statuses = [Status(int(each["status"].values[row])).name for each in (left, right)]
        if statuses[0] != statuses[1] or not np.array_equal(mine, theirs):
            digests = _digest(mine), _digest(theirs)
            yield f"  row {row}: {' instead of '.join(statuses)}, pixels {' instead of '.join(digests)}"
    for name in left.variables:
        values = [each[name].values for each in (left, right)]
        if name not in CLOCKS and left[name].dims[:1] == (along,) and values[0].shape == values[1].shape:
            differ = np.array([repr(a) != repr(b) for a, b in zip(*values, strict=True)])
            if differ.any():
                yield f"  {name} differs in rows {np.flatnonzero(differ).tolist()}"


def other_shards(one: ChaosRun, other: ChaosRun, folder: Path) -> Iterator[str]:
    """Yield a line for each shard that has other bytes. Keep both in a folder."""
    for key, content in sorted(one.shards.items()):
        if content != (theirs := other.shards.get(key, b"")):
            folder.mkdir(exist_ok=True)
            paths = [folder / f"{etag_of(each).strip('"')}.shard" for each in (content, theirs)]
            for path, each in zip(paths, (content, theirs), strict=True):
                path.write_bytes(each)
            yield f"  {key} has other bytes: {paths[0]} instead of {paths[1]}"


def _without_costs(cube: xr.Dataset) -> xr.Dataset:
    return cube.drop_vars([name for name in _COSTS if name in cube])


def _digest(pixels: np.ndarray[Any, Any]) -> str:
    if not pixels.any():
        return "of zeros"
    return hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest()[:12]


def _tell(name: str, done: ChaosRun, verdict: str) -> None:
    failed = done.requests.total() - done.requests["well"]
    sys.stderr.write(
        f"{name}: {done.seconds:.0f} s, {done.requests.total()} requests, {failed} of them failed, "
        f"{done.n_started} started, {done.n_killed} processes killed, {done.n_failed} failed. "
        f"{verdict}\n"
    )
