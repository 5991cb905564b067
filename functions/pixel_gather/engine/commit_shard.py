"""Stores the objects of a task and commits them, even if other workers do the same task at the same time.

A worker that was given up may still run, and its PUTs may arrive late. So the rules are:

1. A worker looks at the object, then checks the claim, then puts. The PUT succeeds only if the object has not
   changed since that look. The check stops a worker whose version the cube has reached: what it found may be
   an object that a later append has continued.
2. The first object of a task says whose turn it is. A worker puts it first, then the others, then the
   sidecar. The sidecar belongs to one version of the first object. Only one sidecar can ever be put for each
   version.
3. A worker may find the first object without a sidecar. It then puts an empty sidecar for that object. If the
   store refuses, the other worker has committed the task. If the store accepts, the other worker can never
   commit it, and its objects may be replaced.
4. An object that replaces another has bytes that no object had before. So each version has its own ETag.

Hence nothing replaces the objects of a committed task, whatever arrives late.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from typing import Any, Final, Self

import msgspec

from pixel_gather.core.errors import BusyError, StoreError
from pixel_gather.core.model.outcome import ShardResult
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.stores import ControlStore, CubeStore, StoredShard, unpack
from pixel_gather.core.task_group import all_of
from pixel_gather.engine.gather_context import GatherStores
from pixel_gather.engine.step_files import is_planned, sidecar_key

_MOST_ROUNDS: Final = 50
_LONGEST_PAUSE_S: Final = 1.0
_IN_TURN: Final = "others write shard {} at the same time: run again"

type Put = Callable[[int, str | None], Awaitable[StoredShard | None]]
"""Puts the object of an array, by its index, if the present one has this ETag, or if None is there.
Returns None if it was not put."""


async def commit_shard(
    task: ShardTask,
    *,
    plan: CubePlan,
    stores: GatherStores,
    put: Put,
    check_claim: Callable[[], Awaitable[None]],
    result_of: Callable[[Sequence[StoredShard]], ShardResult],
    first_look: Awaitable[list[str | None]] | None = None,
) -> tuple[ShardResult, bool]:
    """Store a task's objects and its sidecar, unless another worker has committed the task.

    Args:
        task: The shard.
        plan: The cube.
        stores: Where the objects and the control files of this plan are.
        put: Puts one object.
        check_claim: Raises an error if the rows are no longer this plan's, or are committed.
        result_of: Returns the result, from what was stored.
        first_look: An `EarlyLook`. None to look now.

    Returns:
        The result, and whether this call committed the task.

    Raises:
        BusyError: Other workers replace the objects again and again.
        StoreError: A store failed, or the gather has been completed and cleared away meanwhile.
    """
    keys, cube, control = task.object_keys(plan), stores.cube, stores.control
    for _ in range(_MOST_ROUNDS):
        etags = await (first_look or look_at_objects(keys, cube=cube, check_claim=check_claim))
        first_look = None
        if etags[0] is not None:
            if (theirs := await _settle(task, etags[0], control)) is not None:
                return theirs, False
            # The sidecar may have been cleared away since the last check, after a commit.
            await check_claim()
        stored = await _put_all(keys, etags, cube=cube, put=put)
        if stored is not None:
            result = result_of(stored)
            content = msgspec.msgpack.encode(result)
            if (
                await _put_once(control, sidecar_key(task.index, stored[0].etag), content, task=task)
                == content
            ):
                return result, True
        await _pause()
    raise BusyError(_IN_TURN.format(task.index))


async def look_at_objects(
    keys: Sequence[str], *, cube: CubeStore, check_claim: Callable[[], Awaitable[None]]
) -> list[str | None]:
    """Return the ETags of a task's objects, if its claim holds after the look.

    Raises:
        Exception: From ``check_claim``.
    """
    etags = await all_of(cube.etag_of(key) for key in keys)
    await check_claim()
    return etags


class EarlyLook:
    """The first `look_at_objects` of a worker. It takes no time if it begins while the last sources are read.

    The rules allow that: a PUT may arrive long after a look in any case.
    """

    def __init__(self, look: Callable[[], Coroutine[Any, Any, list[str | None]]]) -> None:
        self._look = look
        self._looking: asyncio.Task[list[str | None]] | None = None

    def begin(self) -> None:
        """Look, unless that has begun."""
        self._looking = self._looking or asyncio.ensure_future(self._look())

    def __await__(self) -> Generator[Any, None, list[str | None]]:
        """Return what was seen."""
        self.begin()
        assert self._looking is not None  # noqa: S101 # it has begun
        return self._looking.__await__()

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the look if the reading has failed."""
        if kind is not None and self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)


async def _settle(task: ShardTask, etag: str, control: ControlStore) -> ShardResult | None:
    """Return the result if a version of the first object is committed. If not, it never will be."""
    key = sidecar_key(task.index, etag)
    content = await control.get(key)
    if content is None:
        content = await _put_once(control, key, b"", task=task)
    if content:
        return unpack(content, ShardResult, key=key)
    if not await is_planned(control):  # the sidecar may have been cleared away with the plan
        raise StoreError("the gather was completed meanwhile")
    return None


async def _put_once(control: ControlStore, key: str, content: bytes, *, task: ShardTask) -> bytes:
    """Put a file that nobody can replace. Return its content: this one, or what was there."""
    for _ in range(_MOST_ROUNDS):
        if await control.put_new(key, content):
            return content
        if (there := await control.get(key)) is not None:
            return there
        await _pause()  # another PUT is on its way
    raise BusyError(_IN_TURN.format(task.index))


async def _put_all(
    keys: Sequence[str], etags: Sequence[str | None], *, cube: CubeStore, put: Put
) -> list[StoredShard] | None:
    """Put all objects, the first one first. Return None if another worker's turn has come."""
    stored: list[StoredShard] = []
    for index, (key, there) in enumerate(zip(keys, etags, strict=True)):
        seen = there
        while (done := await put(index, seen)) is None:
            if not stored:
                return None
            seen = await cube.etag_of(key)
            if await cube.etag_of(keys[0]) != stored[0].etag:
                return None
        stored.append(done)
    return stored


async def _pause() -> None:
    await asyncio.sleep(random.uniform(0, _LONGEST_PAUSE_S))  # noqa: S311 # no secret
