"""Writes a catalog: items first, then the columns that name them. The last PUT makes it valid.

That PUT replaces only the version that the new one was made from. So of two writers, none loses what the
other has added.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any, Final

import numpy as np
import obstore
from msgspec import Struct

from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.scenes.columns import N_PER_BLOCK, BlockTable, Columns, block_to_bytes
from pixel_gather.io.event_loop import run
from pixel_gather.io.scenes.catalog_format import (
    N_PER_GROUP,
    CatalogHeader,
    CollectionExtent,
    Origin,
    columns_key,
    group_to_bytes,
    head_to_bytes,
    stem_of,
)
from pixel_gather.io.scenes.search_own_catalog import open_catalog
from pixel_gather.io.scenes.spooled_items import SpooledItems
from pixel_gather.io.store.conditional_put import etag_of, put_if
from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_error_status import errors_of_store

_MOST_PROPERTIES: Final = 1000
_NOT_WRITTEN: Final = "the catalog could not be written"


class WrittenCatalog(Struct, frozen=True, kw_only=True):
    """What was written."""

    etag: str
    """ETag of the columns."""

    n_scenes: int
    n_replaced: int
    """New items that a later one with the same collection and id has replaced."""

    nbytes: int
    """Size of columns and items."""


class PresentVersion(Struct, frozen=True, kw_only=True):
    """The version of a catalog that a new one replaces."""

    etag: str | None
    """ETag of its columns; None where there is no catalog yet."""

    header: CatalogHeader | None = None
    """None where there is none, or none that can be read."""


def write_search_files(
    spooled: SpooledItems, store: Store, key: str, *, origins: Sequence[Origin] = ()
) -> WrittenCatalog:
    """Write what a search reads, in place of whatever is there.

    Whoever reads meanwhile sees the old catalog or the new one, whole. The arguments and errors are those of
    `replace_version`.
    """
    while True:
        present = run(_present_version(store, key))
        if written := replace_version(spooled, store, key, origins=origins, present=present):
            return written


def replace_version(
    spooled: SpooledItems, store: Store, key: str, *, origins: Sequence[Origin], present: PresentVersion
) -> WrittenCatalog | None:
    """Write what a search reads, unless another version is there by now. Then return None.

    Raises:
        RequestError: There is no item.
        StoreError: The store refused.
    """
    columns, which = spooled.read_in_order()
    if not len(which):
        raise RequestError("no scene was found, so there is nothing to catalog", field="catalog")
    items_key = f"{stem_of(key)}.{_digest(columns, spooled, which, present)}.items"
    before = "" if present.header is None else present.header.items_key
    offsets = [0]
    with errors_of_store(_NOT_WRITTEN):
        obstore.put(store, items_key, _groups(spooled, which, offsets))
    header = _header(columns, spooled, PurePosixPath(items_key).name, before, origins)
    head = head_to_bytes(header, BlockTable.of(columns), np.array(offsets, np.uint64))
    etag = run(
        put_if(store, columns_key(key), _columns_file(head, columns), etag=present.etag, what=_NOT_WRITTEN)
    )
    if etag is None and (etag := _etag_if_there(store, key, items_key)) is None:
        return None
    if present.header is not None and present.header.items_before:
        _remove(store, str(PurePosixPath(key).with_name(present.header.items_before)))
    return WrittenCatalog(
        etag=etag,
        n_scenes=len(which),
        n_replaced=spooled.n_replaced,
        nbytes=offsets[-1] + len(head) + sum(values.nbytes for values in columns.values()),
    )


def _etag_if_there(store: Store, key: str, items_key: str) -> str | None:
    """Return the catalog's ETag if it names these items: the PUT's answer was lost, or a twin was faster.

    Otherwise nobody will name them, and they are removed.
    """
    now = run(_present_version(store, key))
    name = PurePosixPath(items_key).name
    named = ("", "") if now.header is None else (now.header.items_key, now.header.items_before)
    if name not in named:
        _remove(store, items_key)
    return now.etag if name == named[0] else None


async def present_etag(store: Store, key: str) -> str | None:
    """Return the ETag of a catalog's columns; None where there is no catalog.

    Raises:
        StoreError: The store refused.
    """
    with errors_of_store(f"{columns_key(key)} could not be read"):
        return await etag_of(store, columns_key(key))


async def _present_version(store: Store, key: str) -> PresentVersion:
    etag = await present_etag(store, key)
    if etag is None:
        return PresentVersion(etag=None)
    try:
        opened = await open_catalog(store, key, most_in_memory=0)
    except StoreError:  # it is damaged or of an older format, and about to be replaced
        return PresentVersion(etag=etag)
    return PresentVersion(etag=etag, header=opened.header)


def _remove(store: Store, items_key: str) -> None:
    with suppress(FileNotFoundError):
        obstore.delete(store, items_key)


def _groups(spooled: SpooledItems, which: np.ndarray[Any, Any], offsets: list[int]) -> Iterator[bytes]:
    for start in range(0, len(which), N_PER_GROUP):
        content = group_to_bytes(spooled.read(which[start : start + N_PER_GROUP]))
        offsets.append(offsets[-1] + len(content))
        yield content


def _columns_file(head: bytes, columns: Columns) -> list[bytes]:
    n = len(columns["hash"])
    starts = range(0, n, N_PER_BLOCK)
    return [head, *(block_to_bytes(columns, start, min(start + N_PER_BLOCK, n)) for start in starts)]


def _header(
    columns: Columns, spooled: SpooledItems, items_key: str, items_before: str, origins: Sequence[Origin]
) -> CatalogHeader:
    return CatalogHeader(
        n_scenes=len(columns["hash"]),
        items_key=items_key,
        items_before=items_before,
        extents=tuple(_extent(columns, number, name) for name, number in spooled.collections.items()),
        assets=tuple(sorted(spooled.asset_keys)),
        properties=tuple(sorted(spooled.properties)) if len(spooled.properties) <= _MOST_PROPERTIES else (),
        origins=tuple(origins),
    )


def _extent(columns: Columns, number: int, name: str) -> CollectionExtent:
    of_it = {column: values[columns["collection"] == number] for column, values in columns.items()}
    return CollectionExtent(
        id=name,
        n_scenes=len(of_it["hash"]),
        box=(
            float(of_it["x0"].min()),
            float(of_it["y0"].min()),
            float(of_it["x1"].max()),
            float(of_it["y1"].max()),
        ),
        start_us=int(of_it["start_us"].min()),
        stop_us=int(of_it["stop_us"].max()),
    )


def _digest(
    columns: Columns, spooled: SpooledItems, which: np.ndarray[Any, Any], present: PresentVersion
) -> str:
    """Return a name that no other version has, not even an earlier one with the same scenes."""
    digest = hashlib.sha256(f"{present.etag}".encode())
    for values in columns.values():
        digest.update(values.tobytes())
    digest.update(spooled.digests(which))
    return digest.hexdigest()[:16]
