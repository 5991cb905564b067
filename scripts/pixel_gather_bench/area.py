"""Figures of the area service: links of a box for many clients, one search, and folders listed by a pool."""

import http
import json
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, override
from urllib.parse import parse_qs, urlsplit

import urllib3
from msgspec import Struct

from pixel_gather.core.area import Area
from pixel_gather.core.errors import GatherError
from pixel_gather.core.request.href_policy import IN_PROCESS
from pixel_gather.core.scenes.catalog_query import SceneQuery
from pixel_gather.core.scenes.item import asset_hrefs
from pixel_gather.io.event_loop import open_runner, run
from pixel_gather.io.scenes.expand_folders import FolderPool
from pixel_gather.io.scenes.open_folder import Folders
from pixel_gather.io.scenes.search_own_catalog import Catalog
from pixel_gather.io.store.store_settings import StoreSettings

# What was published in 2017 (student project, Copenhagen; Go on Google App Engine).
PUBLISHED_BOX: Final = (12.584670, 55.660797, 12.5896, 55.663369)
"""West, south, east, north of the published profile."""

N_FOLDERS: Final = 120
N_IMAGES: Final = 13
"""Images in one folder. 120 folders have 1,560 links; the published answer had 1,563."""

LISTING_S: Final = 0.45

PUBLISHED_CLIENTS: Final = {
    1: "1 m 20.55 s (fastest 1 m 0 s), 383.85 KB, 0.01 requests/s, 4.77 KB/s",
    10: "10 requests in 1 m 7.21 s, 3.75 MB, 0.15 requests/s, 57.11 KB/s, slowest 1 m 9.66 s, 0 errors",
    32: "32 requests in 1 m 19.40 s, 12.00 MB, 0.40 requests/s, 154.70 KB/s, slowest 1 m 19.80 s, 0 errors",
}
PUBLISHED_MORE_CLIENTS: Final = "panics, no result"

PUBLISHED_POINT: Final = "3.50 s, 599,168 B, 2,822 allocations"
PUBLISHED_AREA: Final = (
    "58.64 s, 26,090,912 B, 100,953 allocations; under the profiler 51.63 s, 25,672,448 B, 100,619"
)
PUBLISHED_HEAP: Final = (
    "the link's concatenation 512.12 kB of 1.08 MB (46 %); with strings reused 70 s became 50 s"
)
PUBLISHED_SEQUENTIAL: Final = "around 60 s for 1,500 links"
PUBLISHED_POOL: Final = "less than 3 s"


class Load(Struct, frozen=True, kw_only=True):
    """The result of one request by each client."""

    n_clients: int
    n_errors: int
    n_links: int
    """Links in all answers together."""

    nbytes: int
    wall_s: float
    fastest_s: float
    slowest_s: float


async def find_links(catalog: Catalog, area: Area) -> list[str]:
    """Return the links of all scenes of an area."""
    found = catalog.scenes(SceneQuery(area=area), n_expected=10_000)
    return [href async for _, item in found for _, href in asset_hrefs(item)]


def measure_load(url: str, n_clients: int) -> Load:
    """Send one request from each client, all at one time.

    The answer of the address is a JSON array of links. Each client has a connection of its own.
    """
    start = threading.Barrier(n_clients + 1)

    def ask(_: int) -> tuple[float, int, int] | None:
        with urllib3.PoolManager(retries=False) as client:
            start.wait()
            began = time.perf_counter()
            try:
                answer = client.request("GET", url, timeout=300)
            except urllib3.exceptions.HTTPError:
                return None
            seconds = time.perf_counter() - began
            is_good = answer.status == http.HTTPStatus.OK
            return (seconds, len(answer.data), len(answer.json())) if is_good else None

    with ThreadPoolExecutor(n_clients) as clients:
        asked = clients.map(ask, range(n_clients))
        start.wait()
        began = time.perf_counter()
        found = [each for each in asked if each is not None]
    wall_s = time.perf_counter() - began
    if not found:
        raise GatherError(f"none of {n_clients} clients had an answer")
    return Load(
        n_clients=n_clients,
        n_errors=n_clients - len(found),
        n_links=sum(n for _, _, n in found),
        nbytes=sum(nbytes for _, nbytes, _ in found),
        wall_s=wall_s,
        fastest_s=min(seconds for seconds, _, _ in found),
        slowest_s=max(seconds for seconds, _, _ in found),
    )


