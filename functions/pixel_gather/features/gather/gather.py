"""Run a whole gather in this process: on a laptop, in a notebook or on one big machine.

The steps are the same as on AWS. Here they run on one event loop, with two to four shards at a time.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final

from pixel_gather.core.claim import find_cube
from pixel_gather.core.errors import AppendRunningError, GatherError, RequestError
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.plan.cube_plan import CubePlan, version_of_claim
from pixel_gather.core.plan.plan import gather_digest, plan_cube
from pixel_gather.core.plan.shards import ShardTask
from pixel_gather.core.read.read_shard import ShardBuffers
from pixel_gather.core.request.href_policy import parent_of
from pixel_gather.core.request.request import GatherRequest, parse_request
from pixel_gather.core.results.report import Report
from pixel_gather.core.task_group import all_of
from pixel_gather.engine.append import (
    NOTHING_TO_APPEND,
    complete_cube,
    found_list_of_append,
    plan_append,
)
from pixel_gather.engine.finish_gather import finish_gather
from pixel_gather.engine.gather_shard import gather_shard
from pixel_gather.engine.plan_gather import described, found_list_of, plan_gather
from pixel_gather.engine.step_files import both, committed_sidecars
from pixel_gather.features.gather.gathered import Gathered
from pixel_gather.features.gather.shards_in_flight import ShardsInFlight
from pixel_gather.features.report.report_writer import write_report
from pixel_gather.in_process.cleanup import clear_committed, folders_removed_on_failure
from pixel_gather.in_process.job import Job, Table, opened_job
from pixel_gather.in_process.places import check_place, open_existing, shown
from pixel_gather.in_process.progress import Progress, SourceCounter
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.cube.control_files import ObjectControlStore
from pixel_gather.io.cube.growing_cube import GrowingZarrCube
from pixel_gather.io.cube.written_report import PAGE_KEY, look_for_report
from pixel_gather.io.cube.zarr_cube import CONTROL_FOLDER, ZarrCube
from pixel_gather.io.event_loop import run
from pixel_gather.io.store.object_store import open_place

_log: Final = logging.getLogger(__name__)

_LOOK_AGAIN_S: Final = 2.0
"""Pause between looks whether another append is done."""


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


def make_plan(request: Mapping[str, Any] | GatherRequest, *, settings: Settings | None = None) -> CubePlan:
    """Plan a gather and estimate its price. Reads a few headers, no pixels. Errors as in `gather`."""
    return run(make_plan_async(request, settings=settings))


async def make_plan_async(
    request: Mapping[str, Any] | GatherRequest, *, settings: Settings | None = None
) -> CubePlan:
    """Plan a gather; see `make_plan`."""
    request = parse_request(request)
    async with opened_job(request.sources, settings or Settings(), request=request) as job:
        if request.output.append_to is None:
            return await plan_cube(
                request,
                table=job.table,
                reader=job.reader,
                projector=job.projector,
                max_task_nbytes=job.settings.max_task_nbytes,
                now=0.0,
            )
        store, place = open_existing(request.output.append_to, job.settings.stores)
        planned = await plan_append(
            request,
            table=job.table,
            reader=job.reader,
            projector=job.projector,
            cube=GrowingZarrCube(store, place),
            control=ObjectControlStore(store, CONTROL_FOLDER),
            max_task_nbytes=job.settings.max_task_nbytes,
            is_dry=True,
        )
        if planned is None:
            raise RequestError(NOTHING_TO_APPEND, field="output.append_to")
        return planned[0]


async def gather_async(
    request: Mapping[str, Any] | GatherRequest,
    *,
    to: str | os.PathLike[str] | None = None,
    settings: Settings | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_complete: Callable[[Gathered], None] = lambda _: None,
) -> Gathered:
    """Gather one window of every source into one cube, or add rows to one; see `gather`."""
    request, settings = parse_request(request), settings or Settings()
    if (to is None) == (request.output.append_to is None):
        raise RequestError("give a place for a new cube, or output.append_to for an existing one", field="to")
    if to is None:
        return await _append(request, settings, on_progress=on_progress, on_complete=on_complete)
    return await gather_listed(
        request, to=to, settings=settings, on_progress=on_progress, on_complete=on_complete
    )


async def gather_listed(
    request: GatherRequest,
    *,
    to: str | os.PathLike[str],
    table: Table | None = None,
    settings: Settings | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_complete: Callable[[Gathered], None] = lambda _: None,
) -> Gathered:
    """Gather a request's list, or a given one; see `gather`.

    Args:
        request: The request.
        to: Where to write the cube.
        table: The sources, in the order of the rows. They are read instead of the request's list.
        settings: How this machine is used.
        on_progress: Called after each source.
        on_complete: Called when the cube is complete, before its report is drawn.
    """
    place = check_place(os.fspath(to))
    settings = settings or Settings()
    async with folders_removed_on_failure(place), AsyncExitStack() as stack:
        store = open_place(place, settings.stores)
        cube = ZarrCube(store, shown(place))
        controls = ObjectControlStore(store, CONTROL_FOLDER)
        found_list = await found_list_of(request, cube=cube, control=controls)
        job = await stack.enter_async_context(
            opened_job(request.sources, settings, request=request, found_list=found_list, table=table)
        )
        _log.info("the list names %s", counted(job.table.n_sources, "source"))
        digest = gather_digest(request, job.table)
        found = await find_cube(cube, digest)
        report, version = (None, 1) if found is None else (found.complete_report(), max(found.version, 1))
        was_complete = report is not None
        if report is None:
            archive = _folder_of(place, request, settings)
            try:
                report = await _filled(
                    request, job, cube, controls=controls, archive=archive, on_progress=on_progress
                )
            except GatherError:
                report = await _report_of(cube, digest)
                if report is None:
                    raise
                was_complete = True
                _log.info("another process has completed %s meanwhile", cube.place)
        await clear_committed(controls, version)
        return await _ended(
            cube, report, request, was_complete=was_complete, settings=settings, on_complete=on_complete
        )


async def _report_of(cube: ZarrCube, digest: str) -> Report | None:
    """Return the report of this gather's cube if it is complete."""
    found = await find_cube(cube, digest)
    return None if found is None else found.complete_report()


