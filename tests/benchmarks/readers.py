"""The readers that are compared, and one run of one of them in a process of its own."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pixel_gather.core.process_usage import cpu_s, peak_rss_mib

TILE: Final = 512
OURS: Final = "pixel-gather"
INDEXED: Final = "pixel-gather-indexed"
UNHEDGED: Final = "pixel-gather-unhedged"
GATHER: Final = "gather"
STAGED: Final = "gather, by stage"
KEPT: Final = "gather, codec source"
CAREFUL: Final = "rasterio and zarr-python"
ODC: Final = "odc-stac and to_zarr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One reader. Its functions are named ``module:function``, within this folder."""

    read: str
    """``f(hrefs, out, *, concurrency)`` fills ``out[i]`` with the centre tile of ``hrefs[i]``.

    A reader with ``load`` also takes ``prepared``, which is what ``load`` returned, unless that is None.
    """

    prepare: str | None = None
    """``f(hrefs, folder)`` writes what a user makes once and keeps. It is timed apart."""

    load: str | None = None
    """``f(hrefs, folder)`` returns what a user has in memory before reading starts. It is not timed.

    One that returns None only imports.
    """

    makes_array: bool = False
    """Whether it returns an array of its own, because it cannot read into ``out``."""

    makes_pixels: bool = True
    """False of what does a part of the work only: its digest is not checked."""

    needs: tuple[str, ...] = ()
    """Modules of the dependency group ``peers``."""

    @property
    def is_installed(self) -> bool:
        """Whether all that it needs can be imported."""
        return all(find_spec(module.partition(".")[0]) and find_spec(module) for module in self.needs)


def _cataloged(module: str, *needs: str, prepare: str, load: str) -> Reader:
    """Return a peer that reads what a catalog lists, into an array of its own."""
    return Reader(
        read=f"peers.{module}:read_tiles",
        prepare=f"peers.{prepare}",
        load=f"peers.{module}:{load}",
        makes_array=True,
        needs=needs,
    )


_RANGES: Final[dict[str, Any]] = {"prepare": "limits:note_ranges", "load": "limits:load_ranges"}
_ITEMS: Final = {"prepare": "scenes:write_items", "load": "load_items"}

READERS: Final = {
    OURS: Reader(read="ours:read_tiles"),
    INDEXED: Reader(read="ours:read_tiles_indexed", prepare="ours:build_index", load="ours:load_index"),
    UNHEDGED: Reader(read="ours:read_tiles_unhedged"),
    "rasterio-published": Reader(read="peers.rasterio_threads:read_published"),
    "rasterio-modern": Reader(read="peers.rasterio_threads:read_modern"),
    "async-geotiff": Reader(read="peers.async_geotiff_tasks:read_tiles", needs=("async_geotiff",)),
    "rasteret": _cataloged(
        "rasteret_collection", "rasteret", prepare="rasteret_collection:build", load="load_collection"
    ),
    "lazycogs": _cataloged(
        "lazycogs_array", "lazycogs", prepare="lazycogs_array:write_items", load="load_client"
    ),
    "odc-stac": _cataloged("odc_stac_load", "odc.stac", **_ITEMS),
    "stackstac": _cataloged("stackstac_stack", "stackstac", **_ITEMS),
    "rio-tiler": Reader(read="peers.rio_tiler_threads:read_tiles", needs=("rio_tiler",)),
    "limit-fetch": Reader(read="limits:fetch_header_and_tile", makes_pixels=False, **_RANGES),
    "limit-fetch-indexed": Reader(read="limits:fetch_tile", makes_pixels=False, **_RANGES),
    "limit-decode": Reader(read="limits:decode", prepare="limits:note_ranges", load="limits:load_tiles"),
}

GATHERS: Final = {
    GATHER: Reader(read="gathers:gather", load="gathers:import_gather", makes_array=True),
    STAGED: Reader(read="gathers:gather_staged", load="gathers:import_gather", makes_array=True),
    KEPT: Reader(read="gathers:gather_kept", load="gathers:import_gather", makes_array=True),
    CAREFUL: Reader(read="peers.careful_threads:gather", makes_array=True),
    ODC: Reader(
        read="peers.odc_stac_load:gather",
        prepare="peers.scenes:write_items",
        load="peers.odc_stac_load:load_items",
        makes_array=True,
        needs=("odc.stac",),
    ),
    "limit-fetch": READERS["limit-fetch"],
    "limit-decode": READERS["limit-decode"],
    "limit-statistics": Reader(read="limits:measure", makes_pixels=False, load="limits:load_shard"),
    "limit-compress": Reader(read="limits:compress", makes_pixels=False, load="limits:load_shard"),
    "limit-store": Reader(read="limits:store", makes_pixels=False, load="limits:load_stored"),
}
"""Whole gathers, which write a cube, and the least that their parts take."""

