"""Adds rows to a Zarr cube, so that the PUT of the group's metadata commits them.

Readers that hold the former metadata read the former rows: chunks of these keep their places in all objects.
"""

import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore

from pixel_gather.core.errors import ArrayExistsError, StoreError
from pixel_gather.core.plan.cube_plan import CubePlan, Measurement
from pixel_gather.core.read.read_shard import Pixels
from pixel_gather.core.stores import (
    ROOT_KEY,
    Content,
    EarlierRows,
    FoundCube,
    StagedCube,
    StoredObject,
    StoredShard,
)
from pixel_gather.io.cube.grown_shard import compacted, encode_added, index_nbytes
from pixel_gather.io.cube.zarr_cube import RECEIPT_KEY, UNIQUE_NBYTES, ZarrCube, found_cube
from pixel_gather.io.cube.zarr_metadata import changed_group
from pixel_gather.io.store.conditional_put import NO_ETAG, etag_of, put_if
from pixel_gather.io.store.listed import listed
from pixel_gather.io.store.object_store import Store
from pixel_gather.io.store.store_error_status import said_of_place

if TYPE_CHECKING:  # not in a worker's start
    from pixel_gather.core.results.row_coordinates import Values

_FENCE: Final = "fence"


@dataclass(frozen=True, slots=True)
class GrowingZarrCube:
    """Implements `pixel_gather.core.stores.GrowingCube` at the root of a store."""

    store: Store
    place: str
    """The location as the user wrote it, for messages."""

    async def found(self) -> FoundCube | None:
        """Return the cube at the location, or None if there is none."""
        return await ZarrCube(self.store, self.place).found_among_files()

    async def read_object(self, key: str) -> StoredObject | None:
        """Return an object of the cube."""
        try:
            answer = await obstore.get_async(self.store, key)
            content = bytes(await answer.bytes_async())
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            raise self._failed("read", error) from error
        return StoredObject(
            content=content,
            etag=answer.meta["e_tag"] or NO_ETAG,
            modified_at=answer.meta["last_modified"].timestamp(),
        )

    async def put_object(self, key: str, content: Content, *, replaces: str | None) -> str | None:
        """Put an object if its ETag is still this one; None: if there is none. Return its new ETag."""
        return await put_if(self.store, key, content, etag=replaces, failed=partial(self._failed, "written"))

    async def shard_etags(self, plan: CubePlan) -> Mapping[str, str]:
        """Return the ETags of all shards' objects."""
        return await ZarrCube(self.store, self.place).shard_etags(plan)

    async def etag_of(self, key: str) -> str | None:
        """Return the ETag of an object; None if there is none."""
        try:
            return await etag_of(self.store, key)
        except (BaseError, OSError) as error:
            raise self._failed("read", error) from error

    async def fence(self, claim: str, *, version: int) -> bool:
        """Note the claim in the group's metadata. Whoever has read them before cannot replace them."""
        there = await self.needed(ROOT_KEY)
        root = json.loads(there.content)
        if found_cube(root, place=self.place, etag=there.etag).version >= version:
            return False
        gather = json.loads(root["attributes"]["pixel_gather"])
        if gather.get(_FENCE) == claim:
            return True
        content = changed_group(root, gather | {_FENCE: claim})
        return await self.put_object(ROOT_KEY, content, replaces=there.etag) is not None

    async def write_added_shard(
        self,
        plan: CubePlan,
        measurement: Measurement,
        key: tuple[int, int, int],
        pixels: Pixels,
        *,
        n_before: int,
        replaces: str | None,
    ) -> StoredShard | None:
        """Put a shard that begins with all bytes of the former object, if that has rows of the cube."""
        path = f"{measurement.name}/c/{'/'.join(map(str, key))}"
        is_tail = plan.append is not None and path in plan.append.tails
        there = await self.needed(path) if is_tail or (n_before and replaces is not None) else None
        if there is not None and there.etag != replaces:
            return None
        former = b"" if there is None else there.content
        added = await encode_added(plan, measurement, pixels, n_before=n_before, former=former)
        if there is None and replaces is not None:
            former = os.urandom(UNIQUE_NBYTES)
        content = added.object_after(former)
        etag = await self.put_object(path, content, replaces=replaces)
        return None if etag is None else StoredShard(nbytes=len(content) - len(former), etag=etag)

    async def needed(self, key: str) -> StoredObject:
        """Return an object of the cube.

        Raises:
            StoreError: There is none.
        """
        there = await self.read_object(key)
        if there is None:
            raise StoreError(f"{self.place}: {key} is missing")
        return there

    async def row_table(self) -> tuple[Mapping[str, Any], Iterator[Mapping[str, "Values"]]]:
        """Return the metadata and the rows of ``rows.parquet``."""
        from pixel_gather.io.cube.row_table import ROWS_KEY, read_row_table  # noqa: PLC0415 # arro3
        from pixel_gather.io.parquet.parquet_batches import damage_of  # noqa: PLC0415 # as above

        content = (await self.needed(ROWS_KEY)).content
        with damage_of(f"{self.place}: {ROWS_KEY}"):
            metadata, batches = read_row_table(content)

        def rows() -> Iterator[Mapping[str, "Values"]]:
            with damage_of(f"{self.place}: {ROWS_KEY}"):
                yield from batches

        return metadata, rows()

    async def earlier_rows(self, plan: CubePlan) -> EarlierRows:
        """Read the report, the receipt, ``rows.parquet`` and ``headers.parquet``."""
        from pixel_gather.io.cube.row_table import ROWS_KEY, read_row_table  # noqa: PLC0415 # as above
        from pixel_gather.io.cube.stored_receipt import parse_receipt  # noqa: PLC0415 # for finish alone
        from pixel_gather.io.header_index import HEADERS_KEY, stored_entries  # noqa: PLC0415 # arro3
        from pixel_gather.io.parquet.parquet_batches import damage_of  # noqa: PLC0415 # as above

        found, table, receipt, headers = await asyncio.gather(
            self.found(),
            self.needed(ROWS_KEY),
            self.needed(RECEIPT_KEY),
            self.read_object(HEADERS_KEY),
        )
        report = None if found is None else found.complete_report()
        if report is None:
            raise ArrayExistsError(f"{self.place}: the cube was removed")

        def rows() -> Iterator[Mapping[str, "Values"]]:
            """Yield the rows of the cube. The table of an append that was not committed has more."""
            left = plan.first_row
            with damage_of(f"{self.place}: {ROWS_KEY}"):
                for batch in read_row_table(table.content)[1]:
                    yield {name: values[:left] for name, values in batch.items()}
                    left -= min(len(batch["href"]), left)
                    if not left:
                        return

        def entries() -> Iterator[Sequence[tuple[str, bytes]]]:
            if headers is not None:
                with damage_of(f"{self.place}: {HEADERS_KEY}"):
                    yield from stored_entries(headers.content)

        return EarlierRows(
            report=report,
            receipt=parse_receipt(receipt.content, self.place),
            rows=rows,
            headers=entries,
        )

    async def shards_beyond(self, found: FoundCube) -> Sequence[str]:
        """Return the keys of shards with chunks that lie beyond the cube's rows."""
        try:
            return await asyncio.to_thread(_shards_beyond, self.store, found)
        except (BaseError, OSError) as error:
            raise self._failed("read", error) from error

    def compacted_shard(self, content: bytes | None, grid: tuple[int, ...]) -> bytes:
        """Return a shard's object without the bytes that its index does not name."""
        return b"".join(compacted(content or b"", grid))

    async def compaction_files(self, found: FoundCube) -> Mapping[str, bytes]:
        """Return the table of rows, the receipt and the group's metadata of the compacted cube."""
        from pixel_gather.io.cube.compact_cube import compaction_files  # noqa: PLC0415 # arro3

        return await compaction_files(self, found)

    @contextmanager
    def staged(self) -> Iterator[StagedCube]:
        """Open an empty cube in a temporary folder. Its table of rows names the shards of this one."""
        from pixel_gather.io.cube.staged_cube import StagedZarrCube  # noqa: PLC0415 # arro3

        with TemporaryDirectory(prefix="pixel-gather-") as folder:
            yield StagedZarrCube(LocalStore(folder), self.place, shards_in=self.store)

    def _failed(self, verb: str, error: Exception) -> StoreError:
        return StoreError(f"{self.place} could not be {verb}: {said_of_place(error)}")


def _shards_beyond(store: Store, found: FoundCube) -> list[str]:
    assert found.template is not None  # noqa: S101 # the cube is complete
    layout, n_rows = found.template.layout, found.versions[-1].n_rows
    n_chunks = prod(whole // part for whole, part in zip(layout.shard, layout.chunk, strict=True))
    return [
        item["path"]
        for measurement in found.template.measurements
        for item in listed(store, f"{measurement.name}/c/")
        if int(item["path"].split("/")[2]) * layout.shard[0] >= n_rows
        and item["size"] > index_nbytes(n_chunks)
    ]
