"""Run a whole gather in this process: on a laptop, in a notebook or on one big machine.

The steps are the same as on AWS. Here they run on one event loop, with two to four shards at a time.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from copy import replace
from typing import Any, Final

from pixel_gather.core.errors import AppendRunningError, GatherError, RequestError
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.read.shard_buffers import ShardBuffers
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.core.request.href_policy import parent_of
from pixel_gather.core.request.request import GatherRequest, parse_request
from pixel_gather.core.results.report import Report
from pixel_gather.core.task_group import all_of
from pixel_gather.engine.base_cube import find_finished_cube
from pixel_gather.engine.finish_gather import finish_gather
from pixel_gather.engine.gather_context import GatherContext, GatherStores, always
from pixel_gather.engine.gather_shard import gather_shard
from pixel_gather.engine.plan_gather import Planned, describe_place, plan_dry, plan_gather, read_found_list
from pixel_gather.engine.step_files import both, find_committed
from pixel_gather.features.gather.gathered import Gathered
from pixel_gather.features.gather.like_grid import fill_like
from pixel_gather.features.gather.shards_in_flight import ShardsInFlight
from pixel_gather.features.report.report_writer import write_report
from pixel_gather.in_process.cleanup import clear_committed, folders_removed_on_failure
from pixel_gather.in_process.job import Job, Table, opened_job
from pixel_gather.in_process.places import (
    check_new_place,
    open_existing,
    refuse_within_cube_of_bucket,
    show_place,
)
from pixel_gather.in_process.progress import Progress, SourceCounter
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.cube.control_files import ObjectControlStore
from pixel_gather.io.cube.written_report import PAGE_KEY, look_for_report
from pixel_gather.io.cube.zarr_cube import CONTROL_FOLDER, ZarrCube
from pixel_gather.io.event_loop import run
from pixel_gather.io.store.object_store import open_place

_log: Final = logging.getLogger(__name__)

_LOOK_AGAIN_S: Final = 2.0
"""Pause between looks whether another append is done."""


@check_arguments
def gather(
    request: Mapping[str, Any] | GatherRequest,
    *,
    to: str | os.PathLike[str] | None = None,
    settings: Settings | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_complete: Callable[[Gathered], None] = lambda _: None,
) -> Gathered:
    """Gather one window of every source into one cube, or add rows to one.

    Can be called while an event loop runs, as in a notebook. It then blocks that loop; `gather_async` does
    not.

    Args:
        request: See `pixel_gather.core.request.request.GatherRequest`. Relative paths start from the working
            folder.
        to: Where to write the cube: a folder, or ``s3://bucket/prefix``. It must be new, empty, or hold an
            unfinished gather of the same request, which is then resumed. Not for a request with
            ``output.append_to``, which names the cube that rows are added to. Such a call waits while another
            append is at work.
        settings: How this machine is used.
        on_progress: Called after each source.
        on_complete: Called when the cube is complete, before its report is drawn.

    Raises:
        RequestError: The request or its list is wrong. Nothing was written.
        BudgetError: The plan is over a limit. Nothing was written.
        ArrayExistsError: Something else is at ``to``. It was not changed.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
        StoreError: The cube could not be written. Repeat the call to resume.
        BusyError: This machine is busy; for example, GDAL's process does not start. Repeat the call to
            resume.
    """
    return run(
        gather_async(request, to=to, settings=settings, on_progress=on_progress, on_complete=on_complete)
    )


@check_arguments
def make_plan(request: Mapping[str, Any] | GatherRequest, *, settings: Settings | None = None) -> CubePlan:
    """Plan a gather and estimate its price. Reads a few headers, no pixels. Errors as in `gather`.

    Raises:
        NothingToAppendError: The cube has all sources, or chips, that are to be added.
    """
    return run(make_plan_async(request, settings=settings))


@check_arguments
async def make_plan_async(
    request: Mapping[str, Any] | GatherRequest, *, settings: Settings | None = None
) -> CubePlan:
    """Plan a gather; see `make_plan`."""
    settings = settings or Settings()
    request = parse_request(await fill_like(request, settings))
    async with opened_job(request.sources, settings, request=request) as job:
        append_to = request.output.append_to
        return await plan_dry(
            request,
            table=job.table,
            sources=job.sources,
            workers=job.workers,
            cube=None if append_to is None else ZarrCube(*open_existing(append_to, job.settings.stores)),
        )


@check_arguments
async def gather_async(
    request: Mapping[str, Any] | GatherRequest,
    *,
    to: str | os.PathLike[str] | None = None,
    settings: Settings | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_complete: Callable[[Gathered], None] = lambda _: None,
) -> Gathered:
    """Gather one window of every source into one cube, or add rows to one; see `gather`."""
    settings = settings or Settings()
    request = parse_request(await fill_like(request, settings))
    if (to is None) == (request.output.append_to is None):
        raise RequestError("give a place for a new cube, or output.append_to for an existing one", field="to")
    return await gather_listed(
        request, to=to, settings=settings, on_progress=on_progress, on_complete=on_complete
    )


async def gather_listed(
    request: GatherRequest,
    *,
    to: str | os.PathLike[str] | None,
    table: Table | None = None,
    settings: Settings | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_complete: Callable[[Gathered], None] = lambda _: None,
) -> Gathered:
    """Gather a request's list, or a given one; see `gather`.

    A table is read instead of the request's list. It has the sources in the order of the rows.
    """
    settings = settings or Settings()
    async with AsyncExitStack() as stack:
        # Where is the cube, or is it to be? What an earlier run has found there is not searched again.
        cube, archive, may_write = await stack.enter_async_context(_opened_place(request, to, settings))
        stores = GatherStores(cube=cube, control=ObjectControlStore(cube.store, CONTROL_FOLDER))
        found_list = await read_found_list(request, stores)
        job = await stack.enter_async_context(
            opened_job(request.sources, settings, request=request, found_list=found_list, table=table)
        )
        _log.info("the list names %s", counted(job.table.n_sources, "source"))
        context = GatherContext(cube=stores.cube, control=stores.control, sources=job.sources)

        # Plan the rows that it lacks, fill their shards, and commit them.
        report, version, n_rows, n_retried, n_recovered = None, 0, 0, 0, 0
        planned = await _plan(request, job, context, archive=archive, may_write=may_write)
        if planned is not None:
            plan, tasks = planned
            version, n_new = plan.append.version, plan.n_rows - plan.first_row
            _log.info("planned %s in %s", counted(n_new, "row"), counted(len(tasks), "shard"))
            try:
                report = await _fill(plan, tasks, job, context, on_progress=on_progress)
            except GatherError:
                there = await cube.found_among_files()
                if there is None or not there.has_version_of(plan.digest):
                    raise
                _log.info("another process has completed %s meanwhile", cube.place)
            else:
                n_rows, n_retried = n_new, plan.append.n_again
                n_recovered = report.n_recovered - sum(each.n_recovered for each in plan.append.versions)
                _log.info("%s is complete", cube.place)

        # Whoever committed them: nothing of the work is left, and the report is drawn.
        was_complete = report is None
        if report is None:
            found = await find_finished_cube(cube, field="to")
            report, version = found.complete_report(), found.version
            assert report is not None  # noqa: S101 # it is complete
        await clear_committed(ObjectControlStore(cube.store, CONTROL_FOLDER), version)
        gathered = Gathered(
            place=cube.place,
            report=report,
            was_complete=was_complete,
            n_appended=None if request.output.append_to is None else n_rows,
            n_retried=n_retried,
            n_recovered=n_recovered,
            stores=settings.stores,
        )
        on_complete(gathered)
        return await _with_page(gathered, cube, request, settings)


@asynccontextmanager
async def _opened_place(
    request: GatherRequest, to: str | os.PathLike[str] | None, settings: Settings
) -> AsyncIterator[tuple[ZarrCube, ZarrCube | None, Callable[[], Awaitable[None]]]]:
    """Open the place of a new cube, with the folder of its archive if it has one; or a cube that is there.

    Yields the cube, its archive or None, and a function. To await what the function returns raises an error
    if a new cube may not be written. If nothing is written, no new folder is left.
    """
    if to is None:
        existing = open_existing(request.output.append_to or "", settings.stores, to_write=True)
        yield ZarrCube(*existing), None, always
        return
    place = check_new_place(to)
    with folders_removed_on_failure(place):
        cube, folder = ZarrCube(open_place(place, settings.stores), show_place(place)), parent_of(place)
        has_archive = request.output.archive is not None
        archive = ZarrCube(open_place(folder, settings.stores), show_place(folder)) if has_archive else None
        # Does the place lie in another cube? This is looked up while the plan is made, which takes longer.
        looking = asyncio.ensure_future(refuse_within_cube_of_bucket(place, settings.stores))
        try:
            yield cube, archive, lambda: looking
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)


async def _plan(
    request: GatherRequest,
    job: Job,
    context: GatherContext,
    *,
    archive: ZarrCube | None,
    may_write: Callable[[], Awaitable[None]],
) -> Planned | None:
    """Plan the rows that a cube lacks; None if it lacks none. Wait while another append is at work."""
    has_told = False
    while True:
        try:
            return await plan_gather(
                request,
                table=job.table,
                context=context,
                workers=job.workers,
                archive=archive,
                describes_crs=False,
                may_write=may_write,
            )
        except AppendRunningError as error:
            if not has_told:
                _log.warning("waiting: %s", error)
            has_told = True
            await asyncio.sleep(_LOOK_AGAIN_S)


async def _fill(
    plan: CubePlan,
    tasks: Sequence[ShardTask],
    job: Job,
    context: GatherContext,
    *,
    on_progress: Callable[[Progress], None],
) -> Report:
    """Fill the shards of a plan, and finish it."""
    own = context.of_plan(plan.claim)
    reading = _gather_shards(plan, tasks, context=own, on_progress=on_progress)
    # beside reading: it imports rasterio, which takes 0.3 s
    plan, _ = await both(asyncio.to_thread(describe_place, plan, job.projector), reading)
    return await finish_gather(plan=plan, tasks=tasks, stores=own)


async def _with_page(
    gathered: Gathered, cube: ZarrCube, request: GatherRequest, settings: Settings
) -> Gathered:
    """Draw the report if it is wanted and missing, for example because an earlier run was stopped before."""
    written = await look_for_report(cube.store)
    if settings.draws_report and not (gathered.was_complete and written.has_page):
        written = await write_report(
            cube.store, place=cube.place, usd_by_service=None, log=_log, draws=request.output.report
        )
    page = f"{cube.place.rstrip('/')}/{PAGE_KEY}" if written.has_page else None
    return replace(gathered, page=page)


async def _gather_shards(
    plan: CubePlan,
    tasks: Sequence[ShardTask],
    *,
    context: GatherContext,
    on_progress: Callable[[Progress], None],
) -> None:
    done = await find_committed(plan, tasks, stores=context)
    n_sources = plan.n_sources + plan.append.n_again
    counter = SourceCounter(plan=plan, on_progress=on_progress, progress=Progress(n_sources=n_sources))
    buffers = ShardBuffers(plan)
    shards = ShardsInFlight(shard_nbytes=buffers.decoded_nbytes, decodes=not plan.passes_through)

    async def one(task: ShardTask) -> None:
        async with shards:
            await gather_shard(task, plan=plan, context=context, buffers=buffers, on_source=counter.note)
            _log.info("shard %d is written; %d of %d done", task.index, counter.progress.n_done, n_sources)

    for task in tasks:
        if task.index in done:
            counter.skip(task)
    await all_of(one(task) for task in tasks if task.index not in done)
    on_progress(counter.progress)