ALL: Final = READERS | GATHERS

LIMITS: Final = tuple(name for name in READERS if name.startswith("limit-"))
PEERS: Final = tuple(name for name in READERS if not name.startswith(("pixel-gather", "limit-")))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadJob:
    """What to read, and with what."""

    reader: str
    concurrency: int
    """Threads, or sources in flight; 0 for our reader to find the number out."""

    hrefs: tuple[str, ...]
    folder: str
    """Where ``prepare`` writes, and ``load`` finds what it wrote."""

    started_s: float
    """When the process was started, on the clock that all processes share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run took. ``reading`` is the reader's call alone; the process also starts and imports."""

    n_tiles: int
    reading_s: float
    process_s: float
    """From before the process was started until the last pixel was there."""

    reading_cpu_s: float
    """User and system time of the process and its children while reading."""

    process_cpu_s: float
    peak_rss_mib: float
    """Pixels included."""

    digest: str
    """xxh3-64 over the tiles' xxh3-64 digests, in order."""

    stages: dict[str, float] = field(default_factory=dict)
    """CPU seconds of each stage of a gather, if they were recorded."""

    def tiles_per_s(self, *, with_start: bool = False) -> float:
        """Return the pace of reading, or of the whole process."""
        return self.n_tiles / (self.process_s if with_start else self.reading_s)

    def cpu_s_per_1000(self, *, with_start: bool = False) -> float:
        """Return the CPU seconds that 1,000 tiles would take."""
        return 1000 * (self.process_cpu_s if with_start else self.reading_cpu_s) / self.n_tiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What a preparation took, imports included."""

    took_s: float
    took_cpu_s: float


def prepare(job: ReadJob) -> Preparation:
    """Write what the reader wants to find."""
    name = ALL[job.reader].prepare
    if name is not None:
        _found(name)(job.hrefs, Path(job.folder))
    return Preparation(took_s=time.monotonic() - job.started_s, took_cpu_s=cpu_s())


def read(job: ReadJob) -> Run:
    """Read every href once."""
    import numpy as np  # noqa: PLC0415 # what is imported here is part of the measurement

    reader = ALL[job.reader]
    out = np.zeros((len(job.hrefs), TILE, TILE), np.uint16)
    if not reader.makes_array:
        out[:] = 0  # in a virtual machine a page's first touch costs as much as decoding a tile
    read_tiles, prepared = _found(reader.read), _prepared(reader, job)
    cpu_before_s, began_s = cpu_s(), time.monotonic()
    made = read_tiles(job.hrefs, out, concurrency=job.concurrency, **prepared)
    ended_s, cpu_after_s = time.monotonic(), cpu_s()
    return Run(
        n_tiles=len(job.hrefs),
        reading_s=ended_s - began_s,
        process_s=ended_s - job.started_s,
        reading_cpu_s=cpu_after_s - cpu_before_s,
        process_cpu_s=cpu_after_s,
        peak_rss_mib=peak_rss_mib(),
        stages=getattr(made, "stages", {}),
        digest=_digest_of_pixels(made if reader.makes_array else out),
    )


def digest_of(tile_digests: Sequence[str]) -> str:
    """Join the digests of single tiles into a run's."""
    import xxhash  # noqa: PLC0415 # not in the measured part

    return xxhash.xxh3_64_hexdigest("".join(tile_digests).encode())


def _digest_of_pixels(tiles: Any) -> str:
    import numpy as np  # noqa: PLC0415 # as above
    import xxhash  # noqa: PLC0415 # as above

    return digest_of([xxhash.xxh3_64_hexdigest(np.ascontiguousarray(tile)) for tile in tiles])


def _prepared(reader: Reader, job: ReadJob) -> Mapping[str, Any]:
    if reader.load is None:
        return {}
    prepared = _found(reader.load)(job.hrefs, Path(job.folder))
    return {} if prepared is None else {"prepared": prepared}


def _found(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    imported: Callable[..., Any] = getattr(import_module(f"benchmarks.{module}"), function)
    return imported
