"""The last step of a gather or an append: turn all sidecars into coordinates, and commit the version."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import batched
from typing import Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.claim import check_uncommitted
from pixel_gather.core.errors import (
    AlreadyCommittedError,
    ArrayExistsError,
    BusyError,
    ShardsMissingError,
)
from pixel_gather.core.in_order import begun
from pixel_gather.core.model.outcome import Outcome, ShardResult, lost, strip_digests
from pixel_gather.core.model.source import CubeRow
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.read.hide_pixels import merge_strips
from pixel_gather.core.read.quicklook import QuicklookAlbum
from pixel_gather.core.results.contributors import CONTRIBUTORS, contributor_values, packed_lines
from pixel_gather.core.results.receipt import WrittenFile, digests_of_shard, receipt_of, shard_digests
from pixel_gather.core.results.report import Report, Tally
from pixel_gather.core.results.row_coordinates import (
    Coordinate,
    Values,
    coordinates_of,
    difference_coordinates,
    difference_values,
    rows_together,
    table_values,
)
from pixel_gather.core.stores import (
    FOUND_LIST_KEY,
    ControlStore,
    CubeStore,
    EarlierRows,
    StagedCube,
    needed_file,
    unpack,
)
from pixel_gather.core.task_group import all_of
from pixel_gather.engine.gather_context import GatherStores, always
from pixel_gather.engine.gather_shard import give_up_shard, were_read
from pixel_gather.engine.header_cache import read_gathered_headers
from pixel_gather.engine.place_tried_rows import Tried, with_tried
from pixel_gather.engine.publish_version import planned_keys, publish
from pixel_gather.engine.row_claim import check_row_claim
from pixel_gather.engine.step_files import both, find_committed, read_rows

type _Rows = Sequence[tuple[CubeRow, list[Outcome]]]

_SIDECARS_AHEAD: Final = 32
_ROWS_AT_ONCE: Final = 1024
"""In memory as objects. Their values are collected until a chunk is full."""

_GIVEN_UP_AT_ONCE: Final = 16
_RUN_AGAIN: Final = "run the gather again to go on"
_ALLOW_THEM: Final = (
    "an earlier finish has given them up. Allow that many (limits.failed_shards), or gather a new cube"
)
_MOST_NAMED: Final = 5
"""Shards that a message names."""

_ROUNDING: Final = 1e-6
"""Tolerance for shares written as decimal fractions: 7 of 1,000 tasks must pass a limit of 0.007."""


async def finish_gather(
    *,
    plan: CubePlan,
    tasks: Sequence[ShardTask],
    stores: GatherStores,
    max_lost_share: float = 0.0,
    may_write: Callable[[], Awaitable[None]] = always,
) -> Report:
    """Write everything of a plan's rows but their pixels, and commit them as the cube's next version.

    Memory holds one batch of rows and at most 32 MiB of quicklooks. It also holds five numbers per source,
    for the report's medians, and one digest per shard, for the receipt. All files lie in a temporary folder
    until they are published.

    Args:
        plan: The cube.
        tasks: All of its tasks, in order.
        stores: Where the cube is, and the control files of this plan.
        max_lost_share: Share of the tasks, 0 to 1, that may have no sidecar. They are given up: their rows
            get the status lost, and new ones hold no pixels.
        may_write: Raises an error if nothing may be written. It is called while the finish looks at
            what is there.

    Returns:
        The report of the whole cube. If this plan is committed already, the report that the cube contains.
        Nothing is written then.

    Raises:
        ArrayExistsError: The cube was removed, and may have been planned again since. Or another append has
            taken over, or was committed meanwhile.
        BusyError: Workers of a task that is given up replace its objects again and again. Run again.
        ShardsMissingError: More tasks than ``max_lost_share`` allows have no sidecar. The cube stays.
    """
    cube = stores.cube
    with suppress(AlreadyCommittedError):
        # May this plan still be committed? What is found here is replaced at the end, and nothing else.
        (there, sidecars), (seen, _) = await both(
            both(cube.found_among_files(), find_committed(plan, tasks, stores=stores)),
            both(_look_at_planned(cube, plan), may_write()),
        )
        found = check_uncommitted(there, plan)
        await check_row_claim(cube, plan)
        earlier = EarlierRows() if plan.append.is_first else await cube.earlier_rows(plan)
        first_is_read = begun(read_gathered_headers(tasks, stores.control))  # while the cube is staged
        with cube.stage() as staged:
            async with first_is_read as headers_of_rows:
                report = await _stage(
                    plan,
                    tasks,
                    earlier,
                    sidecars,
                    headers_of_rows=headers_of_rows,
                    stores=stores,
                    staged=staged,
                    max_lost_share=max_lost_share,
                )
            await publish(cube, plan, staged, found=found, seen=seen)
            return report
    # Somebody has committed it: perhaps a PUT of this call, whose answer was lost.
    committed = await cube.found_among_files()
    found_report = None if committed is None else committed.complete_report()
    if found_report is None:
        raise ArrayExistsError(f"{cube.place}: the cube was removed: submit its request again")
    return found_report


async def _look_at_planned(cube: CubeStore, plan: CubePlan) -> dict[str, str | None]:
    """Return the ETags of what the plan of a new cube has put, and the finish replaces."""
    keys = planned_keys(plan)
    return dict(zip(keys, await all_of(map(cube.etag_of, keys)), strict=True)) if keys else {}


async def _stage(
    plan: CubePlan,
    tasks: Sequence[ShardTask],
    earlier: EarlierRows,
    found: dict[int, str],
    *,
    headers_of_rows: AsyncIterator[Sequence[tuple[str, bytes]]],
    stores: GatherStores,
    staged: StagedCube,
    max_lost_share: float,
) -> Report:
    """Write everything but pixels to a place of its own, and return the report.

    Args:
        plan: The cube.
        tasks: All of its tasks, in order.
        earlier: The rows before those of the plan. They are written again, with the new ones.
        found: The sidecars of the tasks that are committed.
        headers_of_rows: Packed headers of the plan's rows.
        stores: Where the shards and the sidecars are.
        staged: Where to write.
        max_lost_share: Share of the tasks, 0 to 1, that may have no sidecar.

    Raises:
        BusyError: Workers of a task that is given up replace its objects again and again. Run again.
        ShardsMissingError: More tasks than ``max_lost_share`` allows have no sidecar. The cube stays.
    """
    # Which tasks are committed? The others are given up, so that all finishes of a plan see the same.
    _check_lost(tasks, {task.index for task in tasks} - found.keys(), max_lost_share)
    _check_reduced(plan, tasks, found)
    committed, list_content = await both(
        _give_up_missing(plan, tasks, found, stores), _get_found_list(plan, stores.control)
    )
    sidecars = _Sidecars(stores.control, committed)

    # All rows pass by once: into the coordinates and the table, and through what is counted.
    coordinates = coordinates_of(plan)
    await staged.create(plan)
    await staged.create_coordinates(plan, coordinates)
    counts = _Counts(Tally(plan=plan), QuicklookAlbum(plan))
    rows = _count_rows(plan, tasks, sidecars, counts, earlier)
    writing = _write_rows(staged, plan, coordinates, rows, partial(_table_of, plan))
    async with aclosing(writing) as batches:
        table = await staged.write_row_table(plan, batches)
    _check_lost(tasks, sidecars.lost, max_lost_share, advice=_ALLOW_THEM)
    report = counts.tally.report()

    # Few cubes have rows that differ. They need a second pass, as that is known only now.
    if report.nodata_differs or report.scaling_differs or report.n_overhanging:
        await _write_differences(
            staged, plan, report, partial(_read_rows_again, plan, tasks, sidecars, earlier)
        )

    # Last the files beside the arrays. The receipt names the others, and the group's metadata complete all.
    headers, pictures = await both(
        staged.write_headers(_read_all_headers(headers_of_rows, earlier)),
        _write_quicklooks(counts.album, staged),
    )
    found_list = None if list_content is None else await staged.write_found_list(plan, list_content)
    contributors = await _write_contributors(plan, staged, _read_rows_again(plan, tasks, sidecars, earlier))
    receipt = receipt_of(
        plan,
        report,
        shards=counts.shards,
        files=[each for each in (table, headers, pictures, found_list, contributors) if each is not None],
        sources=None if (told := contributors or table) is None else told.key,
        found_list=None if found_list is None else found_list.key,
        earlier=earlier.receipt,
    )
    await staged.write_receipt(receipt)
    await staged.complete(plan, report)
    return report


def _check_lost(
    tasks: Sequence[ShardTask], missing: set[int], max_lost_share: float, *, advice: str = _RUN_AGAIN
) -> None:
    if len(missing) > max_lost_share * len(tasks) + _ROUNDING:
        first = map(str, sorted(missing)[:_MOST_NAMED])
        named = ", ".join(first) + (", ..." if len(missing) > _MOST_NAMED else "")
        raise ShardsMissingError(
            f"{len(missing):,} of {len(tasks):,} shards have not been gathered (shard {named}): {advice}"
        )


def _check_reduced(plan: CubePlan, tasks: Sequence[ShardTask], found: Mapping[int, str]) -> None:
    """Refuse to lose a task that reduces rows anew. They count as read, and it may have put other pixels."""
    missing = [task.index for task in tasks if task.again and task.index not in found]
    if plan.reduction is not None and missing:
        raise ShardsMissingError(
            f"shard {missing[0]} has rows of the cube that are reduced anew, and was not gathered: run the "
            "gather again to go on"
        )


async def _give_up_missing(
    plan: CubePlan, tasks: Sequence[ShardTask], found: dict[int, str], stores: GatherStores
) -> dict[int, str]:
    """Commit every uncommitted task as lost. Return the sidecars of all tasks."""
    missing = [task for task in tasks if task.index not in found]
    is_light = (
        plan.append.is_first and plan.layout.is_sharded
    )  # else each needs its pixels or its former object
    for some in batched(missing, _GIVEN_UP_AT_ONCE if is_light else 1, strict=False):
        await all_of(give_up_shard(task, plan=plan, stores=stores) for task in some)
    committed = await find_committed(plan, tasks, stores=stores) if missing else found
    if len(committed) < len(tasks):
        raise BusyError("others replaced shards that this finish gave up: run again")
    return committed


class _Sidecars(Struct, frozen=True):
    """The sidecars of the tasks."""

    control: ControlStore
    keys: Mapping[int, str]
    """By the tasks' indexes."""

    lost: set[int] = set()
    """Indexes of the tasks that were given up, as far as their sidecars were read."""

    async def result(self, task: ShardTask) -> ShardResult | None:
        """Return a task's result; None if the task was given up."""
        key = self.keys[task.index]
        result = unpack(await needed_file(self.control, key), ShardResult, key=key)
        if result.rows:
            return result
        self.lost.add(task.index)
        return None


