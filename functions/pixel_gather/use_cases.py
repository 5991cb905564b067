"""The three steps of a gather, joined up: plan it, gather each shard, finish it.

They run in process, on AWS and in its emulation, and nothing else differs. Data enters as the list
and the sources' bytes; it becomes shards of the cube, whose evidence lies in sidecars until
`finish_gather` makes coordinates of them and says that the cube is complete.
"""

import asyncio
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from pixel_gather.assemble import measure_row
from pixel_gather.coordinates import (
    CHUNK_ROWS,
    coordinate_values,
    coordinates_of,
    difference_coordinates,
    difference_values,
)
from pixel_gather.cube import CubePlan
from pixel_gather.errors import ArrayExistsError, StoreError
from pixel_gather.outcome import Outcome, ShardResult, lost, merged
from pixel_gather.plan import gather_digest, plan_cube
from pixel_gather.ports import Projector, Slots, SourceReader, SourceTable
from pixel_gather.read import Pixels, ShardBuffers, read_shard
from pixel_gather.report import Report, Tally
from pixel_gather.shards import ShardTask, cut_tasks, row_ranges
from pixel_gather.source import CubeRow
from pixel_gather.stores import ControlStore, CubeStore, FoundCube

if TYPE_CHECKING:  # pydantic costs a worker 0.2 s of its start
    from pixel_gather.request import GatherRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledShard:
    """A shard that is committed."""

    result: ShardResult
    is_new: bool
    """Whether this call filled it; else another had, and it was left as it was."""


_SIDECARS_AHEAD: Final = 32
_ROUNDING: Final = 1e-6
"""Of a share that decimal fractions spell, so that seven of a thousand are 0.007 of them."""


async def plan_gather(
    request: "GatherRequest",
    *,
    table: SourceTable,
    reader: SourceReader,
    projector: Projector,
    cube: CubeStore,
    control: ControlStore,
    max_task_nbytes: int,
) -> tuple[CubePlan, tuple[ShardTask, ...]]:
    """Plan a gather, claim the cube's place and write down what each worker has to do.

    Safe to run twice, one after the other or at the same time: whoever claims the place first decides, and
    the control files lie below that claim. What an earlier cube of this place has left there is ignored.

    Raises:
        RequestError: The request does not fit the sources.
        BudgetError: The plan is over a limit.
        ArrayExistsError: Another gather has claimed the place, or this one is complete.
    """
    found = await cube.found()
    if found is not None:
        _check_is_unfinished(found, gather_digest(request, table))
        if (earlier := await _planned(control.below(found.claim))) is not None:
            return earlier
    plan = await plan_cube(
        request,
        table=table,
        reader=reader,
        projector=projector,
        max_task_nbytes=max_task_nbytes,
        now=time.time() if found is None else found.planned_at,
    )
    plan = await cube.create(plan)
    await control.put(_CLAIM_KEY, plan.claim.encode())
    control = control.below(plan.claim)
    if (earlier := await _planned(control)) is not None:  # by whoever claimed the place meanwhile
        return earlier
    stops: list[int] = []
    await control.put_stream(_LIST_KEY, _list_in_shard_order(plan, table, stops))
    tasks = cut_tasks(plan, stops)
    await control.put(_TASKS_KEY, msgspec.json.encode(tasks))
    await control.put(_PLAN_KEY, msgspec.msgpack.encode(plan))  # last: it says that the rest is there
    return plan, tasks


async def _planned(control: ControlStore) -> tuple[CubePlan, tuple[ShardTask, ...]] | None:
    content = await control.get(_PLAN_KEY)
    return None if content is None else (_decoded_plan(content), await load_tasks(control))


async def check_claim(control: ControlStore, claim: str) -> None:
    """Refuse to go on with a gather whose cube was removed and has been planned anew since.

    Args:
        control: As it was given to `plan_gather`.
        claim: Of the plan at hand.

    Raises:
        ArrayExistsError: The cube is another's now.
        StoreError: Nobody has planned it, or the control files have expired.
    """
    if await _needed(control, _CLAIM_KEY) != claim.encode():
        raise ArrayExistsError(
            "the cube has been planned anew since this shard was cut: submit its request again instead of "
            "redriving"
        )


async def load_plan(control: ControlStore) -> CubePlan:
    """Return the plan that `plan_gather` wrote."""
    return _decoded_plan(await _needed(control, _PLAN_KEY))


async def load_tasks(control: ControlStore) -> tuple[ShardTask, ...]:
    """Return the tasks that `plan_gather` wrote."""
    return msgspec.json.decode(await _needed(control, _TASKS_KEY), type=tuple[ShardTask, ...])


