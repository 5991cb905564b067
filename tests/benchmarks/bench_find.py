"""Measures searches: by the function's handler, beside the figures of 2017, and by ranges in a large catalog.

``PYTHONPATH=tests uv run python -m benchmarks.bench_find load --scenes 1000000`` asks the search function. A
server on loopback calls it as API Gateway does, one request at a time as one environment of a function does.
``PYTHONPATH=tests uv run python -m benchmarks.bench_find ranges --scenes 10000000`` searches a catalog
that is not held in memory, from a server on loopback that counts requests and bytes.
"""

import argparse
import asyncio
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import click
import numpy as np
from msgspec import to_builtins

from benchmarks.loopback_server import Behaviour, LoggedRequest, LoopbackServer, run_server
from benchmarks.made_catalog import write_made_up
from pixel_gather.core.area import Area
from pixel_gather.core.process_usage import peak_rss_mib
from pixel_gather.core.scenes.catalog_query import SceneQuery
from pixel_gather.io.scenes.search_own_catalog import Catalog, open_catalog
from pixel_gather.io.store.object_store import open_place
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.area import (
    PUBLISHED_AREA,
    PUBLISHED_BOX,
    PUBLISHED_CLIENTS,
    PUBLISHED_MORE_CLIENTS,
    PUBLISHED_POINT,
    measure_load,
)

CLIENTS: Final = (1, 10, 32, 100, 320)
_N_TIMED: Final = 30
_N_BOXES: Final = 200
_SITES: Final = 5


@dataclass(frozen=True, kw_only=True)
class Searched:
    """What one search of a catalog took."""

    seconds: float
    n_found: int
    n_requests: int
    nbytes: int


def measure_ranges(folder: Path, n_boxes: int) -> tuple[list[Searched], dict[str, float]]:
    """Search small boxes in a catalog of which no block is held, each once; also what opening it takes."""
    with run_server(folder) as server:
        settings = StoreSettings(endpoint=server.url, region="eu-west-1", unsigned=True)
        store = open_place("s3://catalogs", settings)

        async def searched() -> tuple[list[Searched], dict[str, float]]:
            began = time.perf_counter()
            catalog = await open_catalog(store, "catalog.parquet", most_in_memory=0)
            seconds, asked = time.perf_counter() - began, server.log().requests
            opening = {"open_s": seconds, "open_requests": len(asked), "open_nbytes": _nbytes(asked)}
            return [await _search(catalog, box, server) for box in _boxes(n_boxes)], opening

        return asyncio.run(searched())


async def _search(catalog: Catalog, area: Area, server: LoopbackServer) -> Searched:
    server.behave(Behaviour())  # empties its log
    began = time.perf_counter()
    found = [item async for _, item in catalog.scenes(SceneQuery(area=area))]
    seconds, asked = time.perf_counter() - began, server.log().requests
    return Searched(seconds=seconds, n_found=len(found), n_requests=len(asked), nbytes=_nbytes(asked))


def _nbytes(asked: Sequence[LoggedRequest]) -> int:
    return sum(each.range_nbytes for each in asked)


def _boxes(n: int) -> Iterator[Area]:
    rng = np.random.default_rng(7)
    for west, south in zip(rng.uniform(-180, 179, n).tolist(), rng.uniform(-80, 80, n).tolist(), strict=True):
        yield Area((west, south, west + 0.3, south + 0.2))


