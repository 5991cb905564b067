"""The three steps of a gather: plan it, gather each shard, finish it.

The same steps run in process, on AWS and in the AWS emulator. `gather_shard` writes the pixels of one shard
and a sidecar file with its results. `finish_gather` turns all sidecars into coordinates and marks the cube as
complete.
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from itertools import batched
from math import inf
from typing import TYPE_CHECKING, Final

import msgspec

from pixel_gather.claim import check_can_continue, check_claim, check_found_claim, write_claim
from pixel_gather.errors import StoreError
from pixel_gather.headers.header_cache import (
    PACKED_HEADERS_KEY,
    PackedHeaders,
    gathered_headers,
    headers_in_shard_order,
    load_packed_headers,
    put_headers,
)
from pixel_gather.model.outcome import Outcome, ShardResult, lost, merged
from pixel_gather.model.source import CubeRow
from pixel_gather.model.status import Status
from pixel_gather.plan.cube_plan import CubePlan
from pixel_gather.plan.shards import ShardTask, cut_tasks, row_ranges
from pixel_gather.ports import Projector, SourceLimiter, SourceReader, SourceTable
from pixel_gather.process_usage import machine, peak_rss_mib
from pixel_gather.read.quicklook import QuicklookAlbum, take_quicklooks
from pixel_gather.read.read_shard import OnSource, Pixels, ShardBuffers, ignore, read_shard
from pixel_gather.read.statistics import measure_row
from pixel_gather.stores import ControlStore, CubeStore, needed_file

if TYPE_CHECKING:  # pydantic costs a worker 0.2 s of its start; what only plan and finish need, 7 ms
    from pixel_gather.estimate.workload import WorkerPool
    from pixel_gather.report.receipt import WrittenFile
    from pixel_gather.report.report import Report
    from pixel_gather.report.row_coordinates import Values
    from pixel_gather.request.request import GatherRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedShard:
    """What the control files contain for one task."""

    committed: ShardResult | None
    """The task's result if a worker has committed it, else None."""

    rows: tuple[CubeRow, ...]
    """The rows to read. Empty if the task is committed."""

    packed_headers: PackedHeaders = ()
    """Packed headers from a header index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledShard:
    """A committed shard."""

    result: ShardResult
    is_new: bool
    """Whether this call filled the shard. If not, another worker did, and this call changed nothing."""


_SIDECARS_AHEAD: Final = 32
_ROUNDING: Final = 1e-6
"""Tolerance for shares written as decimal fractions: 7 of 1,000 tasks must pass a limit of 0.007."""


async def plan_gather(
    request: "GatherRequest",
    *,
    table: SourceTable,
    reader: SourceReader,
    projector: Projector,
    cube: CubeStore,
    control: ControlStore,
    max_task_nbytes: int,
    deployment: "WorkerPool | None" = None,
) -> tuple[CubePlan, tuple[ShardTask, ...]]:
    """Plan a gather, claim the output location and write the control files for the workers.

    Safe to run twice, also at the same time: the first claim of the location wins. The control files are in a
    folder named after the claim. Files of an earlier cube at this location are ignored.

    Raises:
        RequestError: The request does not fit the sources.
        BudgetError: The plan is over a limit.
        ArrayExistsError: Another gather has claimed the location, or this gather is already complete.
    """
    from pixel_gather.plan.plan import gather_digest, plan_cube  # noqa: PLC0415 # not in a worker's start

    found = await cube.found()
    if found is not None:
        check_can_continue(found, gather_digest(request, table))
        if (earlier := await _planned(control.below(found.claim))) is not None:
            return earlier
    plan = await plan_cube(
        request,
        table=table,
        reader=reader,
        projector=projector,
        max_task_nbytes=max_task_nbytes,
        now=time.time() if found is None else found.planned_at,
        deployment=deployment,
    )
    plan = await cube.create(_described(plan, projector))
    await write_claim(control, plan.claim)
    control = control.below(plan.claim)
    if (earlier := await _planned(control)) is not None:  # another run has claimed the place meanwhile
        return earlier
    if (found_list := table.found_list()) is not None:
        await control.put(_FOUND_LIST_KEY, found_list)
    stops: list[int] = []
    await control.put_stream(_LIST_KEY, _list_in_shard_order(plan, table, stops))
    header_stops: list[int] = []
    if table.n_known:
        await control.put_stream(PACKED_HEADERS_KEY, headers_in_shard_order(plan, table, header_stops))
    tasks = cut_tasks(plan, stops, header_stops)
    await control.put(_TASKS_KEY, msgspec.json.encode(tasks))
    await control.put(_PLAN_KEY, msgspec.msgpack.encode(plan))  # last: it marks the other files as complete
    return plan, tasks


async def found_list_of(request: "GatherRequest", *, cube: CubeStore, control: ControlStore) -> bytes | None:
    """Return the list that an earlier, unfinished run of this request found; None if there is none.

    A gather that is continued reads this list and does not search again: meanwhile the catalog may name
    other scenes.

    Args:
        request: The request.
        cube: Where its cube is to be.
        control: The store that is given to `plan_gather`.
    """
    if not request.sources.are_searched:
        return None
    found = await cube.found()
    if found is None or found.report is not None or not found.digest.startswith(request.digest()):
        return None
    return await control.below(found.claim).get(_FOUND_LIST_KEY)


async def _planned(control: ControlStore) -> tuple[CubePlan, tuple[ShardTask, ...]] | None:
    """Return the plan and the tasks that an earlier run wrote, or None."""
    content = await control.get(_PLAN_KEY)
    if content is None:
        return None
    return _decoded_plan(content), await load_tasks(control)


def _described(plan: CubePlan, projector: Projector) -> CubePlan:
    """Return the plan with the description of its CRS, if it has one."""
    crs = plan.placement.crs
    return plan if crs is None else replace(plan, crs=projector.describe(crs))


async def is_planned(control: ControlStore) -> bool:
    """Return whether a gather's control files exist. They expire some time after its end."""
    return await control.get(_PLAN_KEY) is not None