@dataclass(slots=True)
class _Counts:
    """What is counted while the rows pass by."""

    tally: Tally
    album: QuicklookAlbum
    shards: dict[str, str | None] = field(default_factory=dict)
    """Digest of each shard that was written, by its key."""

    in_shard: list[list[str]] = field(default_factory=list)
    """Digests of the rows so far of the shard along the first axis that the rows have reached."""

    def rows_by_strip(self, plan: CubePlan) -> list[list[list[str]]]:
        """Return ``in_shard`` of each strip. There is one if windows are not cut into strips."""
        rows = [[strip_digests(digest) for digest in row] for row in self.in_shard]
        return [[[parts[strip] for parts in row] for row in rows] for strip in range(plan.n_strips)]


async def _count_rows(
    plan: CubePlan,
    tasks: Sequence[ShardTask],
    sidecars: _Sidecars,
    counts: _Counts,
    earlier: EarlierRows,
) -> AsyncIterator[_Rows]:
    """Yield all rows in order, and count them."""
    async for rows in _count_earlier(plan, tasks, sidecars, counts, earlier):
        yield rows
    with_new = _find_new_rows(tasks)
    in_order, in_last_shard = iter(with_new), counts.rows_by_strip(plan)
    async for evidence, results in _read_new_evidence(plan, with_new, sidecars):
        for result in results:
            task = next(in_order)
            before = in_last_shard[task.shard_key(plan)[1]] if task.row_start == plan.first_row else []
            added = None if result is None else result.rows[len(task.again) :]
            counts.shards.update(shard_digests(plan, task, added, before=before))
            _count_task(counts.tally, result)
        for row, outcomes in evidence:
            counts.tally.add_row(row, outcomes)
        counts.album.add(
            were_read([outcomes for _, outcomes in evidence]),
            [[] if result is None else result.pictures for result in results],
        )
        yield evidence