async def gather_shard(
    task: ShardTask,
    *,
    plan: CubePlan,
    reader: SourceReader,
    projector: Projector,
    slots: Slots,
    buffers: ShardBuffers,
    cube: CubeStore,
    control: ControlStore,
    source_timeout_s: float,
    on_source: Callable[[Outcome], None] = lambda _: None,
) -> FilledShard:
    """Fill one shard of every measurement, then commit it by its sidecar.

    Safe to run twice: a shard that has been committed, before or meanwhile, is left as it is. So a worker for
    whom nobody waits any more, and whose sources time out, cannot write over what another has read.
    """
    if (committed := await _committed(task, control)) is not None:
        return FilledShard(result=committed, is_new=False)
    rows = await _rows_of(task, control)
    with buffers.borrowed(task) as arrays:
        started = time.perf_counter()
        outcomes = await read_shard(
            rows,
            arrays,
            plan=plan,
            task=task,
            reader=reader,
            projector=projector,
            slots=slots,
            source_timeout_s=source_timeout_s,
            on_source=on_source,
        )
        read = time.perf_counter()
        await asyncio.to_thread(_measure, arrays, outcomes)
        if (committed := await _committed(task, control)) is not None:
            return FilledShard(result=committed, is_new=False)
        stored_nbytes = 0
        for measurement, pixels in zip(plan.measurements, _per_measurement(arrays), strict=True):
            stored_nbytes += await cube.write_shard(plan, measurement, task.shard_key(plan), pixels)
    result = ShardResult(
        index=task.index,
        rows=outcomes,
        read_s=read - started,
        write_s=time.perf_counter() - read,
        stored_nbytes=stored_nbytes,
        peak_rss_mib=_peak_rss_mib(),
    )
    await control.put(_sidecar_key(task.index), msgspec.msgpack.encode(result))
    return FilledShard(result=result, is_new=True)


async def gathered_indexes(control: ControlStore) -> frozenset[int]:
    """Return which tasks have been committed."""
    return frozenset(int(key.rpartition("/")[2].partition(".")[0]) for key in await control.list_(_SIDECARS))


async def finish_gather(
    *,
    plan: CubePlan,
    tasks: Sequence[ShardTask],
    cube: CubeStore,
    control: ControlStore,
    concurrency: int,
    max_lost_share: float = 0.0,
) -> Report:
    """Make coordinates of the sidecars and say that the cube is complete.

    Memory holds one batch of rows and, for the report's medians, four numbers a source.

    Args:
        plan: The cube.
        tasks: All of its tasks, in order.
        cube: Where it lies.
        control: Where its sidecars are.
        concurrency: Sources that were read at one time, for the report.
        max_lost_share: Share of the tasks, 0 to 1, that may have left no sidecar; the rows of those are lost
            in the cube's status, whatever was stored of them.

    Raises:
        StoreError: More tasks than that have not been gathered; nothing says that the cube is complete.
    """
    missing = {task.index for task in tasks} - await gathered_indexes(control)
    if len(missing) > max_lost_share * len(tasks) + _ROUNDING:
        raise StoreError(
            f"{len(missing):,} of {len(tasks):,} shards have not been gathered, shard {min(missing)} among "
            "them: run the gather again to go on"
        )
    coordinates = coordinates_of(plan)
    await cube.create_coordinates(plan, coordinates)
    tally = Tally(plan=plan)
    batch: list[tuple[CubeRow, list[Outcome]]] = []
    written = 0
    strips = plan.layout.n_shards(plan.shape)[1]
    groups = [tasks[start : start + strips] for start in range(0, len(tasks), strips)]
    for first in range(0, len(groups), _SIDECARS_AHEAD):
        ahead = groups[first : first + _SIDECARS_AHEAD]
        for rows, results in await asyncio.gather(*(_evidence(plan, group, control) for group in ahead)):
            for result in results:
                if result is None:
                    tally.add_lost_shard()
                else:
                    tally.add_shard(result)
            for row, outcomes in rows:
                tally.add_row(row, outcomes)
                batch.append((row, outcomes))
            while len(batch) >= CHUNK_ROWS:
                await _write_batch(cube, plan, written, batch[:CHUNK_ROWS])
                written += CHUNK_ROWS
                del batch[:CHUNK_ROWS]
    if batch:
        await _write_batch(cube, plan, written, batch)
    report = tally.report(concurrency=concurrency)
    if report.nodata_differs or report.scaling_differs:
        await _write_differences(cube, plan, report, groups, control)
    await cube.complete(plan, report)
    return report