async def _filled(
    request: GatherRequest,
    job: Job,
    cube: ZarrCube,
    *,
    controls: ObjectControlStore,
    archive: GrowingZarrCube | None,
    on_progress: Callable[[Progress], None],
) -> Report:
    """Plan a cube, fill its shards and finish it."""
    plan, tasks = await plan_gather(
        request,
        table=job.table,
        reader=job.reader,
        projector=job.projector,
        cube=cube,
        control=controls,
        max_task_nbytes=job.settings.max_task_nbytes,
        archive=archive,
        describes_crs=False,
    )
    _log.info("planned %s; the cube's shape is %s", counted(len(tasks), "shard"), plan.shape)
    reading = _gather_shards(plan, tasks, job=job, cube=cube, controls=controls, on_progress=on_progress)
    # beside reading: it imports rasterio, which takes 0.3 s
    plan, _ = await both(asyncio.to_thread(described, plan, job.projector), reading)
    growing = GrowingZarrCube(cube.store, cube.place)
    report = await finish_gather(plan=plan, tasks=tasks, cube=growing, control=controls.below(plan.claim))
    _log.info("%s is complete", cube.place)
    return report


def _folder_of(place: str, request: GatherRequest, settings: Settings) -> GrowingZarrCube | None:
    """Return the folder that a cube lies in, if its request names an archive."""
    if request.output.archive is None:
        return None
    folder = parent_of(place)
    return GrowingZarrCube(open_place(folder, settings.stores), shown(folder))


