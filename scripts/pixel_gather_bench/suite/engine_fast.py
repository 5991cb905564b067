"""The engine ``fast``: this project's reader, used as a worker uses it."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import Any, Final

import numpy as np

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Cost, Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.ports import OpenedSource, SourceReader
from pixel_gather.core.task_group import all_of
from pixel_gather.io.event_loop import run
from pixel_gather.io.gdal.settings import GdalSettings
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.reader import CogReader
from pixel_gather.io.store.concurrency import AdaptiveLimiter
from pixel_gather.io.store.object_store import Objects
from pixel_gather_bench.suite.job import Raster, SuiteJob, TileTarget
from pixel_gather_bench.suite.source_times import Lanes, Sheet

_TIMEOUT_S: Final = 180.0
"""Limit for one source, as in a gather."""


def read_all(
    job: SuiteJob,
    out: np.ndarray[Any, Any],
    sheet: Sheet,
    *,
    packed_headers: Mapping[str, bytes] | None = None,
) -> dict[str, str]:
    """Read all sources into ``out``, shape (source, y, x). Note their times in the sheet.

    The packed headers are what a header index tells of sources, by href.

    Returns:
        GDAL's settings. This engine returns none.
    """
    run(_read_all(job, out, sheet, packed_headers or {}))
    sheet.count_cpu()
    return {}


def raster_of(header: Header) -> Raster:
    """Return the part of a source's header that every engine knows."""
    return Raster(
        height=header.height,
        width=header.width,
        tile_height=header.tile_height,
        tile_width=header.tile_width,
        n_bands=header.n_bands,
        dtype=header.dtype,
    )


async def _read_all(
    job: SuiteJob, out: np.ndarray[Any, Any], sheet: Sheet, headers: Mapping[str, bytes]
) -> None:
    fixed = job.configuration.concurrency
    slots = AdaptiveLimiter(fixed=fixed)
    # a limiter counts each back end apart, a pool of threads counts all together
    together: AbstractAsyncContextManager[None] = asyncio.Semaphore(fixed) if fixed else nullcontext()
    lanes = Lanes()
    async with CogReader.over(
        Objects(job.stores, pace=slots),
        fast=GeoTiffSettings.reading_first(job.header_nbytes),
        fall_back=GdalSettings(),
    ) as reader:
        if job.warm_up:
            await _warm_up(job, reader)
        sheet.start()

        async def read_one(position: int) -> None:
            async with together, slots.permit(job.hrefs[position], weight=1) as place:
                with lanes.taken() as lane, sheet.timed(position, lane):
                    cost = await _read_source(
                        job,
                        position,
                        out[position],
                        reader,
                        sheet,
                        packed_header=headers.get(job.hrefs[position]),
                    )
                    place.record_read(n_requests=cost.needed_requests)

        await all_of(read_one(position) for position in range(len(job.hrefs)))
        sheet.stop()


async def _warm_up(job: SuiteJob, reader: SourceReader) -> None:
    """Read the last source. Caches have most likely dropped it when its turn comes."""
    scratch = np.empty(job.target.shape, job.target.dtype)
    n_sources = len(job.hrefs)
    with suppress(SourceError):
        await _read_source(job, n_sources - 1, scratch, reader, Sheet(n_sources))


async def _read_source(
    job: SuiteJob,
    position: int,
    out: np.ndarray[Any, Any],
    reader: SourceReader,
    sheet: Sheet,
    *,
    packed_header: bytes | None = None,
) -> Cost:
    href, cost, columns = job.hrefs[position], Cost(), sheet.columns
    began_s = time.perf_counter()
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            source = await reader.open_(href, overview=None, cost=cost, packed_header=packed_header)
            opened_s = time.perf_counter()
            columns.open_s[position] = opened_s - began_s
            await _fill(source, out, job.target)
            columns.read_s[position] = time.perf_counter() - opened_s
    except TimeoutError as error:
        reason = f"not read within {_TIMEOUT_S:g} s"
        raise SourceError(reason, href=href, status=Status.TIMED_OUT) from error
    columns.header_nbytes[position] = cost.header_nbytes
    columns.nbytes[position] = cost.nbytes - cost.header_nbytes
    return cost


async def _fill(source: OpenedSource, out: np.ndarray[Any, Any], target: TileTarget) -> None:
    window = target.window_on(raster_of(source.header), href=source.header.href)
    await source.read_into([(out[None], window)], (target.band,), masked=False)