def _find_new_rows(tasks: Sequence[ShardTask]) -> list[ShardTask]:
    return [task for task in tasks if task.row_start < task.row_stop]


def _count_task(tally: Tally, result: ShardResult | None) -> None:
    if result is None:
        tally.add_lost_shard()
    else:
        tally.add_shard(result)


async def _count_earlier(
    plan: CubePlan, tasks: Sequence[ShardTask], sidecars: _Sidecars, counts: _Counts, earlier: EarlierRows
) -> AsyncIterator[_Rows]:
    """Yield the rows before an append, with those that were tried again, and count them."""
    tally = counts.tally
    if earlier.report is not None:
        tally.go_on_from(earlier.report)
    begins = {each.n_rows for each in plan.append.versions}
    n_rows, shard_rows = 0, plan.layout.shard[0]
    async for rows in with_tried(plan, earlier.rows(), _read_tried(plan, tasks, sidecars, tally)):
        for row, outcomes in rows:
            tally.add_row(row, outcomes)
            counts.in_shard.append([band.digest for outcome in outcomes for band in outcome.bands])
            n_rows += 1
            if n_rows % shard_rows == 0 or n_rows == plan.first_row:
                place = (n_rows - 1) // shard_rows  # it has one shard for each strip
                for strip, of_strip in enumerate(counts.rows_by_strip(plan)):
                    counts.shards.update(digests_of_shard(plan, place, of_strip, strip=strip))
            if n_rows % shard_rows == 0:
                counts.in_shard.clear()
            if n_rows in begins:
                tally.begin_append()
        yield rows


