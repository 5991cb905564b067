"""Run a whole gather in this process: on a laptop, in a notebook or on one big machine.

The steps are the same as on AWS. Here they run on one event loop, with two shards at a time.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from pixel_gather.adapters.crs import RasterioProjector
from pixel_gather.adapters.cube.control_files import ObjectControlStore
from pixel_gather.adapters.cube.growing_cube import GrowingZarrCube
from pixel_gather.adapters.cube.header_index import read_index
from pixel_gather.adapters.cube.tile_codecs import register_codecs
from pixel_gather.adapters.cube.zarr_cube import CONTROL_FOLDER, ZarrCube
from pixel_gather.adapters.event_loop import run
from pixel_gather.adapters.gdal.settings import GdalSettings
from pixel_gather.adapters.geotiff.settings import GeoTiffSettings
from pixel_gather.adapters.object_store.concurrency import MOST_IN_FLIGHT, AdaptiveLimiter
from pixel_gather.adapters.object_store.object_store import (
    Objects,
    Store,
    StoreSettings,
    open_place,
    split_href,
)
from pixel_gather.adapters.object_store.signing import Sign, Signing
from pixel_gather.adapters.report.notebook import notebook_html
from pixel_gather.adapters.report.report_writer import write_report
from pixel_gather.adapters.report.written_report import PAGE_KEY, look_for_report
from pixel_gather.adapters.source_list.list_file import Check
from pixel_gather.adapters.source_list.source_list import SourceList, named_sources
from pixel_gather.adapters.source_list.source_table import SqliteSourceTable
from pixel_gather.adapters.source_reader import CogReader, Ranges
from pixel_gather.claim import find_cube
from pixel_gather.errors import AppendRunningError, RequestError, StoreError
from pixel_gather.estimate import worker_limits
from pixel_gather.extras import check_extra
from pixel_gather.headers.drill import DrilledPixel, drill
from pixel_gather.local.cleanup import folders_removed_on_failure
from pixel_gather.model.outcome import Outcome
from pixel_gather.model.plurals import counted
from pixel_gather.model.source import Source
from pixel_gather.model.status import Status
from pixel_gather.model.window import WindowRule
from pixel_gather.plan.cube_plan import CubePlan
from pixel_gather.plan.plan import gather_digest, plan_cube
from pixel_gather.plan.shards import ShardTask
from pixel_gather.read.read_shard import ShardBuffers
from pixel_gather.report.report import Report
from pixel_gather.request.href_policy import IN_PROCESS, HrefPolicy, check_href, parent_of
from pixel_gather.request.request import GatherRequest, Sources, parse_request
from pixel_gather.request.web_address import same_host_only
from pixel_gather.task_group import all_of
from pixel_gather.use_cases.append import (
    NOTHING_TO_APPEND,
    complete_cube,
    finish_append,
    found_list_of_append,
    plan_append,
)
from pixel_gather.use_cases.finish_gather import finish_gather
from pixel_gather.use_cases.gather_shard import gather_shard
from pixel_gather.use_cases.plan_gather import described, found_list_of, plan_gather
from pixel_gather.use_cases.step_files import both, committed_sidecars

if TYPE_CHECKING:
    import xarray as xr

    from pixel_gather.adapters.cube.stored_table import StoredTable
    from pixel_gather.local.view import ViewedCube

_log: Final = logging.getLogger(__name__)

_LOOK_AGAIN_S: Final = 2.0
"""Pause between looks whether another append is done."""

_SHARDS_IN_FLIGHT: Final = 2
"""One shard is compressed and stored while the next is read."""


type Table = SqliteSourceTable | StoredTable
"""The sources in a request's list, or those of a cube that is gathered again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a gather in process uses this machine. No setting changes its result."""

    stores: StoreSettings = field(default_factory=StoreSettings)
    concurrency: int | None = None
    """Sources read at one time from each back end, for experiments. None to adapt while reading."""

    header_nbytes: int | None = None
    """Size of the first read of each source, in bytes. A second read follows if the header is longer.

    None to start with 16 KiB and adapt to the files.
    """

    source_timeout_s: float = 180.0
    """Longest time for one source, retries included."""

    max_task_nbytes: int = worker_limits.max_task_nbytes(worker_limits.ONE_VCPU_MIB)
    """Largest decoded size of one shard. Two shards are in memory at a time."""

    draws_report: bool = True
    """Whether to write any page beside the arrays. False writes neither the report nor ``view.html``.

    To leave out only the report, which takes seconds, use the request's ``output.report``.
    """

    def __post_init__(self) -> None:
        """Refuse numbers that are not positive integers."""
        for name in ("concurrency", "header_nbytes"):
            number = getattr(self, name)
            if number is not None and not (isinstance(number, int) and number > 0):
                raise RequestError(f"it is {number!r}, not a whole number above 0", field=f"settings.{name}")

    @property
    def fast_path(self) -> GeoTiffSettings:
        """Settings of the reader of GeoTIFFs."""
        return GeoTiffSettings.reading_first(self.header_nbytes)


