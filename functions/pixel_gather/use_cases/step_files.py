"""The control files that the steps of a gather leave for one another."""

import asyncio
from collections.abc import Awaitable
from typing import Final

import msgspec

from pixel_gather.errors import StoreError
from pixel_gather.model.outcome import ShardResult
from pixel_gather.model.source import CubeRow
from pixel_gather.plan.cube_plan import CubePlan
from pixel_gather.plan.shards import ShardTask
from pixel_gather.stores import ControlStore, needed_file

# MessagePack: nodata and statistics are often NaN, which JSON does not have.
PLAN_KEY: Final = "plan.msgpack"
TASKS_KEY: Final = "tasks.json"
LIST_KEY: Final = "sources.msgpack"
FOUND_LIST_KEY: Final = "sources.parquet"
_SIDECARS: Final = "shards/"


async def is_planned(control: ControlStore) -> bool:
    """Return whether a gather's control files exist. They expire some time after its end."""
    return await control.get(PLAN_KEY) is not None


async def load_plan(control: ControlStore) -> CubePlan:
    """Return the plan that `plan_gather` wrote."""
    return decoded_plan(await needed_file(control, PLAN_KEY))


async def load_tasks(control: ControlStore) -> tuple[ShardTask, ...]:
    """Return the tasks that `plan_gather` wrote."""
    return msgspec.json.decode(await needed_file(control, TASKS_KEY), type=tuple[ShardTask, ...])


async def gathered_indexes(control: ControlStore) -> frozenset[int]:
    """Return the indexes of the committed tasks."""
    return frozenset(int(key.rpartition("/")[2].partition(".")[0]) for key in await control.list_(_SIDECARS))


async def committed_result(task: ShardTask, control: ControlStore) -> ShardResult | None:
    """Return the result that a task's sidecar holds, or None if the task is not committed."""
    content = await control.get(sidecar_key(task.index))
    return None if content is None else msgspec.msgpack.decode(content, type=ShardResult)


def sidecar_key(index: int) -> str:
    """Return the key of a task's sidecar."""
    return f"{_SIDECARS}{index:05d}.msgpack"


def decoded_plan(content: bytes) -> CubePlan:
    """Return the plan from the content of its file."""
    return msgspec.msgpack.decode(content, type=CubePlan)


async def rows_of(task: ShardTask, control: ControlStore) -> list[CubeRow]:
    """Return the rows of a task.

    Raises:
        StoreError: The list holds another number of rows for the task.
    """
    part = await control.get_range(LIST_KEY, task.list_start, task.list_stop)
    rows = msgspec.msgpack.decode(part, type=list[CubeRow])
    if len(rows) != task.n_rows:
        raise StoreError(f"task {task.index} has {task.n_rows} rows, its part of the list {len(rows)}")
    return rows


async def both[S, T](one: Awaitable[S], other: Awaitable[T]) -> tuple[S, T]:
    """Run both concurrently until both have ended. If both fail, raise the first one's error."""
    first, second = asyncio.ensure_future(one), asyncio.ensure_future(other)
    await asyncio.gather(first, second, return_exceptions=True)
    return first.result(), second.result()