async def _read_tried(
    plan: CubePlan, tasks: Sequence[ShardTask], sidecars: _Sidecars, tally: Tally | None = None
) -> AsyncIterator[Tried]:
    """Yield the rows that were tried again. Count the tasks that did nothing else."""
    of_rows = [task for task in tasks if task.again]
    groups = batched(of_rows, plan.n_strips, strict=True)
    async for evidence, results in _read_all_evidence(plan, of_rows, sidecars):
        task, *_ = next(groups)
        if tally is not None and task.row_start == task.row_stop:
            for result in results:
                _count_task(tally, result)
        for number, (row, outcomes) in zip(task.again, evidence, strict=False):  # new rows may follow
            yield number, row, outcomes


async def _read_new_evidence(
    plan: CubePlan, tasks: Sequence[ShardTask], sidecars: _Sidecars
) -> AsyncIterator[tuple[list[tuple[CubeRow, list[Outcome]]], list[ShardResult | None]]]:
    """Yield `_all_evidence` of tasks, without the rows that were tried again."""
    groups = batched(tasks, plan.n_strips, strict=True)
    async for evidence, results in _read_all_evidence(plan, tasks, sidecars):
        first, *_ = next(groups)
        yield evidence[len(first.again) :], results


async def _read_all_headers(
    headers_of_rows: AsyncIterator[Sequence[tuple[str, bytes]]], earlier: EarlierRows
) -> AsyncIterator[Sequence[tuple[str, bytes]]]:
    """Yield the header index of the rows before an append, then that of the new ones."""
    for known in earlier.headers():
        yield known
    async for found in headers_of_rows:
        yield found


async def _get_found_list(plan: CubePlan, control: ControlStore) -> bytes | None:
    return await control.get(FOUND_LIST_KEY) if plan.was_searched else None


def _table_of(
    plan: CubePlan, rows: Sequence[CubeRow], outcomes: Sequence[Sequence[Outcome]]
) -> Mapping[str, Values]:
    """Return the columns of a batch of rows. An append must not need a second file beside this table."""
    values = table_values(plan, rows, outcomes)
    if plan.reduction is None:
        return values
    return {**values, CONTRIBUTORS: packed_lines(plan, zip(rows, outcomes, strict=True))}


async def _write_contributors(
    plan: CubePlan, staged: StagedCube, rows: AsyncIterator[_Rows]
) -> WrittenFile | None:
    """Write what became of each source of rows that are reduced. Reads the sidecars a second time."""
    if plan.reduction is None:
        return None
    first = 0

    async def batches() -> AsyncGenerator[Mapping[str, Values]]:
        nonlocal first
        async for batch in rows:
            values = contributor_values(plan, batch, first_row=first)
            first += len(batch)
            if values:
                yield values

    async with aclosing(batches()) as told:
        return await staged.write_contributors(plan, told)


async def _write_quicklooks(album: QuicklookAlbum, staged: StagedCube) -> WrittenFile | None:
    quicklooks = album.quicklooks()
    return await staged.write_quicklooks(quicklooks) if quicklooks else None


