"""Reads a suite's list, and the first good source, which determines the windows' shape and dtype."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.window import TileIndex
from pixel_gather.core.request.href_policy import IN_PROCESS
from pixel_gather.core.request.sources import Sources
from pixel_gather.io.event_loop import run
from pixel_gather.io.gdal.settings import GdalSettings
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.lists.source_list import named_sources
from pixel_gather.io.reader import CogReader
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.experiment import free_memory_mib
from pixel_gather_bench.suite.engine_fast import raster_of
from pixel_gather_bench.suite.job import Raster, TileTarget, tile_window

_MOST_TRIED: Final = 20


def read_hrefs(sources: Sources, *, first: int | None, stores: StoreSettings) -> tuple[str, ...]:
    """Return the hrefs in the order of the list, or only the first ones."""
    policy = IN_PROCESS.within(str(Path.cwd()))
    named = named_sources(sources, objects=Objects(stores), policy=policy, list_policy=policy)
    return tuple(source.href for source in islice(named.sources, first))


def find_target(
    hrefs: Sequence[str], *, tile: TileIndex | None, band: int, stores: StoreSettings
) -> TileTarget:
    """Return what to read from every source. The first source that has the tile decides."""
    return run(_find_target(hrefs, tile, band, stores))


async def _find_target(
    hrefs: Sequence[str], tile: TileIndex | None, band: int, stores: StoreSettings
) -> TileTarget:
    why: list[str] = []
    objects = Objects(stores)
    async with CogReader.over(objects, fast=GeoTiffSettings(), fall_back=GdalSettings()) as reader:
        for href in hrefs[:_MOST_TRIED]:
            try:
                opened = await reader.open_(href, overview=None, cost=Cost())
            except SourceError as error:
                why.append(str(error))
                continue
            raster = raster_of(opened.header)
            window = tile_window(raster, tile)
            if window is not None and raster.n_bands >= band:
                shape = (window.height, window.width)
                return TileTarget(tile=tile, band=band, shape=shape, dtype=raster.dtype)
            why.append(f"{href}: {_what_it_lacks(raster, band)}")
    raise RequestError(f"no source among the first {len(why)} has such a tile: {why[0]}", field="LIST")


def check_memory(target: TileTarget, n_sources: int) -> None:
    """Refuse a run that would fill more than half of the free memory."""
    wanted_mib, free_mib = target.nbytes * n_sources / 2**20, free_memory_mib()
    if free_mib is not None and wanted_mib > free_mib / 2:
        fit = int(free_mib / 2 * 2**20 / target.nbytes)
        raise RequestError(
            f"a run holds all {n_sources:,} windows. They take {wanted_mib:,.0f} MiB, more than half "
            f"of the {free_mib:,.0f} MiB that are free: give --first {fit} or less",
            field="LIST",
        )


def _what_it_lacks(raster: Raster, band: int) -> str:
    if raster.n_bands < band:
        return f"it has {raster.n_bands} band(s), not {band}"
    n_rows = -(-raster.height // raster.tile_height)
    n_columns = -(-raster.width // raster.tile_width)
    return f"it has {n_rows} x {n_columns} tiles; rows and columns count from 0"