async def load_plan(control: ControlStore) -> CubePlan:
    """Return the plan that `plan_gather` wrote."""
    return _decoded_plan(await needed_file(control, _PLAN_KEY))


async def load_tasks(control: ControlStore) -> tuple[ShardTask, ...]:
    """Return the tasks that `plan_gather` wrote."""
    return msgspec.json.decode(await needed_file(control, _TASKS_KEY), type=tuple[ShardTask, ...])


async def load_shard(task: ShardTask, control: ControlStore) -> LoadedShard:
    """Return a task's result if it is committed, else its rows. All requests are sent at one time.

    Raises:
        StoreError: A request failed. A failed read of the rows is ignored if the task is committed.
    """
    committing = asyncio.ensure_future(_committed(task, control))
    listing = asyncio.ensure_future(_rows_of(task, control))
    headers = asyncio.ensure_future(load_packed_headers(task, control))
    await asyncio.gather(committing, listing, headers, return_exceptions=True)
    if (committed := committing.result()) is not None:
        return LoadedShard(committed=committed, rows=())
    return LoadedShard(committed=None, rows=tuple(listing.result()), packed_headers=headers.result())


async def gather_shard(
    task: ShardTask,
    *,
    plan: CubePlan,
    reader: SourceReader,
    projector: Projector,
    limiter: SourceLimiter,
    buffers: ShardBuffers,
    cube: CubeStore,
    control: ControlStore,
    source_timeout_s: float,
    on_source: OnSource = ignore,
    loaded: LoadedShard | None = None,
    claims: ControlStore | None = None,
    read_until: float = inf,
) -> FilledShard:
    """Fill one shard of every measurement, then commit it by writing its sidecar.

    Safe to run twice: a committed shard is never changed. So an abandoned worker, whose sources time out,
    cannot overwrite what another worker has read.

    Args:
        task: The shard.
        plan: The cube.
        reader: Opens the sources.
        projector: For boxes and points.
        limiter: Limits how many sources are read at one time.
        buffers: Memory for the pixels.
        cube: Where the pixels are written.
        control: Control files below the plan's claim.
        source_timeout_s: Longest time for one source, retries included.
        on_source: Called after each source.
        loaded: Result of `load_shard`, if the caller has it already.
        claims: Control files as given to `plan_gather`, to check the claim again before writing.
        read_until: Time of the event loop. Sources not read by then time out.

    Raises:
        ArrayExistsError: The cube was removed and planned again while the sources were read.
        BusyError: This machine is busy. Nothing was written.
        StoreError: A store failed.
    """
    loaded = loaded or await load_shard(task, control)
    if loaded.committed is not None:
        return FilledShard(result=loaded.committed, is_new=False)
    rows = loaded.rows
    with buffers.borrowed(task) as arrays:
        started = time.perf_counter()
        outcomes = await read_shard(
            rows,
            arrays,
            plan=plan,
            task=task,
            reader=reader,
            projector=projector,
            limiter=limiter,
            source_timeout_s=source_timeout_s,
            on_source=on_source,
            packed_headers=loaded.packed_headers,
            read_until=read_until,
        )
        read = time.perf_counter()
        await _measure(arrays, outcomes)
        pictures = take_quicklooks(
            [band for slot in arrays for band in slot], plan=plan, task=task, were_read=_were_read(outcomes)
        )
        committed = await _committed_meanwhile(task, plan, control, claims)
        if committed is not None:
            return FilledShard(result=committed, is_new=False)
        measured = time.perf_counter()
        stored_nbytes, _ = await _both(
            _write_shards(task, plan, arrays, cube), put_headers(task, rows, outcomes, control)
        )
    result = ShardResult(
        index=task.index,
        rows=outcomes,
        read_s=read - started,
        measure_s=measured - read,
        write_s=time.perf_counter() - measured,
        stored_nbytes=stored_nbytes,
        peak_rss_mib=peak_rss_mib(),
        machine=machine(),
        pictures=pictures,
    )
    await control.put(_sidecar_key(task.index), msgspec.msgpack.encode(result))
    return FilledShard(result=result, is_new=True)


