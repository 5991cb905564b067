"""The first step of a gather: plan it, claim its rows, and write the control files.

A new cube is append 1. It has the same plan, the same claim and the same control files as the appends that
follow. It only has no rows before it.
"""

import time
from collections.abc import Awaitable, Callable, Iterator
from copy import replace
from typing import TYPE_CHECKING

import msgspec

from pixel_gather.core.errors import NothingToAppendError
from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.model.source import CubeRow
from pixel_gather.core.plan.chip_rows import ChipRows
from pixel_gather.core.plan.chip_table import ChipTable
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardRows, ShardTask, cut_tasks, rows_by_shard
from pixel_gather.core.plan.plan import gather_digest
from pixel_gather.core.plan.refuse_costly_plans import check_goes_on
from pixel_gather.core.ports import Projector, SourceAccess, SourceTable
from pixel_gather.core.scenes.scenes_from_headers import lay_footprints
from pixel_gather.core.stores import FOUND_LIST_KEY, ArchiveStore, ControlStore, CubeStore
from pixel_gather.engine.archive import pin_archive
from pixel_gather.engine.base_cube import APPEND_TO, find_growing_cube, find_place, read_base
from pixel_gather.engine.find_failed_rows import digest_again
from pixel_gather.engine.gather_context import GatherContext, GatherStores, always
from pixel_gather.engine.header_cache import PACKED_HEADERS_KEY, encode_headers
from pixel_gather.engine.plan_append import AskedRows, ListedRow, has_failed_rows, plan_append
from pixel_gather.engine.row_claim import (
    RowClaim,
    claim_rows,
    digest_of_again,
    find_claim,
    must_settle,
    was_taken_over,
)
from pixel_gather.engine.step_files import (
    LIST_KEY,
    PLAN_KEY,
    TASKS_KEY,
    decode_plan,
    encode_plan,
    load_tasks,
)
from pixel_gather.engine.withdraw_tries import withdraw_tries

if TYPE_CHECKING:  # finish has no pydantic
    from pixel_gather.core.request.request import GatherRequest

type Planned = tuple[CubePlan, tuple[ShardTask, ...]]
"""A plan and its tasks."""


async def plan_gather(
    request: "GatherRequest",
    *,
    table: SourceTable,
    context: GatherContext,
    workers: WorkerPool,
    archive: ArchiveStore | None = None,
    describes_crs: bool = True,
    may_write: Callable[[], Awaitable[None]] = always,
) -> Planned | None:
    """Plan the rows that a cube lacks, claim them, and write the control files for the workers.

    Safe to run twice, also at the same time: the first claim wins, and the same request continues what it has
    begun, under its own limits. The control files are in a folder named after the claim. Files of an earlier
    cube at this location are ignored.

    Args:
        request: The checked request: for a new cube, or with ``output.append_to``.
        table: The list.
        context: Where the cube is, or is to be, the control files of all its plans, and how the sampled
            headers are opened. No pixel is read.
        workers: Who will do it: for the estimate, and for the size of the tasks.
        archive: The folder of the cube, for the request's archive if it names one.
        describes_crs: Whether the plan describes its CRS. If not, the caller does so before finish, by
            `describe_place`.
        may_write: Raises an error if nothing may be written now.

    Returns:
        The plan and its tasks. None if there is nothing to gather, and no row of the cube to try again. There
        is nothing to gather if the cube has had this request with this list, or has all its sources, or if
        another run of this request completes it meanwhile.

    Raises:
        RequestError: The request does not fit the sources, its archive or the cube. Or there is no cube to
            append to.
        BudgetError: The plan is over a limit.
        ArrayExistsError: Another gather has claimed the location.
        AppendRunningError: Another append is at work.
    """
    cube, digest = context.cube, gather_digest(request, table)

    # Has the cube had this request with this list? Then only rows that have failed are tried again.
    found = await find_place(request, cube, digest)
    is_known = found is not None and found.has_version_of(digest)
    if found is not None and is_known:
        if not await has_failed_rows(request, cube, found):
            return None
        digest = digest_again(digest, found.version + 1)

    # Has an earlier run begun it? Then its plan is continued.
    claim = await find_claim(cube, found, digest)
    if claim is not None and (earlier := await read_planned(context.control.below(claim.claim))) is not None:
        check_goes_on(earlier[0], request.limits)
        await may_write()
        if await claim_rows(cube, earlier[0]) is None:
            return None
        return await _under_terms_of(request, *earlier, context.control.below(claim.claim))

    # Has somebody tried failed rows again, and given up? Then all of them are written anew.
    settles = found is not None and found.version > 0 and await must_settle(cube, found, digest)

    # Plan the rows. Of several first gathers of an archive, one prescribes to the others.
    is_pinned = False
    while not is_pinned:
        base = await read_base(request, archive, cube, found)
        drafted = await plan_append(
            AskedRows(request, table, digest, is_known=is_known, settles=settles),
            base,
            cube=cube,
            sources=context.sources,
            workers=workers,
            now=time.time() if claim is None else claim.planned_at,
        )
        if drafted is None:
            return None
        plan, rows, again = drafted
        await may_write()
        if isinstance(claim, RowClaim) and claim.again != digest_of_again(plan):  # it is another one
            plan = replace(plan, planned_at=time.time())
        is_pinned = base.template is not None or await pin_archive(request, plan, archive)

    # Claim them. If another run of the same request was first, its time counts.
    plan = describe_place(plan, context.sources.projector) if describes_crs else plan
    claimed = await claim_rows(cube, plan, settles=settles)
    if claimed is None:
        return None
    plan = claimed

    # What an abandoned append has told of the same rows counts no more.
    control = context.control.below(plan.claim)
    if plan.append.again and await was_taken_over(cube, plan):
        await withdraw_tries(cube, plan, control)
    return await write_control_files(plan, rows, control, again=again)


