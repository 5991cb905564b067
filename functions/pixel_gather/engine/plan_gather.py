"""The first step of a gather: plan it, claim its location, and write the control files."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from pixel_gather.core.claim import check_can_continue
from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.plan import gather_digest, plan_cube
from pixel_gather.core.plan.shards import ShardTask, cut_tasks, row_ranges
from pixel_gather.core.ports import Projector, SourceReader, SourceTable
from pixel_gather.core.scenes.footprints import footprints_of
from pixel_gather.core.stores import ArchiveStore, ControlStore, CubeStore
from pixel_gather.engine.archive import archive_template, in_order, pin_archive
from pixel_gather.engine.header_cache import PACKED_HEADERS_KEY, headers_in_shard_order
from pixel_gather.engine.step_files import (
    FOUND_LIST_KEY,
    LIST_KEY,
    PLAN_KEY,
    TASKS_KEY,
    decoded_plan,
    load_tasks,
)

if TYPE_CHECKING:  # finish has no pydantic
    from pixel_gather.core.request.request import GatherRequest


async def plan_gather(
    request: "GatherRequest",
    *,
    table: SourceTable,
    reader: SourceReader,
    projector: Projector,
    cube: CubeStore,
    control: ControlStore,
    max_task_nbytes: int,
    deployment: WorkerPool | None = None,
    archive: ArchiveStore | None = None,
    describes_crs: bool = True,
) -> tuple[CubePlan, tuple[ShardTask, ...]]:
    """Plan a gather, claim the output location and write the control files for the workers.

    Safe to run twice, also at the same time: the first claim of the location wins. The control files are in a
    folder named after the claim. Files of an earlier cube at this location are ignored.

    Args:
        request: The checked request.
        table: The list.
        reader: Opens the sampled headers. No pixel is read.
        projector: For boxes and points.
        cube: Where the cube is to be.
        control: Where the control files are.
        max_task_nbytes: Largest decoded size of a task.
        deployment: The workers for the estimate; None for those of a new deployment.
        archive: The folder of the cube, for the request's archive if it names one.
        describes_crs: Whether the plan describes its CRS. If not, the caller does so before finish, by
            `described`.

    Raises:
        RequestError: The request does not fit the sources, or its archive.
        BudgetError: The plan is over a limit.
        ArrayExistsError: Another gather has claimed the location, or this gather is already complete.
    """
    found = await cube.found()
    if found is not None:
        check_can_continue(found, gather_digest(request, table))
        if (earlier := await planned(control.below(found.claim))) is not None:
            return earlier
    is_pinned = False
    while not is_pinned:
        template = await archive_template(request, archive)
        ordered = in_order(table, template)
        plan = await plan_cube(
            request,
            table=ordered,
            reader=reader,
            projector=projector,
            max_task_nbytes=max_task_nbytes,
            now=time.time() if found is None else found.planned_at,
            deployment=deployment,
            template=template,
        )
        is_pinned = template is not None or await pin_archive(request, plan, archive)
    plan = await cube.create(described(plan, projector) if describes_crs else plan)
    return await write_control_files(plan, ordered, control.below(plan.claim))


async def write_control_files(
    plan: CubePlan, table: SourceTable, control: ControlStore
) -> tuple[CubePlan, tuple[ShardTask, ...]]:
    """Write what the workers need: the list, the tasks and the plan.

    Args:
        plan: The cube.
        table: The rows to gather.
        control: Control files below the plan's claim.

    Returns:
        The plan and its tasks. Those of another run, if that has written them meanwhile.
    """
    if (earlier := await planned(control)) is not None:  # another run has claimed the place meanwhile
        return earlier
    if (found_list := table.found_list()) is not None:
        await control.put(FOUND_LIST_KEY, found_list)
    stops: list[int] = []
    await control.put_stream(LIST_KEY, _list_in_shard_order(plan, table, stops))
    header_stops: list[int] = []
    if table.n_known:
        await control.put_stream(PACKED_HEADERS_KEY, headers_in_shard_order(plan, table, header_stops))
    tasks = cut_tasks(plan, stops, header_stops)
    await control.put(TASKS_KEY, msgspec.json.encode(tasks))
    await control.put(PLAN_KEY, msgspec.msgpack.encode(plan))  # last: it marks the other files as complete
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
    return await control.below(found.claim).get(FOUND_LIST_KEY)


async def planned(control: ControlStore) -> tuple[CubePlan, tuple[ShardTask, ...]] | None:
    """Return the plan and the tasks that an earlier run wrote, or None."""
    content = await control.get(PLAN_KEY)
    if content is None:
        return None
    return decoded_plan(content), await load_tasks(control)


def described(plan: CubePlan, projector: Projector) -> CubePlan:
    """Return the plan with the description of its CRS and with its place on the Earth, if it has them."""
    crs = plan.placement.crs
    if crs is None:
        return replace(plan, sampled_grids=())
    footprints = footprints_of(plan.placement, plan.sampled_grids, projector)
    return replace(plan, crs=projector.describe(crs), footprints=footprints, sampled_grids=())


def _list_in_shard_order(plan: CubePlan, table: SourceTable, stops: list[int]) -> Iterator[bytes]:
    """Yield the encoded list shard by shard. Append the end position of each part to ``stops``."""
    position = 0
    for start, stop in row_ranges(plan):
        part = msgspec.msgpack.encode(list(table.rows(start - plan.first_row, stop - plan.first_row)))
        position += len(part)
        stops.append(position)
        yield part
