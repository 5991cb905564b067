"""Gives back the space of shards that appends have continued, and removes former versions."""

import io
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import product
from typing import Any

import msgspec
import obstore
from obstore.exceptions import BaseError

from pixel_gather.adapters.cube.growing_cube import GrowingZarrCube, version_key
from pixel_gather.adapters.cube.grown_shard import compacted
from pixel_gather.adapters.cube.row_table import ROWS_KEY, read_row_table, write_row_table
from pixel_gather.adapters.cube.zarr_cube import RECEIPT_KEY, ROOT_KEY
from pixel_gather.adapters.object_store.listed import listed
from pixel_gather.adapters.source_list.parquet_batches import damage_of
from pixel_gather.errors import StoreError
from pixel_gather.plan.cube_plan import claim_of
from pixel_gather.report.receipt import Receipt, ReceiptFile
from pixel_gather.stores import FoundCube, StoredObject
from pixel_gather.use_cases.append import complete_cube
from pixel_gather.use_cases.row_claim import RowClaim, check_claimed, take_claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What a compaction has done."""

    n_shards: int
    """Shards that were written again."""

    freed_nbytes: int
    version: int
    """Number of the cube's version now."""


async def compact_cube(cube: GrowingZarrCube) -> Compacted:
    """Write shards again without the bytes that only former objects named. The result is a new version.

    Former versions stay: their rows are in the new objects, too. A reader may still
    hold an older index of a shard in memory. It then reads wrong bytes, and most likely gets a checksum or a
    codec error.

    Raises:
        AppendRunningError: An append is at work.
        RequestError: There is no complete cube.
    """
    found = await complete_cube(cube)
    version = found.version + 1
    now = time.time()
    wanted = RowClaim(
        claim=f"{version:05d}-{claim_of(now)}",
        digest=f"compaction of version {found.version}",
        planned_at=now,
        first_row=found.versions[-1].n_rows,
        n_rows=found.versions[-1].n_rows,
    )
    crowded = list(_continued_shards(found))
    if not crowded:
        return Compacted(n_shards=0, freed_nbytes=0, version=found.version)
    claim = await take_claim(cube, version, wanted)

    async def still_ours() -> None:
        await check_claimed(cube, version, claim.claim)

    freed = [await _compact_shard(cube, key, grid, still_ours) for key, grid in crowded]
    n_shards = sum(each > 0 for each in freed)
    await _commit(cube, found, still_ours)
    return Compacted(n_shards=n_shards, freed_nbytes=sum(freed), version=version)


def _continued_shards(found: FoundCube) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield key and grid of chunks of the shards that an append may have continued."""
    template = found.template
    assert template is not None  # noqa: S101 # the cube is complete
    layout = template.layout
    since = max((n for n, each in enumerate(found.versions) if each.kind == "compact"), default=0)
    ends = [each.n_rows for each in found.versions[since:-1]]
    rows = sorted({end // layout.shard[0] for end in ends if end % layout.shard[0]})
    grid = tuple(whole // part for whole, part in zip(layout.shard, layout.chunk, strict=True))
    for measurement, row in product(template.measurements, rows):
        yield f"{measurement.name}/c/{row}/0/0", grid


async def _compact_shard(
    cube: GrowingZarrCube, key: str, grid: tuple[int, ...], still_ours: Callable[[], Awaitable[None]]
) -> int:
    """Write a shard again if it has bytes that its index does not name. Return how many."""
    while True:
        there = await cube.read_object(key)
        if there is None:  # it was lost
            return 0
        content = b"".join(compacted(there.content, grid))
        if len(content) == len(there.content):
            return 0
        await still_ours()
        if await cube.put_object(key, content, replaces=there):
            return len(there.content) - len(content)


async def _commit(cube: GrowingZarrCube, found: FoundCube, still_ours: Callable[[], Awaitable[None]]) -> None:
    """Put the table of rows with the shards' new ETags, the receipt, and the group's metadata."""
    root, table, receipt = [await _needed(cube, key) for key in (ROOT_KEY, ROWS_KEY, RECEIPT_KEY)]
    version = found.version + 1
    rows = _table_again(cube, table.content, version)
    told = msgspec.json.decode(receipt.content, type=Receipt)
    file = ReceiptFile(nbytes=len(rows), sha256=sha256(rows).hexdigest())
    told = replace(told, files=told.files | {ROWS_KEY: file}, version=version)
    await still_ours()
    for key, content, there in ((ROWS_KEY, rows, table), (RECEIPT_KEY, told.to_bytes(), receipt)):
        if not await cube.put_object(key, content, replaces=there):
            raise StoreError(f"{cube.place}: {key} has changed meanwhile: run again")
    await cube.put_object(version_key(found.version), root.content, replaces=None)
    await still_ours()
    if not await cube.put_object(ROOT_KEY, _root_again(root.content, found), replaces=root):
        raise StoreError(f"{cube.place}: the cube has changed meanwhile: run again")


async def _needed(cube: GrowingZarrCube, key: str) -> StoredObject:
    there = await cube.read_object(key)
    if there is None:
        raise StoreError(f"{cube.place}: {key} is missing")
    return there


def _table_again(cube: GrowingZarrCube, content: bytes, version: int) -> bytes:
    with damage_of(f"{cube.place}: {ROWS_KEY}"):
        for _ in read_row_table(content)[1]:
            pass  # all of it can be read, so the writer meets no error
    metadata, batches = read_row_table(content)
    shards = []
    for key, _, _ in metadata["shards"]:
        meta = obstore.head(cube.store, key)
        shards.append((key, meta["size"], meta["e_tag"] or ""))
    file = io.BytesIO()
    write_row_table(batches, file, metadata=metadata | {"shards": shards, "version": version})
    return file.getvalue()


def _root_again(content: bytes, found: FoundCube) -> bytes:
    root: dict[str, Any] = json.loads(content)
    gather = json.loads(root["attributes"]["pixel_gather"])
    last = found.versions[-1]
    added = replace(
        last,
        number=last.number + 1,
        committed_at=datetime.now(UTC).isoformat(timespec="microseconds"),
        n_sources=0,
        n_failed=0,
        n_skipped=0,
        kind="compact",
    )
    gather["versions"] = [each.to_json() for each in (*found.versions, added)]
    root["attributes"]["pixel_gather"] = json.dumps(gather)
    return json.dumps(root).encode()


def kept_versions(cube: GrowingZarrCube, found: FoundCube) -> frozenset[int]:
    """Return the numbers of the versions that can be opened. Blocks."""
    try:
        there = {item["path"] for item in listed(cube.store, "versions/")}
    except (BaseError, OSError) as error:
        raise StoreError(f"{cube.place}: the versions cannot be listed: {error}") from error
    kept = {each.number for each in found.versions if version_key(each.number) in there}
    return frozenset(kept | {found.version})


def forget_versions(cube: GrowingZarrCube, numbers: frozenset[int]) -> None:
    """Remove what former versions need to be opened. Their rows stay: later versions have them. Blocks."""
    try:
        obstore.delete(cube.store, [version_key(number) for number in sorted(numbers)])
    except (BaseError, OSError) as error:
        raise StoreError(f"{cube.place}: a version cannot be removed: {error}") from error
