"""Publishes what was staged as the next version of a cube.

Whoever publishes goes by the group's metadata that it saw when it began, and refuses any other:

1. It looks at some objects, then checks that the group's metadata are still those, then puts the objects.
   Each PUT succeeds only if its object has not changed since that look.
2. It keeps the former metadata of the group as a file of their own.
3. It replaces the group's metadata only if they are still those. This PUT is the commit.

Between a check and a PUT, another may commit. If that one does the same work, it has put the same bytes. If a
later version has replaced an object, the PUT fails. So nothing that is committed is replaced by older things.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from pixel_gather.core.claim import check_uncommitted
from pixel_gather.core.errors import ArrayExistsError
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cube_version import version_key
from pixel_gather.core.stores import ROOT_KEY, Content, CubeStore, FoundCube, StagedCube
from pixel_gather.engine.row_claim import check_row_claim

_AT_ONCE: Final = 64
"""All that a new cube of up to 16,384 rows consists of."""

_LONGEST_PAUSE_S: Final = 1.0

type Check = Callable[[], Awaitable[None]]
"""Raises an error if the work may not go on."""


async def publish(
    cube: CubeStore,
    plan: CubePlan,
    staged: StagedCube,
    *,
    found: FoundCube,
    seen: Mapping[str, str | None] = MappingProxyType({}),
) -> None:
    """Store what was staged. The group's metadata come last.

    Args:
        cube: Where the cube is.
        plan: What was staged.
        staged: Everything but pixels.
        found: The cube as it was when the finish began.
        seen: ETags of `planned_keys` as they were then.

    Raises:
        AlreadyCommittedError: The plan is committed, by this call's own PUT or by another.
        ArrayExistsError: The cube has another version now, or belongs to another plan.
    """

    async def still_ours() -> None:
        if await cube.etag_of(ROOT_KEY) != found.etag:
            check_uncommitted(await cube.found_among_files(), plan)
            raise ArrayExistsError(f"{cube.place}: the cube has changed meanwhile: run again")
        await check_row_claim(cube, plan)

    is_new = plan.append.is_first
    for keys in staged.phases(plan, found):
        # a new cube has only what its plan has put, which was seen, and what an earlier try has left
        absent = dict.fromkeys(keys) if is_new else {}
        await put_all(cube, keys, staged.content, still_ours=still_ours, seen={**absent, **seen})
    await commit(cube, staged.content(ROOT_KEY), found=found, still_ours=still_ours, is_checked_by_put=is_new)


def planned_keys(plan: CubePlan) -> list[str]:
    """Return the keys that the plan of a new cube has put, beside the group's; none for an append."""
    return [f"{each.name}/{ROOT_KEY}" for each in plan.arrays] if plan.append.is_first else []


async def put_all(
    cube: CubeStore,
    keys: Sequence[str],
    content: Callable[[str], Content],
    *,
    still_ours: Check,
    seen: Mapping[str, str | None] = MappingProxyType({}),
) -> None:
    """Put objects, each if it is as it was before the last check.

    Args:
        cube: Where.
        keys: Their keys.
        content: Returns what is put under a key.
        still_ours: Checks that the work may go on.
        seen: ETags of those that somebody has looked at before. None is put as if nothing were there.
    """
    in_turn = asyncio.Semaphore(_AT_ONCE)

    async def etag(key: str) -> str | None:
        async with in_turn:
            return await cube.etag_of(key)

    async def put(key: str, there: str | None) -> bool:
        async with in_turn:
            return await cube.put_object(key, content(key), replaces=there) is not None

    left, there = list(keys), dict(seen)
    while left:
        unseen = [key for key in left if key not in there]
        there |= zip(unseen, await asyncio.gather(*map(etag, unseen)), strict=True)
        await still_ours()
        were_put = await asyncio.gather(*(put(key, there[key]) for key in left))
        left = [key for key, was_put in zip(left, were_put, strict=True) if not was_put]
        there.clear()


async def commit(
    cube: CubeStore, root: Content, *, found: FoundCube, still_ours: Check, is_checked_by_put: bool = False
) -> None:
    """Replace the group's metadata, if they are still those that were found. Keep the former ones.

    Args:
        cube: Where.
        root: The new metadata of the group.
        found: The cube as it was when the work began.
        still_ours: Checks that the work may go on.
        is_checked_by_put: Whether the PUT alone checks as much: a new cube has no claim beside the group's
            metadata.

    Raises:
        Exception: From ``still_ours``. It is asked again after a PUT that was refused. After one whose answer
            was lost it says that the work is committed.
    """
    if found.version:
        former = await cube.read_object(ROOT_KEY)
        if former is not None and former.etag == found.etag:
            await cube.put_object(version_key(found.version), former.content, replaces=None)
    if not is_checked_by_put:
        await still_ours()
    while not await cube.put_object(ROOT_KEY, root, replaces=found.etag):
        await still_ours()
        await asyncio.sleep(random.uniform(0, _LONGEST_PAUSE_S))  # noqa: S311 # no secret