async def plan_dry(
    request: "GatherRequest",
    *,
    table: SourceTable,
    sources: SourceAccess,
    workers: WorkerPool,
    cube: CubeStore | None,
    archive: ArchiveStore | None = None,
) -> CubePlan:
    """Plan a gather, claim nothing and write nothing.

    Args:
        request: The checked request.
        table: The list.
        sources: How the sampled headers are opened.
        workers: Who would do it.
        cube: The cube that ``output.append_to`` names; None for a new cube.
        archive: As for `plan_gather`.

    Raises:
        NothingToAppendError: The cube has all that is listed, and no row is tried again.
        RequestError: As from `plan_gather`.
        BudgetError: The plan is over a limit.
    """
    found = None if cube is None else await find_growing_cube(cube, field=APPEND_TO)
    digest = gather_digest(request, table)
    is_known = found is not None and found.has_version_of(digest)
    base = await read_base(request, archive, cube, found)
    asked = AskedRows(request, table, digest, is_known=is_known)
    drafted = await plan_append(asked, base, cube=cube, sources=sources, workers=workers, now=0.0)
    if drafted is None:
        raise NothingToAppendError(has_chips=request.windows is not None)
    return drafted[0]


async def write_control_files(
    plan: CubePlan,
    table: SourceTable | None,
    control: ControlStore,
    *,
    again: ListedRow | None = None,
) -> Planned:
    """Write what the workers need: the list, the tasks and the plan.

    Args:
        plan: The cube.
        table: The new rows; None if there are none.
        control: Control files below the plan's claim.
        again: Gives rows of the cube that are tried again.

    Returns:
        The plan and its tasks. Those of another run, if that has written them meanwhile.
    """
    if (earlier := await read_planned(control)) is not None:  # another run has claimed the place meanwhile
        return earlier
    if table is not None and (found_list := table.found_list()) is not None:
        await control.put(FOUND_LIST_KEY, found_list)
    stops: list[int] = []
    await control.put_stream(LIST_KEY, _encode_list(plan, table, again, stops))
    header_stops: list[int] = []
    if table is not None and table.n_known:
        await control.put_stream(PACKED_HEADERS_KEY, encode_headers(plan, table, header_stops))
    tasks = cut_tasks(plan, stops, header_stops)
    await control.put(TASKS_KEY, msgspec.json.encode(tasks))
    await control.put(PLAN_KEY, encode_plan(plan))  # last: it marks the other files as complete
    return plan, tasks


async def _under_terms_of(
    request: "GatherRequest", plan: CubePlan, tasks: tuple[ShardTask, ...], control: ControlStore
) -> Planned:
    """Return a plan that goes on under this request's limits, and write it if they have changed."""
    continued = plan.under_terms_of(request.without_key().to_json())
    if continued is not plan:
        await control.put(PLAN_KEY, encode_plan(continued))
    return continued, tasks


async def read_found_list(request: "GatherRequest", stores: GatherStores) -> bytes | None:
    """Return the list that an earlier, unfinished run of this request found; None if there is none.

    A gather that is continued reads this list and does not search again: meanwhile the catalog may name
    other scenes.

    Args:
        request: The request.
        stores: Those that are given to `plan_gather`.
    """
    if not request.sources.are_searched:
        return None
    found = await find_place(request, stores.cube, digest=None)
    if request.output.append_to is None and found is not None and found.version:
        return None  # it is complete
    claim = await find_claim(stores.cube, found, request.digest(), is_whole=False)
    return None if claim is None else await stores.control.below(claim.claim).get(FOUND_LIST_KEY)


async def read_planned(control: ControlStore) -> Planned | None:
    """Return the plan and the tasks that an earlier run wrote, or None."""
    content = await control.get(PLAN_KEY)
    if content is None:
        return None
    return decode_plan(content), await load_tasks(control)


def describe_place(plan: CubePlan, projector: Projector) -> CubePlan:
    """Return the plan with the description of its CRS and with its place on the Earth, if it has them."""
    crs = plan.placement.crs
    if crs is None:
        return replace(plan, sampled_grids=())
    footprints = (
        lay_footprints(plan.placement, plan.sampled_grids, projector) if plan.chips is None else None
    )  # chips have no place in common
    return replace(plan, crs=projector.describe(crs), footprints=footprints, sampled_grids=())


def _encode_list(
    plan: CubePlan, table: SourceTable | None, again: ListedRow | None, stops: list[int]
) -> Iterator[bytes]:
    """Yield the encoded list shard by shard. Append the end position of each part to ``stops``."""
    position = 0
    for each in rows_by_shard(plan):
        part = msgspec.msgpack.encode(_part_of_list(plan, table, again, each))
        position += len(part)
        stops.append(position)
        yield part


def _part_of_list(
    plan: CubePlan, table: SourceTable | None, again: ListedRow | None, shard: ShardRows
) -> list[CubeRow] | ChipRows:
    start, stop = shard.start - plan.first_row, shard.stop - plan.first_row
    if isinstance(table, ChipTable) and not shard.again:
        return table.part(start, stop)
    rows = [] if again is None else [again(row) for row in shard.again]
    if table is not None and start < stop:
        rows += table.rows(start, stop)
    return rows
