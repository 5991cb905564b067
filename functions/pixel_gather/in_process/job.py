"""Opens what all steps of a gather in this process share: the list, its sources and the reader."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from msgspec import Struct

from pixel_gather.core.area import Box
from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.model.source import Source
from pixel_gather.core.plan.chip_table import TABLE_FIELD, Chips, ChipTable
from pixel_gather.core.ports import SourceAccess
from pixel_gather.core.request.href_policy import IN_PROCESS, HrefPolicy, checked_href
from pixel_gather.core.request.request import GatherRequest
from pixel_gather.core.request.sources import Sources
from pixel_gather.core.request.web_address import same_host_only
from pixel_gather.core.request.windows_request import WindowsRequest
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.io.gdal.settings import GdalSettings
from pixel_gather.io.header_index import read_index
from pixel_gather.io.lists.source_list import SourceList, named_sources
from pixel_gather.io.lists.source_table import SqliteSourceTable
from pixel_gather.io.reader import CogReader
from pixel_gather.io.store.concurrency import AdaptiveLimiter
from pixel_gather.io.store.fetched import Ranges
from pixel_gather.io.store.limiter.adapt_concurrency import MOST_NEAR
from pixel_gather.io.store.limiter.ledgers import HostBudgets, open_users_folder
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.open_list_file import Check, open_list_file
from pixel_gather.io.store.signing import Sign, Signing

if TYPE_CHECKING:
    from pixel_gather.io.cube.stored_table import StoredTable

type Table = SqliteSourceTable | StoredTable | ChipTable
"""The sources in a request's list, for each of its chips if it has some; or those of a cube that is gathered
again."""


class Job(Struct, frozen=True, kw_only=True):
    """Objects that all steps of one gather share."""

    settings: Settings
    table: Table
    reader: CogReader
    projector: RasterioProjector
    limiter: AdaptiveLimiter

    @property
    def sources(self) -> SourceAccess:
        """How its sources are read."""
        return SourceAccess(
            reader=self.reader,
            projector=self.projector,
            limiter=self.limiter,
            timeout_s=self.settings.source_timeout_s,
        )

    @property
    def workers(self) -> WorkerPool:
        """This machine as a worker. Its estimate is that of a new deployment."""
        return WorkerPool(max_task_nbytes=self.settings.max_task_nbytes)

    @property
    def in_flight(self) -> int:
        """Most requests at one time to a near store. Forecasts assume that stores are near."""
        return self.settings.concurrency or MOST_NEAR

    @property
    def most_ahead(self) -> int:
        """Most sources in progress if results are taken in order. Others continue while one is slow."""
        return 2 * (self.settings.concurrency or self.limiter.most)


@asynccontextmanager
async def opened_job(
    sources: Sources,
    settings: Settings,
    *,
    request: GatherRequest | None = None,
    found_list: bytes | None = None,
    table: Table | None = None,
    over: Callable[[Objects], Ranges] = lambda objects: objects,
    keeps: Callable[[Box], bool] | None = None,
) -> AsyncIterator[Job]:
    """Read the list and the request's header index, if any, and open the reader.

    Args:
        sources: The request's.
        settings: How this machine is used.
        request: The request; None where there is no window.
        found_list: What an earlier run of the request found; it is read instead of searching.
        table: The list itself. Then neither the request's list nor its header index is read.
        over: Wraps the clients, for example in a cache. Sources are read through what it returns.
        keeps: Tells by its box whether a scene that a search has found is wanted; None for all of them.
    """
    # What paces the requests, and what reads the files?
    budgets = None
    if request is not None and request.limits.requests_per_s:
        budgets = HostBudgets(request.limits.requests_per_s, open_store=open_users_folder)
    limiter = AdaptiveLimiter(fixed=settings.concurrency, budgets=budgets)
    plain = Objects(settings.stores, pace=limiter)
    # Lists, items and chips may lie where the files do.
    objects = plain if sources.sign == "none" else plain.signed(_signing(sources.sign))
    policy = IN_PROCESS.within(str(Path.cwd()))
    fast = settings.fast_path(shares_tiles=request is not None and request.windows is not None)
    reader = CogReader.over(over(objects), fast=fast, fall_back=GdalSettings())
    # An address that is wrong is refused before anything is opened.
    index = None
    if request is not None and request.index is not None:
        index = checked_href(request.index, "index", policy=policy)
    found: SqliteSourceTable | None = None
    chips: Chips | None = None
    async with AsyncExitStack() as stack:
        # Chips come before the list: a search then asks for scenes that meet one of them.
        if request is not None and request.windows is not None and table is None:
            windows = request.windows
            chips = await _in_thread(lambda check: _open_chips(windows, objects, policy, check))
        window = None if request is None else request.rule() if chips is None else chips.rule_of_all()

        def load(check: Check) -> SqliteSourceTable:
            def find_scenes(searched: Sources) -> SourceList:
                # for searches alone: it takes 0.05 s
                from pixel_gather.io.lists.found_list import found_sources  # noqa: PLC0415
                from pixel_gather.io.scenes.scene_list import SceneFinder  # noqa: PLC0415

                if found_list is not None:
                    return found_sources(found_list, searched)
                find = SceneFinder(
                    window=window,
                    projector=RasterioProjector(),
                    objects=objects,
                    policy=policy,
                    catalog_policy=policy,
                    check_api=partial(same_host_only, field="stac"),
                    check=check,
                    keeps=keeps if chips is None else chips.meets,
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

        # The list, then what an index knows of its files.
        if table is None:
            table = found = stack.enter_context(await _in_thread(load))
        await asyncio.to_thread(_open_first, table, objects)
        if index is not None and request is not None and found is not None:
            overview = request.level

            def learn(check: Check) -> None:
                entries = read_index(index, objects=objects, overview=overview, check=check)
                found.learn(entries, check=check)

            await _in_thread(learn)
        yield Job(
            settings=settings,
            table=table if chips is None else ChipTable(table=table, chips=chips),
            reader=await stack.enter_async_context(reader),
            projector=RasterioProjector(),
            limiter=limiter,
        )


def listed(table: Table) -> Generator[Source]:
    """Yield the sources of every row. Close the generator before the table."""
    with closing(table.rows(0, table.n_rows)) as rows:
        for row in rows:
            yield from (source for source in row.sources if source is not None)


def _open_chips(windows: WindowsRequest, objects: Objects, policy: HrefPolicy, check: Check) -> Chips:
    from pixel_gather.tables.read_chip_table import read_chip_table  # noqa: PLC0415 # seldom needed, and takes 0.1 s

    href = checked_href(windows.table, TABLE_FIELD, policy=policy)
    name, file = open_list_file(href, objects=objects, check=check, what="table of chips")
    return read_chip_table(file, name=name, windows=windows)


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