async def _append(
    request: GatherRequest,
    settings: Settings,
    *,
    on_progress: Callable[[Progress], None],
    on_complete: Callable[[Gathered], None],
) -> Gathered:
    """Add rows to a cube. Wait while another append is at work."""
    store, place = open_existing(request.output.append_to or "", settings.stores, to_write=True)
    growing, cube = GrowingZarrCube(store, place), ZarrCube(store, place)
    controls = ObjectControlStore(store, CONTROL_FOLDER)
    found_list = await found_list_of_append(request, cube=growing, control=controls)
    async with opened_job(request.sources, settings, request=request, found_list=found_list) as job:
        _log.info("the list names %s", counted(job.table.n_sources, "source"))
        planned = await _planned_append(request, job, growing, controls)
        report, n_rows = None, 0
        if planned is None:
            version = (await complete_cube(growing)).version
        else:
            plan, tasks = planned
            version = version_of_claim(plan.claim)
            n_new = plan.n_rows - plan.first_row
            _log.info("planned %s in %s", counted(n_new, "row"), counted(len(tasks), "shard"))
            try:
                await _gather_shards(
                    plan,
                    tasks,
                    job=job,
                    cube=cube,
                    controls=controls,
                    on_progress=on_progress,
                    growing=growing,
                )
                report = await finish_gather(
                    plan=plan, tasks=tasks, cube=growing, control=controls.below(plan.claim)
                )
            except GatherError:
                found = await complete_cube(growing)
                if gather_digest(request, job.table) not in {each.digest for each in found.versions}:
                    raise
                _log.info("another process has appended the rows to %s meanwhile", place)
            else:
                n_rows = n_new
                _log.info("%s has %s more", place, counted(n_new, "row"))
        await clear_committed(controls, version)
        was_complete = report is None
        if report is None:
            report = (await complete_cube(growing)).complete_report()
            assert report is not None  # noqa: S101 # it is complete
        return await _ended(
            cube,
            report,
            request,
            was_complete=was_complete,
            settings=settings,
            on_complete=on_complete,
            n_appended=n_rows,
        )


async def _planned_append(
    request: GatherRequest, job: "Job", growing: GrowingZarrCube, controls: ObjectControlStore
) -> tuple[CubePlan, tuple[ShardTask, ...]] | None:
    has_told = False
    while True:
        try:
            return await plan_append(
                request,
                table=job.table,
                reader=job.reader,
                projector=job.projector,
                cube=growing,
                control=controls,
                max_task_nbytes=job.settings.max_task_nbytes,
            )
        except AppendRunningError as error:
            if not has_told:
                _log.warning("waiting: %s", error)
            has_told = True
            await asyncio.sleep(_LOOK_AGAIN_S)


async def _ended(
    cube: ZarrCube,
    report: Report,
    request: GatherRequest,
    *,
    was_complete: bool,
    settings: Settings,
    on_complete: Callable[[Gathered], None],
    n_appended: int | None = None,
) -> Gathered:
    """Draw the report if it is wanted and missing, for example because an earlier run was stopped before."""
    gathered = Gathered(
        place=cube.place,
        report=report,
        was_complete=was_complete,
        n_appended=n_appended,
        stores=settings.stores,
    )
    on_complete(gathered)
    written = await look_for_report(cube.store)
    if settings.draws_report and not (was_complete and written.has_page):
        written = await write_report(
            cube.store, place=cube.place, usd_by_service=None, log=_log, draws=request.output.report
        )
    page = f"{cube.place.rstrip('/')}/{PAGE_KEY}" if written.has_page else None
    return replace(gathered, page=page)


async def _gather_shards(
    plan: CubePlan,
    tasks: Sequence[ShardTask],
    *,
    job: Job,
    cube: ZarrCube,
    controls: ObjectControlStore,
    on_progress: Callable[[Progress], None],
    growing: GrowingZarrCube | None = None,
) -> None:
    done = await committed_sidecars(plan, tasks, cube=cube, control=controls.below(plan.claim))
    counter = SourceCounter(plan=plan, on_progress=on_progress, progress=Progress(n_sources=plan.n_sources))
    buffers = ShardBuffers(plan)
    shards = ShardsInFlight(shard_nbytes=buffers.nbytes, decodes=not plan.passes_through)

    async def one(task: ShardTask) -> None:
        async with shards:
            await gather_shard(
                task,
                plan=plan,
                reader=job.reader,
                projector=job.projector,
                limiter=job.limiter,
                buffers=buffers,
                cube=cube,
                control=controls.below(plan.claim),
                source_timeout_s=job.settings.source_timeout_s,
                on_source=counter.note,
                growing=growing,
            )
            _log.info(
                "shard %d is written; %d of %d done", task.index, counter.progress.n_done, plan.n_sources
            )

    for task in tasks:
        if task.index in done:
            counter.skip(task)
    await all_of(one(task) for task in tasks if task.index not in done)
    on_progress(counter.progress)
