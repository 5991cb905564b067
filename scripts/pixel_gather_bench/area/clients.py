"""Many clients ask a server on this machine for the links of a box, all at one time."""

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import override

from pixel_gather.core.area import Area
from pixel_gather.core.errors import GatherError
from pixel_gather.core.scenes.catalog_query import SceneQuery
from pixel_gather.core.scenes.item import asset_hrefs
from pixel_gather.io.event_loop import open_runner
from pixel_gather.io.scenes.search_own_catalog import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The result of one request by each client."""

    n_clients: int
    n_errors: int
    n_links: int
    """Links in all answers together."""

    nbytes: int
    wall_s: float
    fastest_s: float
    slowest_s: float


async def links_of(catalog: Catalog, area: Area) -> list[str]:
    """Return the links of all scenes of an area."""
    found = catalog.scenes(SceneQuery(area=area), n_expected=10_000)
    return [href async for _, item in found for _, href in asset_hrefs(item)]


async def answer_of(catalog: Catalog, area: Area) -> bytes:
    """Return the answer of ``GET /area``."""
    return json.dumps(await links_of(catalog, area), separators=(",", ":")).encode()


def measure_load(url: str, n_clients: int) -> Load:
    """Send one request from each client, all at one time.

    Args:
        url: An address with ``http``. Its answer is a JSON array of links.
        n_clients: Clients, each with a connection of its own.
    """
    host, _, path = url.removeprefix("http://").partition("/")
    start = threading.Barrier(n_clients + 1)
    found: list[tuple[float, int, int]] = []

    def ask() -> None:
        connection = http.client.HTTPConnection(host, timeout=300)
        start.wait()
        began = time.perf_counter()
        try:
            connection.request("GET", f"/{path}")
            answer = connection.getresponse()
            content = answer.read()
            if answer.status == http.HTTPStatus.OK:
                found.append((time.perf_counter() - began, len(content), len(json.loads(content))))
        except OSError:
            return  # missing in ``found``, and so counted as an error
        finally:
            connection.close()

    threads = [threading.Thread(target=ask) for _ in range(n_clients)]
    for each in threads:
        each.start()
    start.wait()
    began = time.perf_counter()
    for each in threads:
        each.join()
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

    with running(Handler) as port:
        yield port


@contextmanager
def running(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Serve on loopback by a handler of requests; gives the port."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 1024
        daemon_threads = True

    with Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


class Answerer:
    """Answers one search after another, as one warm function does. Any thread may ask."""

    def __init__(self, catalog: Catalog, area: Area) -> None:
        """Search this catalog for this area."""
        self._catalog = catalog
        self._area = area
        self._lock = threading.Lock()
        self._runner = open_runner()

    def __call__(self, _: str) -> bytes:
        """Return the answer to any path."""
        with self._lock:
            return self._runner.run(answer_of(self._catalog, self._area))