@contextmanager
def serving(answer: Callable[[str], bytes]) -> Iterator[int]:
    """Serve on loopback what a function answers to a path; gives the port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:  # the base class's name for it
            content = answer(self.path)
            self.send_response(http.HTTPStatus.OK)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Keep quiet."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 1024
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def answerer(catalog: Catalog, area: Area) -> Callable[[str], bytes]:
    """Return what answers any path, one search after another, as one warm function does."""
    lock, runner = threading.Lock(), open_runner()

    def answer(_: str) -> bytes:
        with lock:
            found = runner.run(find_links(catalog, area))
            return json.dumps(found, separators=(",", ":")).encode()

    return answer


def measure_pool(folders: Folders, n_workers: int) -> tuple[float, int]:
    """Return the seconds that listing all folders takes, and how many links were found."""
    scenes = [
        {"assets": {"images": {"href": f"s3://folders/granule-{n}/IMG_DATA/"}}} for n in range(N_FOLDERS)
    ]
    pool = FolderPool(open_=folders.open_, n_listings=n_workers)
    began = time.perf_counter()
    found = run(pool.with_images(scenes))
    links = [href for scene in found for _, href in asset_hrefs(scene) if not href.endswith("/")]
    return time.perf_counter() - began, len(links)


@contextmanager
def slow_store(listing_s: float = LISTING_S) -> Iterator[Folders]:
    """Serve a bucket. Each listing takes as long as the published ones did."""

    def answer(path: str) -> bytes:
        time.sleep(listing_s)
        return _listing(parse_qs(urlsplit(path).query)["prefix"][0]).encode()

    with serving(answer) as port:
        reached = StoreSettings(endpoint=f"http://127.0.0.1:{port}", region="eu-central-1", unsigned=True)
        yield Folders(policy=IN_PROCESS, settings_of=lambda _: reached)


def _listing(folder: str) -> str:
    images = "".join(
        f"<Contents><Key>{folder}B{band:02}.jp2</Key><LastModified>2017-11-01T00:00:00.000Z</LastModified>"
        "<Size>1</Size></Contents>"
        for band in range(1, N_IMAGES + 1)
    )
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{images}</ListBucketResult>"


_N_TIMED: Final = 20
_N_SITES: Final = 5


class Request(Struct, frozen=True, kw_only=True):
    """What one request took."""

    n_links: int
    seconds: float
    """Median of 20 requests in a warm process. Writing JSON is included, tracing is not."""

    peak_nbytes: int
    n_held: int
    """Blocks of memory that the answer holds."""

    sites: tuple[str, ...]
    """The five lines that hold most of them."""


def measure_request(catalog: Catalog, area: Area) -> Request:
    """Search for an area. The time is measured first, the memory after it."""
    with open_runner() as runner:
        times = []
        for _ in range(_N_TIMED):
            began = time.perf_counter()
            json.dumps(runner.run(find_links(catalog, area)))
            times.append(time.perf_counter() - began)
        tracemalloc.start()
        found = runner.run(find_links(catalog, area))
        text = json.dumps(found)
        _, peak = tracemalloc.get_traced_memory()
        held = tracemalloc.take_snapshot().statistics("lineno")
        tracemalloc.stop()
    sites = tuple(
        f"{each.traceback[0].filename.rpartition('/')[2]}:{each.traceback[0].lineno} {each.size:,} B"
        for each in held[:_N_SITES]
    )
    return Request(
        n_links=len(json.loads(text)),
        seconds=sorted(times)[_N_TIMED // 2],
        peak_nbytes=peak,
        n_held=sum(each.count for each in held),
        sites=sites,
    )