@dataclass(slots=True, kw_only=True)
class Progress:
    """Progress of a gather: numbers of sources and bytes so far."""

    n_sources: int
    n_done: int = 0
    n_failed: int = 0
    fetched_nbytes: int = 0


@dataclass(slots=True, kw_only=True)
class _Counter:
    """Counts each source once, though its window may be read in several strips."""

    plan: CubePlan
    on_progress: Callable[[Progress], None]
    progress: Progress
    n_parts: int = 0
    """Number of sources that are done. Each strip of a source counts."""

    failed: set[int] = field(default_factory=set)
    """Positions of the failed sources. Only used if sources are read in several strips."""

    def skip(self, task: ShardTask) -> None:
        """Count a shard that an earlier run has committed. Slots without a source count as well."""
        self._add_parts(task.n_rows * len(self.plan.slots))

    def note(self, row: int, slot: int, outcome: Outcome) -> None:
        """Count a source or one strip of it."""
        self._add_parts(int(outcome.status is not Status.ABSENT))
        if outcome.status.is_failure:
            if self.plan.n_strips == 1:
                self.progress.n_failed += 1
            else:
                self.failed.add(row * len(self.plan.slots) + slot)
                self.progress.n_failed = len(self.failed)
        self.progress.fetched_nbytes += outcome.cost.nbytes
        self.on_progress(self.progress)

    def _add_parts(self, n: int) -> None:
        self.n_parts += n
        self.progress.n_done = min(self.n_parts // self.plan.n_strips, self.progress.n_sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """A finished gather."""

    place: str
    """Location of the cube: a local path, or ``s3://bucket/prefix``."""

    report: Report
    was_complete: bool
    """Whether the cube already existed. Then nothing was read. An append had nothing to add."""

    n_appended: int | None = None
    """Rows that an append has added; None for a new cube."""

    page: str | None = None
    """Location of the HTML report; None if it was not or could not be drawn."""

    stores: StoreSettings = field(default_factory=StoreSettings, repr=False)
    """How to access the location."""

    def open(self) -> "xr.Dataset":
        """Open the cube with xarray. Pixels are read when they are used.

        Raises:
            MissingExtraError: xarray is not installed.
        """
        check_extra("xarray", "datasets")
        import xarray as xr  # noqa: PLC0415 # an extra, and 0.5 s

        register_codecs()  # a cube of zfp, or of tiles as they were, needs them
        if "://" not in self.place:
            local: xr.Dataset = xr.open_zarr(self.place)
            return local
        from zarr.storage import ObjectStore  # noqa: PLC0415 # 0.2 s, for cubes on S3 alone

        store = ObjectStore(open_place(self.place, self.stores), read_only=True)
        on_s3: xr.Dataset = xr.open_zarr(store)
        return on_s3

    def view(self, *, open_browser: bool = True) -> "ViewedCube":
        """Show the cube's pixels in a browser; see `pixel_gather.view`. Returns at once.

        Args:
            open_browser: Open the page in the default browser.
        """
        from pixel_gather.local.view import view  # noqa: PLC0415 # a server, which a gather does not need

        return view(self.place, open_browser=open_browser, stores=self.stores)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the first picture, and a table."""

        def open_store() -> Store:
            return open_existing(self.place, self.stores)[0]

        return notebook_html(open_store, self.report, place=self.place, page=self.page)


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
        request: See `pixel_gather.request.request.GatherRequest`. Relative paths start from the working
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


def dry_run(request: Mapping[str, Any] | GatherRequest, *, settings: Settings | None = None) -> CubePlan:
    """Plan a gather and estimate its price. Reads a few headers, no pixels. Errors as in `gather`."""
    return run(dry_run_async(request, settings=settings))


async def dry_run_async(
    request: Mapping[str, Any] | GatherRequest, *, settings: Settings | None = None
) -> CubePlan:
    """Plan a gather; see `dry_run`."""
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
        raise RequestError(
            "give a place for a new cube, or output.append_to for one that is there", field="to"
        )
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
        found = await find_cube(cube, gather_digest(request, job.table))
        if found is not None and (report := found.complete_report()) is not None:
            return await _ended(
                cube, report, request, was_complete=True, settings=settings, on_complete=on_complete
            )
        plan, tasks = await plan_gather(
            request,
            table=job.table,
            reader=job.reader,
            projector=job.projector,
            cube=cube,
            control=controls,
            max_task_nbytes=job.settings.max_task_nbytes,
            archive=_folder_of(place, request, settings),
            describes_crs=False,
        )
        _log.info("planned %s; the cube's shape is %s", counted(len(tasks), "shard"), plan.shape)
        reading = _gather_shards(plan, tasks, job=job, cube=cube, controls=controls, on_progress=on_progress)
        # beside reading: it imports rasterio, which takes 0.3 s
        plan, _ = await both(asyncio.to_thread(described, plan, job.projector), reading)
        report = await finish_gather(plan=plan, tasks=tasks, cube=cube, control=controls.below(plan.claim))
        await controls.clear()
        _log.info("%s is complete", cube.place)
        return await _ended(
            cube, report, request, was_complete=False, settings=settings, on_complete=on_complete
        )


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
    store, place = open_existing(request.output.append_to or "", settings.stores)
    growing, cube = GrowingZarrCube(store, place), ZarrCube(store, place)
    controls = ObjectControlStore(store, CONTROL_FOLDER)
    found_list = await found_list_of_append(request, cube=growing, control=controls)
    async with opened_job(request.sources, settings, request=request, found_list=found_list) as job:
        _log.info("the list names %s", counted(job.table.n_sources, "source"))
        planned = await _planned_append(request, job, growing, controls)
        if planned is None:
            report = (await complete_cube(growing)).complete_report()
            assert report is not None  # noqa: S101 # it is complete
            return await _ended(
                cube,
                report,
                request,
                was_complete=True,
                settings=settings,
                on_complete=on_complete,
                n_appended=0,
            )
        plan, tasks = planned
        n_rows = plan.n_rows - plan.first_row
        _log.info("planned %s in %s", counted(n_rows, "row"), counted(len(tasks), "shard"))
        await _gather_shards(
            plan, tasks, job=job, cube=cube, controls=controls, on_progress=on_progress, growing=growing
        )
        control = controls.below(plan.claim)
        report = await finish_append(plan=plan, tasks=tasks, cube=growing, control=control)
        await control.clear()
        _log.info("%s has %s more", place, counted(n_rows, "row"))
        return await _ended(
            cube,
            report,
            request,
            was_complete=False,
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


async def drill_async(
    sources: Sources,
    rule: WindowRule,
    *,
    bands: Sequence[int] | None = None,
    settings: Settings | None = None,
) -> AsyncGenerator[DrilledPixel]:
    """Yield one pixel of every source, in the order of a cube's rows; see `headers.drill.drill`."""
    async with opened_job(sources, settings or Settings()) as job:
        with closing(listed(job.table)) as sources_of_rows:
            pixels = drill(
                sources_of_rows,
                rule,
                bands=bands,
                reader=job.reader,
                projector=job.projector,
                limiter=job.limiter,
                most_ahead=job.most_ahead,
            )
            async with aclosing(pixels):
                async for pixel in pixels:
                    yield pixel


def listed(table: Table) -> Generator[Source]:
    """Yield the sources of every row. Close the generator before the table."""
    with closing(table.rows(0, table.n_rows)) as rows:
        for row in rows:
            yield from (source for source in row.sources if source is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Objects that all steps of one gather share."""

    settings: Settings
    table: Table
    reader: CogReader
    projector: RasterioProjector
    limiter: AdaptiveLimiter

    @property
    def most_ahead(self) -> int:
        """Most sources in progress if results are taken in order. Others continue while one is slow."""
        return 2 * (self.settings.concurrency or MOST_IN_FLIGHT)


@asynccontextmanager
async def opened_job(
    sources: Sources,
    settings: Settings,
    *,
    request: GatherRequest | None = None,
    found_list: bytes | None = None,
    table: Table | None = None,
    over: Callable[[Objects], Ranges] = lambda objects: objects,
) -> AsyncIterator[Job]:
    """Read the list and the request's header index, if any, and open the reader.

    Args:
        sources: The request's.
        settings: How this machine is used.
        request: The request; None where there is no window.
        found_list: What an earlier run of the request found; it is read instead of searching.
        table: The list itself. Then neither the request's list nor its header index is read.
        over: Wraps the clients, for example in a cache. Sources are read through what it returns.
    """
    limiter = AdaptiveLimiter(fixed=settings.concurrency)
    objects = Objects(settings.stores, pace=limiter)
    policy = IN_PROCESS.within(str(Path.cwd()))
    signed = objects if sources.sign == "none" else objects.signed(_signing(sources.sign))
    reader = CogReader.over(over(signed), fast=settings.fast_path, fall_back=GdalSettings())
    index = None if request is None or request.index is None else _checked_index(request.index, policy)
    found: SqliteSourceTable | None = None
    async with AsyncExitStack() as stack:

        def load(check: Check) -> SqliteSourceTable:
            def find_scenes(searched: Sources) -> SourceList:
                # for searches alone: it takes 0.05 s
                from pixel_gather.adapters.catalog.scene_list import SceneFinder  # noqa: PLC0415
                from pixel_gather.adapters.source_list.found_list import found_sources  # noqa: PLC0415

                if found_list is not None:
                    return found_sources(found_list, searched)
                find = SceneFinder(
                    window=None if request is None else request.window.rule(),
                    projector=RasterioProjector(),
                    objects=objects,
                    policy=policy,
                    catalog_policy=policy,
                    check_api=partial(same_host_only, field="stac"),
                    check=check,
                )
                return find(searched)

            named = named_sources(
                sources,
                objects=objects,
                policy=policy,
                list_policy=policy,
                find_scenes=find_scenes,
                check=check,
            )
            return SqliteSourceTable(named, check=check)

        if table is None:
            table = found = stack.enter_context(await _in_thread(load))
        await asyncio.to_thread(_open_first, table, signed)
        if index is not None and request is not None and found is not None:
            overview = request.overview

            def learn(check: Check) -> None:
                entries = read_index(index, objects=objects, overview=overview, check=check)
                found.learn(entries, check=check)

            await _in_thread(learn)
        yield Job(
            settings=settings,
            table=table,
            reader=await stack.enter_async_context(reader),
            projector=RasterioProjector(),
            limiter=limiter,
        )


def _signing(kind: Sign) -> Signing:
    """Return how this process signs: with the token of the environment."""
    token = os.environ.get("EARTHDATA_TOKEN")
    return Signing(kind=kind, read_token=None if token is None else lambda: token)


def _open_first(table: Table, objects: Objects) -> None:
    """Open the store of the first source, so that missing credentials are reported early."""
    with closing(listed(table)) as sources:
        first = next(sources, None)
    if first is not None:
        objects.open_(first.href)


async def _in_thread[T](work: Callable[[Check], T]) -> T:
    """Run long work in a thread. After an interrupt it ends at its next call of ``check``."""
    is_over = Event()

    def check() -> None:
        if is_over.is_set():
            raise InterruptedError("interrupted")

    try:
        return await asyncio.to_thread(work, check)
    except asyncio.CancelledError:
        is_over.set()
        raise


def _checked_index(place: str, policy: HrefPolicy) -> str:
    try:
        return check_href(place, policy=policy)
    except ValueError as error:
        raise RequestError(str(error), field="index") from error


def check_place(to: str) -> str:
    """Return the href of an output folder. ``~/`` is the user's home."""
    if to.startswith("~/"):  # shells do not expand it in --to=~/x
        to = str(Path(to).expanduser())
    policy = HrefPolicy(schemes=frozenset({"s3", "file"}), base=str(Path.cwd()))
    try:
        return check_href(to.rstrip("/") or to, policy=policy)
    except ValueError as error:
        raise RequestError(str(error), field="to") from error


def open_existing(cube: str | os.PathLike[str], stores: StoreSettings | None) -> tuple[Store, str]:
    """Return a client for a cube that is there, and its place in words. Creates no folder.

    Raises:
        RequestError: The place is neither a local folder nor on S3.
        StoreError: The folder is missing.
    """
    href = check_place(os.fspath(cube))
    place = shown(href)
    if "://" not in place and not Path(place).is_dir():
        raise StoreError(f"{place}: no cube is there; name the folder that a gather has written")
    return open_place(href, stores or StoreSettings()), place


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
    counter = _Counter(plan=plan, on_progress=on_progress, progress=Progress(n_sources=plan.n_sources))
    shards = asyncio.Semaphore(_SHARDS_IN_FLIGHT)
    buffers = ShardBuffers(plan)

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
                claims=controls,
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


def shown(place: str) -> str:
    """Return a location as other tools expect it: local ones as a path."""
    root, path = split_href(place)
    return f"/{path}" if root == "file://" else place
