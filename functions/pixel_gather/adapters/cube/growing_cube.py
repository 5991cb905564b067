"""Adds rows to a Zarr cube, so that the PUT of the group's metadata commits them.

Readers that hold the former metadata read the former rows: chunks of these keep their places in all objects.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
import obstore
from obstore.exceptions import BaseError
from obstore.store import MemoryStore

from pixel_gather.adapters.cube.grown_shard import encode_added
from pixel_gather.adapters.cube.zarr_cube import RECEIPT_KEY, ROOT_KEY, UNIQUE_NBYTES, ZarrCube, found_cube
from pixel_gather.adapters.object_store.conditional_put import NO_ETAG, etag_of, put_if
from pixel_gather.adapters.object_store.object_store import Store
from pixel_gather.adapters.object_store.store_error_status import said_of_place
from pixel_gather.errors import ArrayExistsError, StoreError
from pixel_gather.plan.cube_plan import CubePlan, Measurement
from pixel_gather.read.read_shard import Pixels
from pixel_gather.stores import CubeStore, EarlierRows, FoundCube, StoredObject, StoredShard

if TYPE_CHECKING:  # not in a worker's start
    from pixel_gather.report.row_coordinates import Values

_AT_ONCE: Final = 16
_FENCE: Final = "fence"

type Check = Callable[[], Awaitable[None]]


def version_key(number: int) -> str:
    """Return the key under which a former version's group metadata are kept."""
    return f"versions/{number:05d}.json"