async def gathered_indexes(control: ControlStore) -> frozenset[int]:
    """Return the indexes of the committed tasks."""
    return frozenset(int(key.rpartition("/")[2].partition(".")[0]) for key in await control.list_(_SIDECARS))


async def finish_gather(
    *,
    plan: CubePlan,
    tasks: Sequence[ShardTask],
    cube: CubeStore,
    control: ControlStore,
    max_lost_share: float = 0.0,
) -> "Report":
    """Write the coordinates and the receipt from the sidecars, and mark the cube as complete.

    Memory holds one batch of rows and at most 32 MiB of quicklooks. It also holds five numbers per source,
    for the report's medians, and one digest per shard, for the receipt.

    Args:
        plan: The cube.
        tasks: All of its tasks, in order.
        cube: Where the cube is.
        control: Where its sidecars are.
        max_lost_share: Share of the tasks, 0 to 1, that may have no sidecar. Their rows get the status lost,
            even if pixels were stored.

    Returns:
        The report. If the cube is already complete, the report that it contains.

    Raises:
        ArrayExistsError: The cube was removed, and may have been planned again since. Nothing was changed.
        StoreError: More tasks than ``max_lost_share`` allows have no sidecar. The cube stays incomplete.
    """
    from pixel_gather.report.receipt import receipt_of, shard_digests  # noqa: PLC0415 # as above
    from pixel_gather.report.report import Tally  # noqa: PLC0415 # as above
    from pixel_gather.report.row_coordinates import (  # noqa: PLC0415 # not in a worker's start
        CHUNK_ROWS,
        coordinates_of,
        table_values,
    )

    found = check_found_claim(await cube.found(), plan)
    if (earlier := found.complete_report()) is not None:
        return earlier

    missing = {task.index for task in tasks} - await gathered_indexes(control)
    if len(missing) > max_lost_share * len(tasks) + _ROUNDING:
        raise StoreError(
            f"{len(missing):,} of {len(tasks):,} shards have not been gathered, shard {min(missing)} among "
            "them: run the gather again to go on"
        )
    coordinates = coordinates_of(plan)
    await cube.create_coordinates(plan, coordinates)
    tally, album = Tally(plan=plan), QuicklookAlbum(plan)
    shards: dict[str, str | None] = {}

    async def counted() -> AsyncIterator[_Rows]:
        in_order = iter(tasks)
        async for evidence, results in _all_evidence(plan, tasks, control):
            for result in results:
                shards.update(shard_digests(plan, next(in_order), result))
                if result is None:
                    tally.add_lost_shard()
                else:
                    tally.add_shard(result)
            for row, outcomes in evidence:
                tally.add_row(row, outcomes)
            album.add(
                _were_read([outcomes for _, outcomes in evidence]),
                [[] if result is None else result.pictures for result in results],
            )
            yield evidence

    names = [each.name for each in coordinates]
    writing = _written_rows(cube, counted(), CHUNK_ROWS, partial(table_values, plan), names)
    async with aclosing(writing) as batches:
        table = await cube.write_row_table(plan, batches)
    report = tally.report()
    if report.nodata_differs or report.scaling_differs or report.n_overhanging:
        await _write_differences(cube, plan, report, tasks, control)
    headers, pictures = await _both(
        cube.write_headers(gathered_headers(tasks, control)), _write_quicklooks(album, cube)
    )
    found_list = await _write_found_list(plan, control, cube)
    files = [each for each in (table, headers, pictures, found_list) if each is not None]
    sources = None if table is None else table.key
    await cube.write_receipt(receipt_of(plan, report, shards=shards, files=files, sources=sources))
    await cube.complete(plan, report)
    return report


