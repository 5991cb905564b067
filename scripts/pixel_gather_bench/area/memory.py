"""The time and memory of one search, and which lines hold the memory."""

import json
import time
import tracemalloc
from dataclasses import dataclass
from typing import Final

from pixel_gather.core.area import Area
from pixel_gather.io.event_loop import open_runner
from pixel_gather.io.scenes.search_own_catalog import Catalog
from pixel_gather_bench.area.clients import links_of

_N_TIMED: Final = 20
_N_SITES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
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
            json.dumps(runner.run(links_of(catalog, area)))
            times.append(time.perf_counter() - began)
        tracemalloc.start()
        found = runner.run(links_of(catalog, area))
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
