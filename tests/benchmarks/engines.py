"""All readers that are measured, by name, and where to find them."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One reader; its functions are named as ``module:function``."""

    read: str
    """``f(hrefs, out, *, concurrency)`` fills ``out[i]`` with the centre tile of ``hrefs[i]``.

    Where there is something to prepare it also takes ``prepared``: what ``load`` returned, else the folder
    that ``prepare`` wrote to.
    """

    prepare: str | None = None
    """``f(hrefs, folder)`` writes what a user makes once and keeps; in a process of its own, timed apart."""

    load: str | None = None
    """``f(hrefs, folder)`` returns what a user has in memory before reading starts; not timed with it."""

    makes_array: bool = False
    """It cannot read into ``out`` and returns an array of its own."""

    makes_pixels: bool = True
    """False of what measures a part of the work: its digest is not checked."""

    needs: tuple[str, ...] = ()
    """Modules of the dependency group ``peers``."""

    @property
    def is_installed(self) -> bool:
        """Whether all that it needs can be imported."""
        return all(find_spec(module.partition(".")[0]) and find_spec(module) for module in self.needs)


_RANGES: Final = "benchmarks.limits:note_ranges"
_ITEMS: Final = "benchmarks.peers.scenes:write_items"

ENGINES: Final = {
    "pixel-gather": Engine(read="benchmarks.our_reader:read_tiles"),
    "pixel-gather-indexed": Engine(
        read="benchmarks.our_reader:read_tiles_indexed",
        prepare="benchmarks.our_reader:build_index",
        load="benchmarks.our_reader:load_index",
    ),
    "pixel-gather-unhedged": Engine(read="benchmarks.our_reader:read_tiles_unhedged"),
    "rasterio-published": Engine(read="benchmarks.peers.rasterio_threads:read_published"),
    "rasterio-modern": Engine(read="benchmarks.peers.rasterio_threads:read_modern"),
    "async-geotiff": Engine(read="benchmarks.peers.async_geotiff_tasks:read_tiles", needs=("async_geotiff",)),
    "rasteret": Engine(
        read="benchmarks.peers.rasteret_collection:read_tiles",
        prepare="benchmarks.peers.rasteret_collection:build",
        load="benchmarks.peers.rasteret_collection:load_collection",
        makes_array=True,
        needs=("rasteret",),
    ),
    "lazycogs": Engine(
        read="benchmarks.peers.lazycogs_array:read_tiles",
        prepare="benchmarks.peers.lazycogs_array:write_items",
        load="benchmarks.peers.lazycogs_array:load_client",
        makes_array=True,
        needs=("lazycogs",),
    ),
    "odc-stac": Engine(
        read="benchmarks.peers.odc_stac_load:read_tiles",
        prepare=_ITEMS,
        load="benchmarks.peers.odc_stac_load:load_items",
        makes_array=True,
        needs=("odc.stac",),
    ),
    "stackstac": Engine(
        read="benchmarks.peers.stackstac_stack:read_tiles",
        prepare=_ITEMS,
        load="benchmarks.peers.stackstac_stack:load_items",
        makes_array=True,
        needs=("stackstac",),
    ),
    "rio-tiler": Engine(read="benchmarks.peers.rio_tiler_threads:read_tiles", needs=("rio_tiler",)),
    "limit-fetch": Engine(
        read="benchmarks.limits:fetch_header_and_tile",
        prepare=_RANGES,
        load="benchmarks.limits:load_ranges",
        makes_pixels=False,
    ),
    "limit-fetch-indexed": Engine(
        read="benchmarks.limits:fetch_tile",
        prepare=_RANGES,
        load="benchmarks.limits:load_ranges",
        makes_pixels=False,
    ),
    "limit-decode": Engine(
        read="benchmarks.limits:decode", prepare=_RANGES, load="benchmarks.limits:load_tiles"
    ),
}

LIMITS: Final = tuple(name for name in ENGINES if name.startswith("limit-"))
PEERS: Final = tuple(name for name in ENGINES if not name.startswith(("pixel-gather", "limit-")))
