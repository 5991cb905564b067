"""Applies the deployment's limits to a request and reads its list, or refuses it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from copy import replace
from functools import partial
from typing import Any, Final, NoReturn

from handlers.deployment.policy import (
    check_index,
    check_list,
    check_places,
    list_policy,
    source_policy,
)
from handlers.deployment.settings import Settings
from handlers.deployment.stores import Deployment
from pixel_gather.core.area import Box
from pixel_gather.core.errors import ArrayExistsError, BudgetError, RequestError
from pixel_gather.core.metric_names import GATHERS_REFUSED
from pixel_gather.core.model.source import Source
from pixel_gather.core.model.window import WindowRule
from pixel_gather.core.plan.chip_table import TABLE_FIELD, Chips, ChipTable
from pixel_gather.core.request.request import GatherRequest, Limits
from pixel_gather.core.request.web_address import hosts_only
from pixel_gather.core.request.windows_request import WindowsRequest
from pixel_gather.io.aws.metrics import EmfMetrics
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.io.header_index import read_index
from pixel_gather.io.lists.found_list import found_sources
from pixel_gather.io.lists.source_list import SourceList, named_sources
from pixel_gather.io.lists.source_table import SqliteSourceTable
from pixel_gather.io.scenes.scene_list import SceneFinder
from pixel_gather.io.scenes.search_own_catalog import MissingCatalogError
from pixel_gather.io.store.object_store import Objects
from pixel_gather.io.store.open_list_file import Check, open_list_file

_FOR_THE_LIST: Final = 0.75
"""Share of a plan's time. Reading headers, sorting the list and writing the manifest take less. The thread
that reads the list ends before the caller is answered."""

_UNREAD_FOR_S: Final = 3600
_LONGEST_CAUSE: Final = 2000
"""Longest cause of a refusal, in characters."""


def admit(request: GatherRequest, settings: Settings) -> GatherRequest:
    """Return the request with limits no higher than the deployment's. Its digest does not change.

    A request without a number of workers stays without one: the plan then chooses how many are useful.

    Raises:
        RequestError: The request names sources that this deployment may not read.
    """
    check_places(request, settings)
    limits = request.limits.within(Limits.model_validate(settings.limits))
    if request.limits.workers is None:
        limits = limits.model_copy(update={"workers": None})
    return request.model_copy(update={"limits": limits})


@asynccontextmanager
async def open_table(
    request: GatherRequest,
    deployment: Deployment,
    *,
    left_s: float,
    found_list: bytes | None = None,
    keeps: Callable[[Box], bool] | None = None,
    window: WindowRule | None = None,
) -> AsyncIterator[SqliteSourceTable]:
    """Read the list of a request into a table, which is removed at the end of the context.

    Args:
        request: As `admit` returned it.
        deployment: Whose stores are read.
        left_s: How long the whole plan may take.
        found_list: What an earlier run of the request found; it is read instead of searching.
        keeps: Tells by its box whether a scene that a search has found is wanted; None for all of them.
        window: Where scenes are looked for; the request's window if not given.

    Raises:
        RequestError: The list is wrong.
        BudgetError: The list is longer than the limits allow.
        TimeoutError: Reading the list takes too long.
    """
    deployment.budgets.use(request.limits.requests_per_s or {}, n_workers=1)
    longest_s = left_s * _FOR_THE_LIST
    until = time.monotonic() + longest_s

    def check() -> None:
        if time.monotonic() > until:
            raise TimeoutError(
                f"the list takes longer to read than {longest_s:.0f} s: name fewer files in one gather, and "
                "a prefix that holds little else"
            )

    def load() -> SqliteSourceTable:
        searched = window or request.rule()
        named = _name_sources(request, deployment, check, found_list, keeps, searched)
        limited = _limit_sources(named.sources, most=request.limits.files)
        try:
            table = SqliteSourceTable(replace(named, sources=limited), check=check)
        except RequestError as error:
            _blame_own_catalog(error, request, deployment.settings)
        if request.index is not None:
            try:
                _learn(table, request.index, request, deployment, check)
            except BaseException:
                table.close()
                raise
        return table

    with await asyncio.to_thread(load) as table:
        yield table


def unread_list() -> str:
    """Return what stands for the digest of a list that takes too long to read. It changes each hour.

    A request that is repeated within the hour is the same job. A later one is a new job, as the list may have
    changed.
    """
    return f"not read in hour {time.time() // _UNREAD_FOR_S:.0f}"


@asynccontextmanager
async def open_gather_table(
    request: GatherRequest, deployment: Deployment, *, left_s: float, found_list: bytes | None = None
) -> AsyncIterator[SqliteSourceTable | ChipTable]:
    """Read the list of a gather, for each of its chips if it has some; see `open_table`."""
    if request.windows is None:
        async with open_table(request, deployment, left_s=left_s, found_list=found_list) as table:
            yield table
        return
    objects = deployment.signed_objects(request.sources.sign)
    chips = await asyncio.to_thread(_open_chips, request.windows, deployment.settings, objects)
    async with open_table(
        request,
        deployment,
        left_s=left_s,
        found_list=found_list,
        keeps=chips.meets,
        window=chips.rule_of_all(),
    ) as table:
        yield ChipTable(table=table, chips=chips)


def _open_chips(windows: WindowsRequest, settings: Settings, objects: Objects) -> Chips:
    from pixel_gather.tables.read_chip_table import read_chip_table  # noqa: PLC0415 # seldom needed, and takes 0.1 s

    href = check_list(windows.table, settings, field=TABLE_FIELD)
    with naming_field(TABLE_FIELD, of=href):
        name, file = open_list_file(href, objects=objects, what="table of chips")
        return read_chip_table(file, name=name, windows=windows)


@contextmanager
def naming_field(field: str, *, of: str | None) -> Iterator[None]:
    """Let an error of a whole file name the field of the request that has its address ``of``.

    Programs that read an answer of the API look for a field. An error of one line still names the line.
    """
    try:
        yield
    except RequestError as error:
        name = (of or "").rpartition("/")[2]
        if error.field not in (name, name.removesuffix(".gz")):
            raise
        raise RequestError(error.message, field=field) from error


def _learn(
    table: SqliteSourceTable, index: str, request: GatherRequest, deployment: Deployment, check: Check
) -> None:
    href = check_index(index, deployment.settings)
    objects = deployment.signed_objects(request.sources.sign)
    table.learn(read_index(href, objects=objects, overview=request.level, check=check), check=check)


def _name_sources(
    request: GatherRequest,
    deployment: Deployment,
    check: Check,
    found_list: bytes | None,
    keeps: Callable[[Box], bool] | None,
    window: WindowRule,
) -> SourceList:
    settings, objects = deployment.settings, deployment.signed_objects(request.sources.sign)
    find_scenes = SceneFinder(
        window=window,
        projector=RasterioProjector(),
        objects=objects,
        policy=source_policy(settings),
        catalog_policy=list_policy(settings),
        check_api=lambda _: hosts_only(settings.catalog_hosts, field="stac"),
        check=check,
        keeps=keeps,
    )
    with naming_field("sources.list", of=request.sources.list):
        return named_sources(
            request.sources,
            objects=objects,
            policy=source_policy(settings),
            list_policy=list_policy(settings),
            find_scenes=find_scenes if found_list is None else partial(found_sources, found_list),
            check=check,
        )


def _blame_own_catalog(error: RequestError, request: GatherRequest, settings: Settings) -> NoReturn:
    """Raise the error of a search, or what is behind it if the deployment's own catalog is missing.

    The caller has not named that catalog.
    """
    asked, behind = request.sources.catalog, error.__cause__
    while behind is not None and not isinstance(behind, MissingCatalogError):
        behind = behind.__cause__
    if behind is not None and asked is not None and asked.file == settings.catalog:
        raise behind from None
    raise error


def _limit_sources(sources: Iterator[Source], *, most: int | None) -> Iterator[Source]:
    """Yield sources until there are too many. So no list can fill the disk."""
    for n, source in enumerate(sources, start=1):
        if most is not None and n > most:
            raise BudgetError(
                f"the list names more than {most:,} files, which is the limit. Ask for less, or raise the "
                "limit. On AWS the lower limit holds: the request's or the deployment's",
                field="limits.files",
            )
        yield source


def refuse(error: RequestError | BudgetError | ArrayExistsError, metrics: EmfMetrics) -> dict[str, Any]:
    """Count a refusal, and return the verdict. The state machine fails with its error and its cause."""
    metrics.write({GATHERS_REFUSED: [1]})
    name = RequestError.__name__ if isinstance(error, RequestError) else type(error).__name__
    return {"verdict": "refused", "error": name, "cause": str(error)[:_LONGEST_CAUSE]}