async def _write_found_list(plan: CubePlan, control: ControlStore, cube: CubeStore) -> "WrittenFile | None":
    content = await control.get(_FOUND_LIST_KEY) if plan.was_searched else None
    return None if content is None else await cube.write_found_list(content)


async def _write_quicklooks(album: QuicklookAlbum, cube: CubeStore) -> "WrittenFile | None":
    quicklooks = album.quicklooks()
    return await cube.write_quicklooks(quicklooks) if quicklooks else None


# MessagePack: nodata and statistics are often NaN, which JSON does not have.
_PLAN_KEY: Final = "plan.msgpack"
_TASKS_KEY: Final = "tasks.json"
_LIST_KEY: Final = "sources.msgpack"
_FOUND_LIST_KEY: Final = "sources.parquet"
_SIDECARS: Final = "shards/"


async def _committed_meanwhile(
    task: ShardTask, plan: CubePlan, control: ControlStore, claims: ControlStore | None
) -> ShardResult | None:
    """Return the result if another worker has committed the task. Raise an error if the claim changed."""
    if claims is None:
        return await _committed(task, control)
    _, committed = await _both(check_claim(claims, plan.claim), _committed(task, control))
    return committed


async def _committed(task: ShardTask, control: ControlStore) -> ShardResult | None:
    content = await control.get(_sidecar_key(task.index))
    return None if content is None else msgspec.msgpack.decode(content, type=ShardResult)


def _sidecar_key(index: int) -> str:
    return f"{_SIDECARS}{index:05d}.msgpack"


def _decoded_plan(content: bytes) -> CubePlan:
    return msgspec.msgpack.decode(content, type=CubePlan)


def _list_in_shard_order(plan: CubePlan, table: SourceTable, stops: list[int]) -> Iterator[bytes]:
    """Yield the encoded list shard by shard. Append the end position of each part to ``stops``."""
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
    """Return one array (row, y, x) per measurement, in the plan's order."""
    return [band for buffer in buffers for band in buffer]


async def _write_shards(task: ShardTask, plan: CubePlan, buffers: Sequence[Pixels], cube: CubeStore) -> int:
    """Write the task's objects, one per measurement, one after another. Return their total size in bytes."""
    return sum(
        [
            await cube.write_shard(plan, measurement, task.shard_key(plan), pixels)
            for measurement, pixels in zip(plan.measurements, _per_measurement(buffers), strict=True)
        ]
    )


async def _both[S, T](one: Awaitable[S], other: Awaitable[T]) -> tuple[S, T]:
    """Run both concurrently until both have ended. If both fail, raise the first one's error."""
    first, second = asyncio.ensure_future(one), asyncio.ensure_future(other)
    await asyncio.gather(first, second, return_exceptions=True)
    return first.result(), second.result()


def _were_read(outcomes: Sequence[Sequence[Outcome]]) -> list[list[bool]]:
    """Return, for each row and slot, whether the source was read."""
    return [[outcome.status is Status.OK for outcome in row] for row in outcomes]


async def _measure(buffers: Sequence[Pixels], outcomes: Sequence[Sequence[Outcome]]) -> None:
    """Compute statistics and digests of all rows, in one thread per core."""
    n_threads = os.process_cpu_count() or 1

    def measure_some(first: int) -> None:
        for row in range(first, len(outcomes), n_threads):
            for buffer, outcome in zip(buffers, outcomes[row], strict=True):
                outcome.bands = measure_row(buffer[:, row], outcome)

    await asyncio.gather(*(asyncio.to_thread(measure_some, first) for first in range(n_threads)))


