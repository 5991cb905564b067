"""Searches a catalog by its columns. Items are read only for the scenes of the answer.

A catalog of up to 4,000,000 scenes is held in memory (48 bytes a scene). Of a larger one, only the table of
blocks is held. Blocks are fetched by range when a query needs them.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from copy import replace
from itertools import batched, islice
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec
import numpy as np
import obstore
from msgspec import Struct, field

from pixel_gather.core.area import box_of_item, unwrap_box, unwrapped_shape
from pixel_gather.core.errors import StoreError
from pixel_gather.core.kept_values import KeptValues
from pixel_gather.core.scenes.catalog_query import Position, SceneQuery
from pixel_gather.core.scenes.columns import (
    N_PER_BLOCK,
    BlockTable,
    Columns,
    Matches,
    block_nbytes,
    block_of_bytes,
    matches_in,
)
from pixel_gather.core.scenes.duplicates import without_duplicates
from pixel_gather.io.scenes.catalog_format import (
    HEAD_NBYTES,
    N_PER_GROUP,
    CatalogHeader,
    CatalogParts,
    columns_key,
    group_of_bytes,
    header_nbytes_of,
    parse_header,
)
from pixel_gather.io.store.conditional_put import NO_ETAG, etag_of
from pixel_gather.io.store.object_store import Store, strong_etag
from pixel_gather.io.store.store_error_status import errors_of_store, says_missing

type Item = dict[str, Any]


class ReplacedError(StoreError):
    """The version of the catalog that was opened is gone: open it again."""


class MissingCatalogError(StoreError):
    """There is no catalog at this place."""


MOST_IN_MEMORY: Final = 4_000_000
_BLOCKS_KEPT_NBYTES: Final = 40 << 20
_GROUPS_KEPT_NBYTES: Final = 24 << 20
"""A group of 64 items of Sentinel-2 takes 700 kB."""

_FOOTPRINTS_KEPT_NBYTES: Final = 8 << 20
_NBYTES_OF_A_SHAPE: Final = 1_000
_NBYTES_OF_A_POSITION: Final = 32

_N_AT_A_TIME: Final = 16
_N_LOOKED_AT: Final = 256
_N_GETS_TO_OPEN: Final = 3
_MOST_TIMES_REPLACED: Final = 20


class Page(Struct, frozen=True, kw_only=True):
    """Some scenes of an answer, newest first."""

    items: tuple[Item, ...]
    next: Position | None
    """Where the next page begins; None where this is the last one."""


class Catalog(Struct, kw_only=True, eq=False):
    """One version of a catalog, open for searches; belongs to one event loop. `open_catalog` makes it."""

    store: Store
    key: str
    etag: str | None
    """ETag of the columns. It changes with every version."""

    header: CatalogHeader
    table: BlockTable
    offsets: np.ndarray[Any, Any]
    """Where groups of items begin; the last one, where all end."""

    parts: CatalogParts
    blocks: memoryview | None
    """All blocks, if they are held."""

    n_gets: int = _N_GETS_TO_OPEN
    """Requests sent so far."""

    _fetched: KeptValues[int, Columns] = field(default_factory=lambda: KeptValues(_BLOCKS_KEPT_NBYTES))
    _groups: KeptValues[int, list[bytes]] = field(default_factory=lambda: KeptValues(_GROUPS_KEPT_NBYTES))
    _footprints: KeptValues[int, Any] = field(default_factory=lambda: KeptValues(_FOOTPRINTS_KEPT_NBYTES))

    async def matches(self, query: SceneQuery) -> Matches:
        """Return the scenes whose columns fit a query; of some, footprint or properties may still decide."""
        query = replace(query, known_collections=self.header.collections)
        found = []
        numbers = self.table.find_blocks(query).tolist()
        for some in batched(numbers, _N_AT_A_TIME, strict=False):
            blocks = await self._blocks_of(some)
            for number, block in zip(some, blocks, strict=True):
                first_row = number * N_PER_BLOCK
                found.append(
                    matches_in(block, query, first_row=first_row, collections=self.header.collections)
                )
        return Matches.joined(found)

    async def scenes(
        self, query: SceneQuery, *, n_expected: int = _N_LOOKED_AT
    ) -> AsyncIterator[tuple[Position, Item]]:
        """Yield the scenes of a query, newest first.

        ``n_expected`` scenes will most likely be taken, so as many items are read at first.
        """
        # which processing is the latest may be decided by a scene of an earlier page
        matches = await self.matches(replace(query, after=None) if query.is_latest else query)
        rivals = matches.rivals() if query.is_latest else {}
        if query.is_latest and query.after is not None:
            matches = matches.after(query.after)
        latest: dict[tuple[int, ...], set[int]] = {}
        n = n_expected
        ordered = matches.newest_first()
        while some := list(islice(ordered, n)):
            items = await self._items([row for row, _, _ in some])
            for (row, position, is_exact), item in zip(some, items, strict=True):
                if not self._fits(row, item, query, is_exact=is_exact):
                    continue
                if (rows := rivals.get(row)) is not None:
                    if rows not in latest:
                        latest[rows] = await self._latest(rows, query)
                    if row not in latest[rows]:
                        continue
                yield position, item
            n = _N_LOOKED_AT

    async def _latest(self, rows: tuple[int, ...], query: SceneQuery) -> set[int]:
        """Return those rows that fit a query and are the latest processing of their scene."""
        items = await self._items(list(rows))
        row_of = {
            id(item): row
            for row, item in zip(rows, items, strict=True)
            if self._fits(row, item, query, is_exact=False)
        }
        fitting = [item for item in items if id(item) in row_of]
        return {row_of[id(item)] for item in without_duplicates(fitting).items}

    def _fits(self, row: int, item: Item, query: SceneQuery, *, is_exact: bool) -> bool:
        """Look at what the columns do not tell: properties, the id itself, the footprint."""
        if query.ids and item["id"] not in query.ids:
            return False
        if not all(condition.holds_for(item["properties"]) for condition in query.where):
            return False
        if is_exact or query.area is None:
            return True
        return query.area.meets(self._footprint(row, item))

    def _footprint(self, row: int, item: Item) -> Any:
        """Return a footprint as one piece. Later searches look at the same scenes, as for the next page."""
        if (kept := self._footprints.get(row)) is not None:
            return kept
        import shapely  # noqa: PLC0415 # a quarter of a function's start, seldom needed
        from shapely.geometry import box, shape  # noqa: PLC0415 # as above

        geometry = item.get("geometry")
        if geometry is None:
            footprint = box(*unwrap_box(box_of_item(item["bbox"], field="bbox")))
        else:
            footprint = unwrapped_shape(shape(geometry))
        n_positions = shapely.count_coordinates(footprint)
        self._footprints.put(row, footprint, _NBYTES_OF_A_SHAPE + n_positions * _NBYTES_OF_A_POSITION)
        return footprint

    async def all_items(self) -> AsyncIterator[list[Item]]:
        """Yield every item in the catalog's order, a few groups at a time; none is kept."""
        for numbers in batched(range(self.header.n_groups), _N_AT_A_TIME, strict=False):
            for group in await asyncio.gather(*(self._fetched_group(number) for number in numbers)):
                yield [msgspec.json.decode(content) for content in group]

    async def page(self, query: SceneQuery, *, limit: int) -> Page:
        """Return the first scenes of a query.

        They begin behind its ``after``.
        """
        found: list[Item] = []
        last = None
        async for position, item in self.scenes(query, n_expected=limit + 1):
            if len(found) == limit:
                return Page(items=tuple(found), next=last)
            found.append(item)
            last = position
        return Page(items=tuple(found), next=None)

    async def _blocks_of(self, numbers: tuple[int, ...]) -> list[Columns]:
        if (held := self.blocks) is not None:
            return [
                block_of_bytes(held[slice(*self._block_extent(number))], self.header.n_in_block(number))
                for number in numbers
            ]
        return await asyncio.gather(*(self._block(number) for number in numbers))

    def _block_extent(self, number: int) -> tuple[int, int]:
        """Return the bytes of a block, from the beginning of the first one."""
        start = block_nbytes(number * N_PER_BLOCK)
        return start, start + block_nbytes(self.header.n_in_block(number))

    async def _block(self, number: int) -> Columns:
        n = self.header.n_in_block(number)
        start, stop = self._block_extent(number)
        if (kept := self._fetched.get(number)) is not None:
            return kept
        self.n_gets += 1
        first = self.parts.blocks
        content = await _range(self.store, columns_key(self.key), first + start, first + stop, self.etag)
        block = block_of_bytes(content, n)
        self._fetched.put(number, block, stop - start)
        return block

    async def _items(self, rows: list[int]) -> list[Item]:
        numbers = sorted({row // N_PER_GROUP for row in rows})
        groups = dict(zip(numbers, await asyncio.gather(*map(self._group, numbers)), strict=True))
        return [msgspec.json.decode(groups[row // N_PER_GROUP][row % N_PER_GROUP]) for row in rows]

    async def _group(self, number: int) -> list[bytes]:
        if (kept := self._groups.get(number)) is not None:
            return kept
        group = await self._fetched_group(number)
        self._groups.put(number, group, sum(map(len, group)))
        return group

    async def _fetched_group(self, number: int) -> list[bytes]:
        self.n_gets += 1
        start, stop = int(self.offsets[number]), int(self.offsets[number + 1])
        items_key = str(PurePosixPath(self.key).with_name(self.header.items_key))
        try:
            content = await _range(self.store, items_key, start, stop, None)
        except ReplacedError as error:
            with errors_of_store(f"{items_key} could not be read"):
                present = await etag_of(self.store, columns_key(self.key))
            if present != (self.etag or NO_ETAG):
                raise
            raise StoreError(
                f"{items_key} is missing, so the catalog is damaged; make it anew with pixel-gather catalog"
            ) from error
        return group_of_bytes(content, name=items_key)


async def open_catalog(
    store: Store, key: str, *, place: str | None = None, most_in_memory: int = MOST_IN_MEMORY
) -> Catalog:
    """Open the newest version of a catalog; again if it is replaced meanwhile.

    The other files lie beside the Parquet file of this key. Up to ``most_in_memory`` scenes, all columns are
    held. Errors call the file by its place, or else by its key.

    Raises:
        MissingCatalogError: There is none.
        StoreError: It is damaged, or its store does not answer.
    """
    for _ in range(_MOST_TIMES_REPLACED):
        with suppress(ReplacedError):
            return await _open_newest(store, key, place or key, most_in_memory)
    return await _open_newest(store, key, place or key, most_in_memory)


async def _open_newest(store: Store, key: str, place: str, most_in_memory: int) -> Catalog:
    folder, slash, file = place.rpartition("/")
    columns, name = columns_key(key), f"{folder}{slash}{columns_key(file)}"
    with errors_of_store(f"{name} could not be read"):
        try:
            answer = await obstore.get_async(store, columns, options={"range": (0, HEAD_NBYTES)})
            head = bytes(await answer.bytes_async())
        except (obstore.exceptions.BaseError, OSError) as error:
            if not says_missing(error, may_list=True):
                raise
            said = f"there is no catalog at {place}"
            with suppress(obstore.exceptions.BaseError, OSError):
                await obstore.head_async(store, key)
                said = f"{place} is no catalog, as {name.rpartition('/')[2]} is not beside it"
            raise MissingCatalogError(f"{said}; make one with pixel-gather catalog") from error
    etag, nbytes = answer.meta["e_tag"], answer.meta["size"]
    header_nbytes = header_nbytes_of(head, name=name)
    content = await _range(store, columns, HEAD_NBYTES, HEAD_NBYTES + header_nbytes, etag)
    header = parse_header(content, name=name)
    parts = CatalogParts.after(header_nbytes, header)
    if nbytes != parts.stop:
        raise StoreError(f"{name} is damaged: it has {nbytes:,} bytes instead of {parts.stop:,}")
    is_held = header.n_scenes <= most_in_memory
    content = await _range(store, columns, parts.table, parts.stop if is_held else parts.blocks, etag)
    n_before_blocks = parts.blocks - parts.table
    return Catalog(
        store=store,
        key=key,
        etag=etag,
        header=header,
        table=BlockTable.of_bytes(content, header.n_blocks),
        offsets=np.frombuffer(content, "<u8", count=header.n_groups + 1, offset=parts.offsets - parts.table),
        parts=parts,
        blocks=content[n_before_blocks:] if is_held else None,
    )


async def _range(store: Store, key: str, start: int, stop: int, etag: str | None) -> memoryview:
    """Read bytes [start, stop) of one version of a file, without a copy."""
    if start == stop:
        return memoryview(b"")
    options: dict[str, Any] = {"range": (start, stop)}
    if (strong := strong_etag(etag)) is not None:
        options["if_match"] = strong
    with errors_of_store(f"{key} could not be read"):
        try:
            answer = await obstore.get_async(store, key, options=options)  # type: ignore[arg-type] # a plain dict
            return memoryview(await answer.bytes_async())
        except FileNotFoundError as error:
            raise ReplacedError(f"{key} is gone: the catalog was replaced; search again") from error
        except obstore.exceptions.PreconditionError as error:
            raise ReplacedError(f"{key} was replaced; search again") from error
