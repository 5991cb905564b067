"""The control files that the steps of a gather leave for one another."""

import asyncio
import hashlib
from collections.abc import Awaitable, Sequence
from typing import Any, Final

import msgspec

from pixel_gather.core.errors import ArrayExistsError, StoreError
from pixel_gather.core.model.outcome import ShardResult
from pixel_gather.core.model.source import CubeRow
from pixel_gather.core.plan.chip_rows import ChipRows
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.stores import ControlStore, damaged_control, needed_file, unpack
from pixel_gather.core.task_group import all_of
from pixel_gather.engine.gather_context import GatherStores

# MessagePack: nodata and statistics are often NaN, which JSON does not have.
PLAN_KEY: Final = "plan.msgpack"
PLAN_FORMAT: Final = 12
"""Number of the plan's format. Raise it when `CubePlan`, a task or the way to cut shards changes."""

_HEAD: Final = b"plan "
_PLAN_HEAD: Final = b"%b%d\n" % (_HEAD, PLAN_FORMAT)
_NO_HEAD: Final = b"\xde"
"""Start of the plans from before there were formats: a map of more than 15 fields in MessagePack."""

TASKS_KEY: Final = "tasks.json"
LIST_KEY: Final = "sources.msgpack"

_SIDECARS: Final = "shards/"
_PartOfList: Final[Any] = list[CubeRow] | ChipRows
"""A task's part of the list."""


async def is_planned(control: ControlStore) -> bool:
    """Return whether a gather's control files exist. They expire some time after its end."""
    return await control.get(PLAN_KEY) is not None


async def load_plan(control: ControlStore) -> CubePlan:
    """Return the plan that `plan_gather` wrote."""
    return decode_plan(await needed_file(control, PLAN_KEY))


async def load_tasks(control: ControlStore) -> tuple[ShardTask, ...]:
    """Return the tasks that `plan_gather` wrote."""
    content = await needed_file(control, TASKS_KEY)
    try:
        return msgspec.json.decode(content, type=tuple[ShardTask, ...])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged_control(PLAN_KEY, error) from error  # without a plan, all is written again


async def find_committed(
    plan: CubePlan,
    tasks: Sequence[ShardTask],
    stores: GatherStores,
) -> dict[int, str]:
    """Return the keys of the committed tasks' sidecars, by the tasks' indexes; see `sidecar_key`."""
    etags, written = await both(
        stores.cube.shard_etags(plan), stores.control.list_(_SIDECARS, skip_empty=True)
    )
    found: dict[int, str] = {}
    for task in tasks:
        own = [etags.get(key) for key in task.object_keys(plan)]
        if own[0] is not None and None not in own and (key := sidecar_key(task.index, own[0])) in written:
            found[task.index] = key
    return found


async def read_committed(task: ShardTask, *, plan: CubePlan, stores: GatherStores) -> ShardResult | None:
    """Return the result that a task's sidecar holds, or None if the task is not committed."""
    etags = await all_of(stores.cube.etag_of(key) for key in task.object_keys(plan))
    if etags[0] is None or None in etags:
        return None
    key = sidecar_key(task.index, etags[0])
    content = await stores.control.get(key)
    return unpack(content, ShardResult, key=key) if content else None


def sidecar_key(index: int, etag: str) -> str:
    """Return the key of the sidecar that belongs to a version of a shard.

    Two workers may fill one shard at the same time. They may store different pixels, if a source was replaced
    or timed out for one of them. So a sidecar counts only for the objects that it was written with. An empty
    sidecar says that the version was given up; see `pixel_gather.engine.commit_shard`.

    Args:
        index: Index of the task.
        etag: ETag of the object of the first measurement.
    """
    version = hashlib.blake2b(etag.encode(), digest_size=8).hexdigest()
    return f"{_SIDECARS}{index:05d}-{version}.msgpack"


def encode_plan(plan: CubePlan) -> bytes:
    """Return the content of a plan's file. It begins with the number of its format."""
    return _PLAN_HEAD + msgspec.msgpack.encode(plan)


def decode_plan(content: bytes) -> CubePlan:
    """Return the plan from the content of its file.

    Raises:
        ArrayExistsError: Another version of Pixel Gather has written it. What it planned cannot be continued,
            as its shards may be cut in another way.
    """
    if not content.startswith(_PLAN_HEAD) and content.startswith((_HEAD, _NO_HEAD)):
        raise ArrayExistsError(
            "another version of Pixel Gather has planned this gather, and this one does not go on with "
            f"its {PLAN_KEY}: remove the unfinished cube or give another output.name, and submit it again"
        )
    return unpack(content.removeprefix(_PLAN_HEAD), CubePlan, key=PLAN_KEY)


async def read_rows(task: ShardTask, control: ControlStore) -> list[CubeRow]:
    """Return the rows of a task.

    Raises:
        StoreError: The list holds another number of rows for the task.
    """
    part = await control.get_range(LIST_KEY, task.list_start, task.list_stop)
    # without a plan, the list is written again
    told: list[CubeRow] | ChipRows = unpack(part, _PartOfList, key=PLAN_KEY)
    rows = told.rows() if isinstance(told, ChipRows) else told
    if len(rows) != task.n_rows:
        raise StoreError(f"task {task.index} has {task.n_rows} rows, its part of the list {len(rows)}")
    return rows


async def both[S, T](one: Awaitable[S], other: Awaitable[T]) -> tuple[S, T]:
    """Run both concurrently until both have ended. If both fail, raise the first one's error."""
    first, second = asyncio.ensure_future(one), asyncio.ensure_future(other)
    await asyncio.gather(first, second, return_exceptions=True)
    return first.result(), second.result()