async def _read_evidence(
    plan: CubePlan, group: Sequence[ShardTask], sidecars: _Sidecars
) -> tuple[list[tuple[CubeRow, list[Outcome]]], list[ShardResult | None]]:
    """Return one range of rows with their outcomes, and the results of its tasks.

    Outcomes of several strips are merged. A task that was given up has the result None; its rows are lost.
    """
    n_bands = [len(slot.bands) for slot in plan.slots]
    rows, results = await both(read_rows(group[0], sidecars.control), _read_results(group, sidecars))
    strips = [
        [lost(row, n_bands=n_bands, task_index=task.index) for row in rows] if result is None else result.rows
        for task, result in zip(group, results, strict=True)
    ]
    if len(group) == 1:
        return list(zip(rows, strips[0], strict=True)), results
    y_starts = [task.y_start for task in group]
    merged_rows = [
        (row, merge_strips(plan, outcomes, row, y_starts=y_starts))
        for row, *outcomes in zip(rows, *strips, strict=True)
    ]
    return merged_rows, results


async def _read_results(group: Sequence[ShardTask], sidecars: _Sidecars) -> list[ShardResult | None]:
    results: list[ShardResult | None] = []
    for part in batched(group, _SIDECARS_AHEAD, strict=False):  # there may be thousands of strips
        results += await asyncio.gather(*(sidecars.result(task) for task in part))
    return results


async def _read_all_evidence(
    plan: CubePlan, tasks: Sequence[ShardTask], sidecars: _Sidecars
) -> AsyncIterator[tuple[list[tuple[CubeRow, list[Outcome]]], list[ShardResult | None]]]:
    """Yield `_read_evidence` of every range of rows in order. Reads some sidecars in advance."""
    strips = plan.n_strips
    groups = batched(tasks, strips, strict=True)
    for ahead in batched(groups, max(_SIDECARS_AHEAD // strips, 1), strict=False):
        for evidence in await asyncio.gather(*(_read_evidence(plan, group, sidecars) for group in ahead)):
            yield evidence


async def _write_rows(
    staged: StagedCube,
    plan: CubePlan,
    coordinates: Sequence[Coordinate],
    rows: AsyncIterator[_Rows],
    values_of: Callable[[Sequence[CubeRow], Sequence[Sequence[Outcome]]], Mapping[str, Values]],
) -> AsyncGenerator[Mapping[str, Values]]:
    """Write rows in whole chunks, and yield the values of each batch when it is written.

    Args:
        staged: Where to write.
        plan: The cube.
        coordinates: Which to write.
        rows: All rows in order.
        values_of: Returns the values of a batch of rows.
    """
    start, n_together = 0, rows_together(plan)
    parts: list[Mapping[str, Values]] = []
    async for batch, is_last in _rebatch(rows, n_together):
        # Values take a tenth of the memory of the objects, so these go first.
        parts.append(values_of([row for row, _ in batch], [outcomes for _, outcomes in batch]))
        if not is_last:
            continue
        values = {name: np.concatenate([each[name] for each in parts]) for name in parts[0]}
        parts.clear()
        await staged.write_rows(plan, coordinates, start, values)
        start += n_together
        yield values


async def _rebatch(rows: AsyncIterator[_Rows], n_together: int) -> AsyncIterator[tuple[_Rows, bool]]:
    """Yield batches of at most `_ROWS_AT_ONCE`, and whether a batch is the last of ``n_together`` rows."""
    batch: list[tuple[CubeRow, list[Outcome]]] = []
    left = n_together
    async for some in rows:
        batch += some
        while len(batch) > (n_rows := min(_ROWS_AT_ONCE, left)):  # more follow
            left -= n_rows
            yield batch[:n_rows], not left
            del batch[:n_rows]
            left = left or n_together
    if batch:
        yield batch, True


async def _read_rows_again(
    plan: CubePlan, tasks: Sequence[ShardTask], sidecars: _Sidecars, earlier: EarlierRows
) -> AsyncIterator[_Rows]:
    """Yield all rows a second time."""
    async for rows in with_tried(plan, earlier.rows(), _read_tried(plan, tasks, sidecars)):
        yield rows
    async for evidence, _ in _read_new_evidence(plan, _find_new_rows(tasks), sidecars):
        yield evidence


async def _write_differences(
    staged: StagedCube,
    plan: CubePlan,
    report: Report,
    rows: Callable[[], AsyncIterator[_Rows]],
) -> None:
    """Write the coordinates for per-row nodata, scaling and overhang. Few cubes need this second pass."""
    coordinates = difference_coordinates(
        plan,
        nodata=report.nodata_differs,
        scaling=report.scaling_differs,
        overhang=report.n_overhanging > 0,
    )
    await staged.create_coordinates(plan, coordinates)

    def values(_: Sequence[CubeRow], outcomes: Sequence[Sequence[Outcome]]) -> dict[str, Values]:
        return difference_values(plan, outcomes)

    async for _ in _write_rows(staged, plan, coordinates, rows(), values):
        pass
