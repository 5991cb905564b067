"""This project's reader, through the port that a shard's worker reads through."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from pixel_gather.adapters.event_loop import run
from pixel_gather.adapters.gdal.settings import GdalSettings
from pixel_gather.adapters.geotiff.settings import GeoTiffSettings
from pixel_gather.adapters.object_store import Objects, StoreSettings
from pixel_gather.adapters.source_reader import CogReader
from pixel_gather.source import Cost, Header
from pixel_gather.window import Window


def read_tiles(hrefs: Sequence[str], out: np.ndarray[Any, Any], *, concurrency: int) -> None:
    """Fill ``out``, shape (source, y, x), with each source's centre tile."""
    run(_read_all(hrefs, out, max_in_flight=concurrency))


async def _read_all(hrefs: Sequence[str], out: np.ndarray[Any, Any], *, max_in_flight: int) -> None:
    slots = asyncio.Semaphore(max_in_flight)
    objects = Objects(StoreSettings())
    async with CogReader.over(objects, fast=GeoTiffSettings(), fall_back=GdalSettings()) as reader:

        async def read_one(href: str, pixels: np.ndarray[Any, Any]) -> None:
            async with slots:
                source = await reader.open_(href, overview=None, cost=Cost())
                await source.read_into(pixels[None], _centre(source.header), (1,), masked=False)

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