# MessagePack, for JSON has no NaN, which nodata and statistics often are.
_CLAIM_KEY: Final = "claim"
_PLAN_KEY: Final = "plan.msgpack"
_TASKS_KEY: Final = "tasks.json"
_LIST_KEY: Final = "sources.msgpack"
_SIDECARS: Final = "shards/"


def _check_is_unfinished(found: FoundCube, digest: str) -> None:
    if found.digest != digest:
        raise ArrayExistsError("a cube of another request or another list is there: choose another place")
    if found.report is not None:
        raise ArrayExistsError("the cube of this request is complete: there is nothing to gather")


async def _committed(task: ShardTask, control: ControlStore) -> ShardResult | None:
    content = await control.get(_sidecar_key(task.index))
    return None if content is None else msgspec.msgpack.decode(content, type=ShardResult)


def _sidecar_key(index: int) -> str:
    return f"{_SIDECARS}{index:05d}.msgpack"


def _decoded_plan(content: bytes) -> CubePlan:
    return msgspec.msgpack.decode(content, type=CubePlan)


async def _needed(control: ControlStore, key: str) -> bytes:
    content = await control.get(key)
    if content is None:
        raise StoreError(f"{key} is not there: the gather has not been planned, or was cleared away")
    return content


def _list_in_shard_order(plan: CubePlan, table: SourceTable, stops: list[int]) -> Iterator[bytes]:
    """Yield the list a shard at a time, noting in ``stops`` where each shard's part ends."""
    position = 0
    for start, stop in row_ranges(plan):
        part = msgspec.msgpack.encode(list(table.rows(start, stop)))
        position += len(part)
        stops.append(position)
        yield part


async def _rows_of(task: ShardTask, control: ControlStore) -> list[CubeRow]:
    part = await control.get_range(_LIST_KEY, task.list_start, task.list_stop)
    rows = msgspec.msgpack.decode(part, type=list[CubeRow])
    if len(rows) != task.n_rows:
        raise StoreError(f"task {task.index} has {task.n_rows} rows, its part of the list {len(rows)}")
    return rows


def _per_measurement(buffers: Sequence[Pixels]) -> list[Pixels]:
    """Return (row, y, x) of each measurement, in the plan's order."""
    return [band for buffer in buffers for band in buffer]


def _measure(buffers: Sequence[Pixels], outcomes: Sequence[Sequence[Outcome]]) -> None:
    for row, row_outcomes in enumerate(outcomes):
        for buffer, outcome in zip(buffers, row_outcomes, strict=True):
            outcome.bands = measure_row(buffer[:, row], outcome)


async def _evidence(
    plan: CubePlan, group: Sequence[ShardTask], control: ControlStore
) -> tuple[list[tuple[CubeRow, list[Outcome]]], list[ShardResult | None]]:
    """Return the rows of one range, each with its outcomes over all strips merged, and the tasks' results.

    The result of a task that left no sidecar is None, and its rows are lost.
    """
    rows = await _rows_of(group[0], control)
    n_bands = [len(slot.bands) for slot in plan.slots]
    results: list[ShardResult | None] = []
    strips: list[list[list[Outcome]]] = []
    for task in group:
        result = await _committed(task, control)
        results.append(result)
        strips.append(
            [lost(row, n_bands=n_bands, task_index=task.index) for row in rows]
            if result is None
            else result.rows
        )
    merged_rows = [
        (row, [merged(parts) for parts in zip(*outcomes, strict=True)])
        for row, *outcomes in zip(rows, *strips, strict=True)
    ]
    return merged_rows, results


async def _write_batch(
    cube: CubeStore, plan: CubePlan, start: int, batch: Sequence[tuple[CubeRow, list[Outcome]]]
) -> None:
    values = coordinate_values(plan, [row for row, _ in batch], [outcomes for _, outcomes in batch])
    await cube.write_rows(start, values)


async def _write_differences(
    cube: CubeStore,
    plan: CubePlan,
    report: Report,
    groups: Sequence[Sequence[ShardTask]],
    control: ControlStore,
) -> None:
    """Write what rows have of their own, in a second pass that few cubes need."""
    coordinates = difference_coordinates(plan, nodata=report.nodata_differs, scaling=report.scaling_differs)
    await cube.create_coordinates(plan, coordinates)
    start = 0
    for group in groups:
        rows, _ = await _evidence(plan, group, control)
        values = difference_values(plan, [outcomes for _, outcomes in rows])
        await cube.write_rows(start, {each.name: values[each.name] for each in coordinates})
        start += len(rows)


def _peak_rss_mib() -> float:
    """Return the most memory that this process has held; elsewhere than on Linux, its parent's may count."""
    if sys.platform == "linux":  # where getrusage tells of the process before exec, too
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split(maxsplit=1)[0]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