def measure_small_boxes(folder: Path) -> dict[str, Any]:
    """Return medians over boxes of 0.3 x 0.2 degrees, in a process that has imported the function alone."""
    environment = {**os.environ, **_environment(folder)}
    done = subprocess.run(  # noqa: S603 # our own words
        [sys.executable, "-c", _SMALL_BOXES], env=environment, check=True, capture_output=True, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _environment(folder: Path) -> dict[str, str]:
    from support.lambda_functions import ENVIRONMENT  # noqa: PLC0415 # moto takes a second

    catalog = f"file://{folder}/catalog.parquet"
    return {**ENVIRONMENT, "PIXEL_GATHER_CATALOG": catalog, "POWERTOOLS_LOG_LEVEL": "ERROR"}


_SMALL_BOXES: Final = """
import json, random, resource, statistics, time
began = time.perf_counter()
from handlers.search import answer_searches as search
from pixel_gather.core.area import Area
from pixel_gather.core.scenes.catalog_query import SceneQuery
imported_s = time.perf_counter() - began
opened = search.catalog.newest()
opened_s = time.perf_counter() - began - imported_s
rnd = random.Random(7)
matching, searching, n = [], [], []
for _ in range(500):
    west, south = rnd.uniform(-180, 179), rnd.uniform(-80, 80)
    query = SceneQuery(area=Area((west, south, west + 0.3, south + 0.2)))
    began = time.perf_counter()
    matches = search.catalog._runner.run(opened.matches(query))
    matching.append(time.perf_counter() - began)
    n.append(len(matches.row))
    began = time.perf_counter()
    search.catalog.search(query, most=10, take=lambda item: item["id"])
    searching.append(time.perf_counter() - began)
print(json.dumps({
    "imported_s": imported_s, "opened_s": opened_s, "matched_ms": 1000 * statistics.median(matching),
    "ten_scenes_ms": 1000 * statistics.median(searching), "n_found": statistics.mean(n),
    "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}))
"""


@contextmanager
def search_function(folder: Path) -> Iterator[Any]:
    """Import the search function over a catalog, as a cold start does."""
    import pytest  # noqa: PLC0415 # for its environment alone

    from support.lambda_functions import cold_start  # noqa: PLC0415 # as above

    patch = pytest.MonkeyPatch()
    href = f"file://{folder}/catalog.parquet"
    logging.disable(logging.WARNING)
    try:
        with cold_start(patch, "answer_searches", PIXEL_GATHER_CATALOG=href) as module:
            yield module
            module.catalog.close()
    finally:
        logging.disable(logging.NOTSET)
        patch.undo()


def area_target(box: tuple[float, float, float, float]) -> str:
    """Return the path of a search for the links of a box."""
    west, south, east, north = box
    return "/area?" + urlencode({"lat1": south, "lng1": west, "lat2": north, "lng2": east})


def measure_handler(ask: Callable[[], Any]) -> dict[str, Any]:
    """Time a warm request, then trace another: its peak memory, its allocations and where they are."""
    ask()
    times = []
    for _ in range(_N_TIMED):
        began = time.perf_counter()
        ask()
        times.append(time.perf_counter() - began)
    blocks = sys.getallocatedblocks()
    kept = ask()
    n_kept = sys.getallocatedblocks() - blocks
    tracemalloc.start()
    traced = ask()
    _, peak = tracemalloc.get_traced_memory()
    sites = tracemalloc.take_snapshot().statistics("lineno")[:_SITES]
    tracemalloc.stop()
    return {
        "seconds": statistics.median(times),
        "nbytes": len(kept["body"]),
        "peak_nbytes": peak,
        "n_blocks_held": n_kept,
        "sites": [
            f"{each.traceback[0].filename.rpartition('/')[2]}:{each.traceback[0].lineno} {each.size:,} B"
            for each in sites
        ],
        "links": len(json.loads(traced["body"])),
    }


def _load(folder: Path) -> None:
    from support.api_bridge import event, serving_api  # noqa: PLC0415 # as above
    from support.lambda_functions import Context  # noqa: PLC0415 # as above

    click.echo(f"small boxes: {measure_small_boxes(folder)}")
    target = area_target(PUBLISHED_BOX)
    west, south, _, _ = PUBLISHED_BOX
    with search_function(folder) as module:

        def ask(path: str) -> Callable[[], Any]:
            return lambda: module.handler(event("GET", path), Context(left_s=29))

        began = time.perf_counter()
        ask(target)()
        click.echo(f"first request, catalog opened: {time.perf_counter() - began:.3f} s")
        with serving_api(module.handler) as root:
            for n in CLIENTS:
                each = to_builtins(measure_load(root + target, n))
                click.echo(
                    f"{n} clients: {each['wall_s']:.3f} s, {each['n_links']:,.0f} links, "
                    f"{each['nbytes'] / 1e6:.2f} MB, {n / each['wall_s']:.1f} requests/s, fastest "
                    f"{each['fastest_s']:.4f} s, slowest {each['slowest_s']:.3f} s, "
                    f"{each['n_errors']:.0f} errors"
                )
                click.echo(f"  2017: {PUBLISHED_CLIENTS.get(n, PUBLISHED_MORE_CLIENTS)}")
        for name, path, theirs in (
            ("point", f"/area?lat={south}&lng={west}", PUBLISHED_POINT),
            ("area", target, PUBLISHED_AREA),
        ):
            click.echo(f"{name}: {measure_handler(ask(path))}")
            click.echo(f"  2017: {theirs}")
        click.echo(f"peak of the process: {peak_rss_mib():.0f} MiB")


def _ranges(folder: Path) -> None:
    before = peak_rss_mib()
    found, opening = measure_ranges(folder, _N_BOXES)
    click.echo(f"opened in {opening}; {len(found)} boxes of 0.3 x 0.2 degrees, none of them twice")
    for name in ("seconds", "n_found", "n_requests", "nbytes"):
        values = sorted(getattr(each, name) for each in found)
        middle, late = values[len(values) // 2], values[int(len(values) * 0.95)]
        click.echo(f"  {name}: median {middle:.6g}, 95th percentile {late:.6g}, most {values[-1]:.6g}")
    click.echo(
        f"peak memory {peak_rss_mib():.0f} MiB, of which {before:.0f} MiB before the catalog was opened"
    )


def main() -> None:
    """Write the catalog in a process of its own, whose memory is not counted, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("load", "ranges"))
    parser.add_argument("--scenes", type=int, default=1_000_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pixel-gather-find-") as name:
        if (child := os.fork()) == 0:
            write_made_up(Path(name), given.scenes, n_links=13 if given.what == "load" else 1)
            os._exit(0)
        os.waitpid(child, 0)
        click.echo(f"catalog of {given.scenes:,} scenes")
        {"load": _load, "ranges": _ranges}[given.what](Path(name))


if __name__ == "__main__":
    main()
