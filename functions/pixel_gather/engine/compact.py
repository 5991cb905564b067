"""Gives back the space of shards that appends have put rows into, and of those that abandoned ones have left.

A shard that an abandoned append has left beyond the rows is replaced by one without chunks, not removed. A
PUT has a condition, and stops if a later append has filled the shard meanwhile. A DELETE would not.
"""

import time
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import AppendRunningError
from pixel_gather.core.plan.cube_plan import claim_of
from pixel_gather.core.plan.cube_version import CubeVersion
from pixel_gather.core.stores import ROOT_KEY, CubeStore, FoundCube
from pixel_gather.engine.base_cube import find_growing_cube
from pixel_gather.engine.publish_version import Check, commit, put_all
from pixel_gather.engine.row_claim import RowClaim, check_claimed, claim_key, take_claim

_THEN: Final = "Run again when it is done"


class Compacted(Struct, frozen=True, kw_only=True):
    """What a compaction has done."""

    n_shards: int
    """Shards that were written again."""

    freed_nbytes: int
    version: int
    """Number of the cube's version now."""


async def compact_cube(cube: CubeStore) -> Compacted:
    """Write shards again without the bytes that only former objects named. The result is a new version.

    Shards beyond the rows, which an abandoned append has left, lose all of their chunks.

    Former versions stay: their rows are in the new objects, too. A reader may still
    hold an older index of a shard in memory. It then reads wrong bytes, and most likely gets a checksum or a
    codec error.

    Raises:
        AppendRunningError: An append is at work, was stopped within its commit, or was committed meanwhile.
        RequestError: There is no complete cube.
    """
    found = await find_growing_cube(cube, field="cube")
    version, template = found.version + 1, found.template
    assert template is not None  # noqa: S101 # the cube can grow
    crowded: list[str] = []
    left: Sequence[str] = ()
    if template.layout.is_sharded:  # without shards, no object has bytes that nobody needs
        shard_rows = template.layout.shard[0]
        rows = (*_find_ends(found, shard_rows), *await _find_retried_rows(cube, found))
        places = sorted({row // shard_rows for row in rows})
        crowded = [key for place in places for key in template.keys_at(place)]
        left = await cube.shards_beyond(found)
    is_begun = await cube.read_object(claim_key(version)) is not None
    if not (crowded or left or is_begun):
        return Compacted(n_shards=0, freed_nbytes=0, version=found.version)
    if is_begun:  # before an append loses its claim, which may have been stopped within its commit
        await cube.compaction_files(found)
    claim = await take_claim(cube, version, _claim_of(found), then=_THEN)
    found = await find_growing_cube(cube, field="cube")  # the claim may have changed the group's metadata

    async def still_ours() -> None:
        await _check_unchanged(cube, found, version)
        await check_claimed(cube, version, claim.claim)

    freed = [
        await _compact_shard(cube, key, template.chunk_grid, still_ours, is_left=key in left)
        for key in (*crowded, *left)
    ]
    files = dict(await cube.compaction_files(found))
    root = files.pop(ROOT_KEY)
    for key in files:  # the receipt comes last: it names the table
        await put_all(cube, [key], files.__getitem__, still_ours=still_ours)
    await commit(cube, root, found=found, still_ours=still_ours)
    return Compacted(n_shards=sum(each > 0 for each in freed), freed_nbytes=sum(freed), version=version)


def _claim_of(found: FoundCube) -> RowClaim:
    """Return the claim of a compaction. Another compaction of this version continues it."""
    now = time.time()
    return RowClaim(
        claim=f"{found.version + 1:05d}-{claim_of(now)}",
        digest=f"compaction of version {found.version}",
        planned_at=now,
        first_row=found.versions[-1].n_rows,
        n_rows=found.versions[-1].n_rows,
    )


def _find_ends(found: FoundCube, shard_rows: int) -> list[int]:
    """Return where versions ended within a shard of so many rows, which an append may have continued."""
    ends = (each.n_rows for each in _since_compaction(found)[:-1])
    return [end for end in ends if end % shard_rows]


async def _find_retried_rows(cube: CubeStore, found: FoundCube) -> list[int]:
    """Return the rows that were tried again."""
    if not any(each.n_retried for each in _since_compaction(found)):
        return []
    rows: list[int] = []
    start = 0
    for batch in (await cube.row_table())[1]:
        n_tries = batch["tries"].reshape(len(batch["href"]), -1).max(axis=1)
        rows += (start + np.flatnonzero(n_tries > 1)).tolist()
        start += len(n_tries)
    return rows


def _since_compaction(found: FoundCube) -> tuple[CubeVersion, ...]:
    since = max((n for n, each in enumerate(found.versions) if each.kind == "compact"), default=0)
    return found.versions[since:]


async def _check_unchanged(cube: CubeStore, found: FoundCube, version: int) -> None:
    if found.version != version - 1 or await cube.etag_of(ROOT_KEY) != found.etag:
        raise AppendRunningError(f"{cube.place}: the cube has changed meanwhile: run again")


async def _compact_shard(
    cube: CubeStore, key: str, grid: tuple[int, ...], still_ours: Check, *, is_left: bool = False
) -> int:
    """Write a shard again if it has bytes that nobody needs. Return how many.

    Args:
        cube: Where.
        key: Key of the shard.
        grid: Number of chunks in a shard, along each axis.
        still_ours: Checks that the work may go on.
        is_left: Whether none of its chunks is needed. If not, those are needed that its index names.
    """
    while True:
        there = await cube.read_object(key)
        if there is None:  # it was lost
            return 0
        content = cube.compacted_shard(None if is_left else there.content, grid)
        if len(content) == len(there.content):
            return 0
        await still_ours()
        if await cube.put_object(key, content, replaces=there.etag):
            return len(there.content) - len(content)