async def _evidence(
    plan: CubePlan, group: Sequence[ShardTask], control: ControlStore
) -> tuple[list[tuple[CubeRow, list[Outcome]]], list[ShardResult | None]]:
    """Return one range of rows with their outcomes, and the results of its tasks.

    Outcomes of several strips are merged. A task without a sidecar has the result None; its rows are lost.
    """
    n_bands = [len(slot.bands) for slot in plan.slots]
    rows, results = await _both(_rows_of(group[0], control), _results_of(group, control))
    strips = [
        [lost(row, n_bands=n_bands, task_index=task.index) for row in rows] if result is None else result.rows
        for task, result in zip(group, results, strict=True)
    ]
    y_starts = [task.y_start for task in group]
    merged_rows = [
        (row, [merged(parts, y_starts=y_starts) for parts in zip(*outcomes, strict=True)])
        for row, *outcomes in zip(rows, *strips, strict=True)
    ]
    return merged_rows, results


async def _results_of(group: Sequence[ShardTask], control: ControlStore) -> list[ShardResult | None]:
    results: list[ShardResult | None] = []
    for part in batched(group, _SIDECARS_AHEAD, strict=False):  # there may be thousands of strips
        results += await asyncio.gather(*(_committed(task, control) for task in part))
    return results


async def _all_evidence(
    plan: CubePlan, tasks: Sequence[ShardTask], control: ControlStore
) -> AsyncIterator[tuple[list[tuple[CubeRow, list[Outcome]]], list[ShardResult | None]]]:
    """Yield `_evidence` of every range of rows in order. Reads some sidecars in advance."""
    strips = plan.n_strips
    groups = batched(tasks, strips, strict=True)
    for ahead in batched(groups, max(_SIDECARS_AHEAD // strips, 1), strict=False):
        for evidence in await asyncio.gather(*(_evidence(plan, group, control) for group in ahead)):
            yield evidence


type _Rows = Sequence[tuple[CubeRow, list[Outcome]]]


async def _written_rows(
    cube: CubeStore,
    rows: AsyncIterator[_Rows],
    n_rows: int,
    values_of: "Callable[[Sequence[CubeRow], Sequence[Sequence[Outcome]]], Mapping[str, Values]]",
    names: Sequence[str],
) -> "AsyncGenerator[Mapping[str, Values]]":
    """Write rows in complete chunks, and yield the values of each chunk when it is written.

    A chunk of ``n_rows`` is one object, so it is written once and never read.

    Args:
        cube: Where to write.
        rows: All rows in order.
        n_rows: Number of rows in a chunk.
        values_of: Returns the values of a batch of rows.
        names: The values to write.
    """
    start = 0
    async for batch in _rebatched(rows, n_rows):
        values = values_of([row for row, _ in batch], [outcomes for _, outcomes in batch])
        await cube.write_rows(start, {name: values[name] for name in names})
        start += len(batch)
        yield values


async def _rebatched(rows: AsyncIterator[_Rows], n_rows: int) -> AsyncIterator[_Rows]:
    """Yield batches of ``n_rows``. The last one may be shorter."""
    batch: list[tuple[CubeRow, list[Outcome]]] = []
    async for some in rows:
        batch += some
        while len(batch) >= n_rows:
            yield batch[:n_rows]
            del batch[:n_rows]
    if batch:
        yield batch


async def _write_differences(
    cube: CubeStore,
    plan: CubePlan,
    report: "Report",
    tasks: Sequence[ShardTask],
    control: ControlStore,
) -> None:
    """Write the coordinates for per-row nodata, scaling and overhang. Few cubes need this second pass."""
    from pixel_gather.report.row_coordinates import (  # noqa: PLC0415 # not in a worker's start
        CHUNK_ROWS,
        difference_coordinates,
        difference_values,
    )

    coordinates = difference_coordinates(
        plan,
        nodata=report.nodata_differs,
        scaling=report.scaling_differs,
        overhang=report.n_overhanging > 0,
    )
    await cube.create_coordinates(plan, coordinates)

    def values(_: Sequence[CubeRow], outcomes: Sequence[Sequence[Outcome]]) -> "dict[str, Values]":
        return difference_values(plan, outcomes)

    rows = (evidence async for evidence, _ in _all_evidence(plan, tasks, control))
    names = [each.name for each in coordinates]
    async for _ in _written_rows(cube, rows, CHUNK_ROWS, values, names):
        pass
