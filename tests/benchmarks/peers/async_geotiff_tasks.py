"""async-geotiff as its documentation has it: open and read by many tasks on one obstore client."""

import asyncio
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import uvloop
from async_geotiff import GeoTIFF
from obstore.store import HTTPStore

from benchmarks.workload import TILE


def read_tiles(hrefs: Sequence[str], out: np.ndarray[Any, Any], *, concurrency: int) -> None:
    """Fill ``out``, shape (source, y, x), with each source's centre tile."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_read_all(hrefs, out, concurrency))


async def _read_all(hrefs: Sequence[str], out: np.ndarray[Any, Any], max_in_flight: int) -> None:
    url = urlsplit(hrefs[0])
    store = HTTPStore(f"{url.scheme}://{url.netloc}", client_options={"allow_http": url.scheme == "http"})
    unread = iter(enumerate(hrefs))  # shared: whichever task is free takes the next

    async def read_some() -> None:
        for index, href in unread:
            source = await GeoTIFF.open(urlsplit(href).path[1:], store=store)
            # one whole tile, so `fetch_tile`; `read` of the same window copies it once more
            tile = await source.fetch_tile(-(-source.width // TILE) // 2, -(-source.height // TILE) // 2)
            out[index] = tile.array.data[0]

    async with asyncio.TaskGroup() as group:
        for _ in range(max_in_flight):
            group.create_task(read_some())
