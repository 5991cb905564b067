"""Writes a catalog: items first, then the columns that name them. The last PUT makes it valid."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

import numpy as np
import obstore

from pixel_gather.adapters.catalog.catalog_format import (
    N_PER_GROUP,
    CollectionExtent,
    Header,
    Origin,
    group_to_bytes,
    head_to_bytes,
)
from pixel_gather.adapters.catalog.spooled_items import SpooledItems
from pixel_gather.adapters.object_store.object_store import Store
from pixel_gather.catalog.columns import N_PER_BLOCK, BlockTable, Columns, block_to_bytes
from pixel_gather.errors import RequestError, StoreError

_N_KEPT: Final = 2
"""Versions of the items that stay: the new one, and the one that searches under way still read."""

_SECOND_US: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCatalog:
    """What was written."""

    n_scenes: int
    n_replaced: int
    """Items that a later one with the same collection and id has replaced."""

    nbytes: int
    """Size of columns and items."""


def columns_key(key: str) -> str:
    """Return the columns' name beside a catalog ``catalog.parquet``."""
    return f"{PurePosixPath(key).with_suffix('')}.columns"


def write_search_files(
    spooled: SpooledItems, store: Store, key: str, *, origins: Sequence[Origin] = ()
) -> WrittenCatalog:
    """Write what a search reads; whoever reads meanwhile sees the old catalog or the new one, whole.

    Args:
        spooled: The items.
        store: Where the catalog lies.
        key: Key of its Parquet file in the store; the other files lie beside it.
        origins: Where the items came from.

    Raises:
        RequestError: There is no item.
        StoreError: The store refused.
    """
    columns, which = spooled.ordered()
    if not len(which):
        raise RequestError("no scene was found, so there is nothing to catalog", field="catalog")
    stem = str(PurePosixPath(key).with_suffix(""))
    items_key = f"{stem}.{_digest(columns, spooled, which)}.items"
    offsets = [0]
    try:
        obstore.put(store, items_key, _groups(spooled, which, offsets))
        header = _header(columns, spooled, PurePosixPath(items_key).name, origins)
        head = head_to_bytes(header, BlockTable.of(columns), np.array(offsets, np.uint64))
        obstore.put(store, columns_key(key), _columns_file(head, columns))
        _remove_older(store, stem, items_key)
    except (obstore.exceptions.BaseError, OSError) as error:
        raise StoreError(f"the catalog could not be written: {str(error).partition(chr(10))[0]}") from error
    return WrittenCatalog(
        n_scenes=len(which),
        n_replaced=spooled.n_replaced,
        nbytes=offsets[-1] + len(head) + sum(values.nbytes for values in columns.values()),
    )


def _groups(spooled: SpooledItems, which: np.ndarray[Any, Any], offsets: list[int]) -> Iterator[bytes]:
    for start in range(0, len(which), N_PER_GROUP):
        content = group_to_bytes(spooled.read(which[start : start + N_PER_GROUP]))
        offsets.append(offsets[-1] + len(content))
        yield content


def _columns_file(head: bytes, columns: Columns) -> Iterator[bytes]:
    yield head
    n = len(columns["hash"])
    for start in range(0, n, N_PER_BLOCK):
        yield block_to_bytes(columns, start, min(start + N_PER_BLOCK, n))


def _header(columns: Columns, spooled: SpooledItems, items_key: str, origins: Sequence[Origin]) -> Header:
    return Header(
        n_scenes=len(columns["hash"]),
        items_key=items_key,
        extents=tuple(_extent(columns, number, name) for name, number in spooled.collections.items()),
        assets=tuple(sorted(spooled.asset_keys)),
        origins=tuple(origins),
    )


def _extent(columns: Columns, number: int, name: str) -> CollectionExtent:
    of_it = {column: values[columns["collection"] == number] for column, values in columns.items()}
    stops = of_it["start_us"] + of_it["duration_s"].astype(np.int64) * _SECOND_US
    return CollectionExtent(
        id=name,
        n_scenes=len(stops),
        box=(
            float(of_it["x0"].min()),
            float(of_it["y0"].min()),
            float(of_it["x1"].max()),
            float(of_it["y1"].max()),
        ),
        start_us=int(of_it["start_us"].min()),
        stop_us=int(stops.max()),
    )


def _digest(columns: Columns, spooled: SpooledItems, which: np.ndarray[Any, Any]) -> str:
    digest = hashlib.sha256()
    for values in columns.values():
        digest.update(values.tobytes())
    digest.update(spooled.digests(which))
    return digest.hexdigest()[:16]


def _remove_older(store: Store, stem: str, newest: str) -> None:
    """Remove the items of versions before the last one; a search that began long ago begins again."""
    folder = str(PurePosixPath(stem).parent)
    found = [
        (item["last_modified"], item["path"])
        for page in obstore.list(store, prefix=None if folder == "." else folder)
        for item in page
        if item["path"].startswith(f"{stem}.") and item["path"].endswith(".items")
    ]
    older = sorted((when, path) for when, path in found if path != newest)
    obstore.delete(store, [path for _, path in older[: len(older) - (_N_KEPT - 1)]])
