"""This project's reader: the engine ``fast`` of ``pixel-gather bench``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.suite import engine_fast
from pixel_gather_bench.suite.job import Configuration, SuiteJob, TileTarget
from pixel_gather_bench.suite.source_times import Sheet

_INDEX: Final = "headers.parquet"

type Pixels = np.ndarray[Any, Any]


def read_tiles(hrefs: Sequence[str], out: Pixels, *, concurrency: int) -> None:
    """Fill ``out``, shape (source, y, x), with each source's centre tile.

    Args:
        hrefs: One source each.
        out: Wholly overwritten.
        concurrency: Sources at one time; 0 to have it found out, as in production.
    """
    _read(hrefs, out, concurrency)


def read_tiles_unhedged(hrefs: Sequence[str], out: Pixels, *, concurrency: int) -> None:
    """Fill ``out`` without asking a second time for what is late."""
    _read(hrefs, out, concurrency, stores=StoreSettings(hedging=None))


def read_tiles_indexed(
    hrefs: Sequence[str], out: Pixels, *, concurrency: int, prepared: Mapping[str, bytes]
) -> None:
    """Fill ``out`` as `read_tiles`, by what a header index tells of each source."""
    _read(hrefs, out, concurrency, packed_headers=prepared)


def build_index(hrefs: Sequence[str], folder: Path) -> None:
    """Make the header index, as a user does once."""
    from pixel_gather import index  # noqa: PLC0415 # readers need none of it

    index(list(hrefs), to=folder / _INDEX)


def load_index(hrefs: Sequence[str], folder: Path) -> dict[str, bytes]:
    """Return what it tells of each source, as a worker finds it beside its list."""
    from pixel_gather.io.header_index import read_index  # noqa: PLC0415 # as above

    del hrefs
    href = f"file://{folder / _INDEX}"
    return dict(read_index(href, objects=Objects(StoreSettings()), overview=None))


def _read(
    hrefs: Sequence[str],
    out: Pixels,
    concurrency: int,
    *,
    stores: StoreSettings | None = None,
    packed_headers: Mapping[str, bytes] | None = None,
) -> None:
    sheet = Sheet(len(hrefs))
    job = SuiteJob(
        configuration=Configuration(engine="fast", concurrency=concurrency or None),
        round=1,
        target=TileTarget(tile=None, band=1, shape=out.shape[1:], dtype="uint16"),
        stores=stores or StoreSettings(),
        warm_up=False,
        header_nbytes=None,
        keep_in=None,
        hrefs=tuple(hrefs),
    )
    engine_fast.read_all(job, out, sheet, packed_headers=packed_headers or {})
    assert not sheet.failures, sheet.failures[0]
