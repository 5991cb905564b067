"""This project's reader, through the port that a shard's worker reads through."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from pixel_gather.adapters.event_loop import run
from pixel_gather.adapters.gdal.settings import GdalSettings
from pixel_gather.adapters.geotiff.settings import GeoTiffSettings
from pixel_gather.adapters.object_store.concurrency import AdaptiveLimiter
from pixel_gather.adapters.object_store.object_store import Objects, StoreSettings
from pixel_gather.adapters.source_reader import CogReader
from pixel_gather.model.source import Cost, Header
from pixel_gather.model.window import Window

_INDEX: Final = "headers.parquet"


def read_tiles(hrefs: Sequence[str], out: np.ndarray[Any, Any], *, concurrency: int) -> None:
    """Fill ``out``, shape (source, y, x), with each source's centre tile.

    Args:
        hrefs: One source each.
        out: Wholly overwritten.
        concurrency: Sources at one time; 0 to have it found out, as in production.
    """
    run(_read_all(hrefs, out, concurrency=concurrency, settings=StoreSettings()))


def read_tiles_unhedged(hrefs: Sequence[str], out: np.ndarray[Any, Any], *, concurrency: int) -> None:
    """Fill ``out`` without asking a second time for what is late."""
    run(_read_all(hrefs, out, concurrency=concurrency, settings=StoreSettings(hedging=None)))


def read_tiles_indexed(
    hrefs: Sequence[str], out: np.ndarray[Any, Any], *, concurrency: int, prepared: Mapping[str, bytes]
) -> None:
    """Fill ``out`` as `read_tiles`, by what a header index tells of each source."""
    run(_read_all(hrefs, out, concurrency=concurrency, settings=StoreSettings(), packed_header=prepared))


def build_index(hrefs: Sequence[str], folder: Path) -> None:
    """Make the header index, as a user does once."""
    from pixel_gather import index  # noqa: PLC0415 # readers need none of it

    index(list(hrefs), to=folder / _INDEX)


def load_index(hrefs: Sequence[str], folder: Path) -> dict[str, bytes]:
    """Return what it tells of each source, as a worker finds it beside its list."""
    from pixel_gather.adapters.cube.header_index import read_index  # noqa: PLC0415 # as above

    del hrefs
    href = f"file://{folder / _INDEX}"
    return dict(read_index(href, objects=Objects(StoreSettings()), overview=None))


async def _read_all(
    hrefs: Sequence[str],
    out: np.ndarray[Any, Any],
    *,
    concurrency: int,
    settings: StoreSettings,
    packed_header: Mapping[str, bytes] | None = None,
) -> None:
    slots = AdaptiveLimiter(fixed=concurrency or None)
    objects = Objects(settings, pace=slots)
    async with CogReader.over(objects, fast=GeoTiffSettings(), fall_back=GdalSettings()) as reader:

        async def read_one(href: str, pixels: np.ndarray[Any, Any]) -> None:
            async with slots.permit(href, weight=1) as place:
                entry = None if packed_header is None else packed_header[href]
                cost = Cost()
                source = await reader.open_(href, overview=None, cost=cost, packed_header=entry)
                await source.read_into(pixels[None], _centre(source.header), (1,), masked=False)
                place.was_read(n_requests=cost.needed_requests)

        async with asyncio.TaskGroup() as group:
            for href, pixels in zip(hrefs, out, strict=True):
                group.create_task(read_one(href, pixels))


def _centre(header: Header) -> Window:
    row = -(-header.height // header.tile_height) // 2
    column = -(-header.width // header.tile_width) // 2
    return Window(
        col_off=column * header.tile_width,
        row_off=row * header.tile_height,
        width=header.tile_width,
        height=header.tile_height,
    )