@dataclass(frozen=True, slots=True)
class GrowingZarrCube:
    """Implements `pixel_gather.stores.GrowingCube` at the root of a store."""

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
            content=content, etag=answer.meta["e_tag"], modified_at=answer.meta["last_modified"].timestamp()
        )

    async def put_object(self, key: str, content: bytes, *, replaces: StoredObject | None) -> str | None:
        """Put an object unless it has changed. Return its ETag."""
        return await self._put(key, content, None if replaces is None else replaces.etag)

    async def _put(self, key: str, content: bytes, etag: str | None) -> str | None:
        """Put an object if its ETag is still this one; None: if there is none. Return its new ETag."""
        return await put_if(self.store, key, content, etag=etag, failed=partial(self._failed, "written"))

    async def shard_etags(self, plan: CubePlan) -> Mapping[str, str]:
        """Return the ETags of all shards' objects."""
        return await ZarrCube(self.store, self.place).shard_etags(plan)

    async def _etag(self, key: str) -> str | None:
        try:
            return await etag_of(self.store, key)
        except (BaseError, OSError) as error:
            raise self._failed("read", error) from error

    async def fence(self, claim: str) -> bool:
        """Note the claim in the group's metadata. Whoever has read them before cannot replace them."""
        there = await self._root()
        root = json.loads(there.content)
        gather = json.loads(root["attributes"]["pixel_gather"])
        if gather.get(_FENCE) == claim:
            return True
        root["attributes"]["pixel_gather"] = json.dumps(gather | {_FENCE: claim})
        return await self.put_object(ROOT_KEY, json.dumps(root).encode(), replaces=there) is not None

    async def _root(self) -> StoredObject:
        there = await self.read_object(ROOT_KEY)
        if there is None:
            raise ArrayExistsError(f"{self.place}: the cube was removed")
        return there

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
        there = await self._needed(path) if is_tail or (n_before and replaces is not None) else None
        if there is not None and (there.etag or NO_ETAG) != replaces:
            return None
        former = b"" if there is None else there.content
        added = await encode_added(plan, measurement, pixels, n_before=n_before, former=former)
        if there is None and replaces is not None:
            former = os.urandom(UNIQUE_NBYTES)
        content = added.object_after(former)
        etag = await self._put(path, content, replaces)
        return None if etag is None else StoredShard(nbytes=len(content) - len(former), etag=etag)

    async def _needed(self, key: str) -> StoredObject:
        there = await self.read_object(key)
        if there is None:
            raise StoreError(f"{self.place}: {key} is missing")
        return there

    async def row_table(self) -> tuple[Mapping[str, Any], Iterator[Mapping[str, "Values"]]]:
        """Return the metadata and the rows of ``rows.parquet``."""
        from pixel_gather.adapters.cube.row_table import ROWS_KEY, read_row_table  # noqa: PLC0415 # arro3
        from pixel_gather.adapters.source_list.parquet_batches import damage_of  # noqa: PLC0415 # as above

        content = (await self._needed(ROWS_KEY)).content
        with damage_of(f"{self.place}: {ROWS_KEY}"):
            metadata, batches = read_row_table(content)

        def rows() -> Iterator[Mapping[str, "Values"]]:
            with damage_of(f"{self.place}: {ROWS_KEY}"):
                yield from batches

        return metadata, rows()

    async def earlier_rows(self, plan: CubePlan) -> EarlierRows:
        """Read the report, the receipt, ``rows.parquet`` and ``headers.parquet``."""
        from pixel_gather.adapters.cube.header_index import HEADERS_KEY, stored_entries  # noqa: PLC0415 # arro3
        from pixel_gather.adapters.cube.row_table import ROWS_KEY, read_row_table  # noqa: PLC0415 # as above
        from pixel_gather.adapters.source_list.parquet_batches import damage_of  # noqa: PLC0415 # as above
        from pixel_gather.report.receipt import Receipt  # noqa: PLC0415 # see above

        found, table, receipt, headers = await asyncio.gather(
            self.found(),
            self._needed(ROWS_KEY),
            self._needed(RECEIPT_KEY),
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
            receipt=msgspec.json.decode(receipt.content, type=Receipt),
            rows=rows,
            headers=entries,
        )

    def staged(self) -> CubeStore:
        """Return an empty cube in memory. Its table of rows names the shards of this one."""
        in_memory: Any = MemoryStore()
        return ZarrCube(in_memory, self.place, shards_in=self.store)

    async def publish(self, plan: CubePlan, staged: CubeStore, *, still_ours: Check) -> None:
        """Put coordinates, then arrays' metadata, then files, then the group's metadata."""
        assert isinstance(staged, ZarrCube)  # noqa: S101 # from `staged`
        assert plan.append is not None  # noqa: S101 # it is an append
        root = await self._root()
        arrays = json.loads(root.content)["consolidated_metadata"]["metadata"]
        if found_cube(json.loads(root.content), place=self.place).version != plan.append.version - 1:
            raise ArrayExistsError(f"{self.place}: another append was committed meanwhile: run again")
        objects = _objects(staged.store)
        commit = objects.pop(ROOT_KEY)
        first_chunk = plan.first_row // plan.append.chunk_rows
        for wanted in _PHASES:
            keys = [key for key in objects if wanted(key) and _is_new(key, plan.dim, arrays, first_chunk)]
            await self._put_all({key: objects[key] for key in keys}, still_ours)
        await self._put(version_key(plan.append.version - 1), root.content, None)
        await still_ours()
        if not await self.put_object(ROOT_KEY, commit, replaces=root):
            found = await self.found()
            if found is None or plan.digest not in {each.digest for each in found.versions}:
                raise ArrayExistsError(f"{self.place}: another append was committed meanwhile: run again")

    async def _put_all(self, objects: Mapping[str, bytes], still_ours: Check) -> None:
        """Put objects, each if it is as it was before the last look at the claim."""
        in_turn = asyncio.Semaphore(_AT_ONCE)

        async def etag(key: str) -> str | None:
            async with in_turn:
                return await self._etag(key)

        async def put(key: str, there: str | None) -> bool:
            async with in_turn:
                return await self._put(key, objects[key], there) is not None

        left: Sequence[str] = list(objects)
        while left:
            etags = await asyncio.gather(*map(etag, left))
            await still_ours()
            were_put = await asyncio.gather(*map(put, left, etags))
            left = [key for key, was_put in zip(left, were_put, strict=True) if not was_put]

    def _failed(self, verb: str, error: Exception) -> StoreError:
        return StoreError(f"{self.place} could not be {verb}: {said_of_place(error)}")


def _objects(store: Store) -> dict[str, bytes]:
    keys = [item["path"] for page in obstore.list(store) for item in page]
    return {key: bytes(obstore.get(store, key).bytes()) for key in sorted(keys)}


_PHASES: Final[tuple[Callable[[str], bool], ...]] = (
    lambda key: "/c/" in key or key.endswith("/c"),
    lambda key: key.endswith(f"/{ROOT_KEY}"),
    lambda key: "/" not in key and key != RECEIPT_KEY,
    lambda key: key == RECEIPT_KEY or key.startswith("versions/"),
)


def _is_new(key: str, dim: str, arrays: Mapping[str, Any], first_chunk: int) -> bool:
    """Return whether an append changes an object that was staged."""
    name, slash, rest = key.partition("/")
    if not slash or name == "versions" or name not in arrays:
        return True
    if (arrays[name].get("dimension_names") or [None])[0] != dim:
        return False  # the axes y and x, and the like
    _, _, place = rest.partition("c/")
    return not place or int(place.split("/")[0]) >= first_chunk
