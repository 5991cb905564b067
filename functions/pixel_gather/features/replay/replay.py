"""Gather again what a cube's receipt says, and tell what has changed in its sources."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, closing
from copy import replace
from typing import Any, Final

import obstore

from pixel_gather.core.errors import BudgetError, GatherError, RequestError, StoreError
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.core.plan.choose_layout import Layout
from pixel_gather.core.plan.cube_plan import Append, CubePlan
from pixel_gather.core.plan.plan_again import Again, plan_again
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.core.request.href_policy import parent_of
from pixel_gather.core.request.output import Output
from pixel_gather.core.request.request import GatherRequest, parse_request
from pixel_gather.core.results.copied_receipt import JOINED
from pixel_gather.core.results.find_drift import Drift, Replayed, SourceDrift, Version, find_drift
from pixel_gather.core.scenes.scene_sources import asset_choices, band_numbers
from pixel_gather.core.stores import FOUND_LIST_KEY
from pixel_gather.engine.archive import copy_archive
from pixel_gather.engine.find_failed_rows import may_read
from pixel_gather.features.gather.gather import gather_listed
from pixel_gather.features.replay.read_sources_again import (
    CubeLook,
    LookByRequest,
    PixelLook,
    SecondLook,
    VersionLook,
    looked_at,
)
from pixel_gather.features.replay.replayed_searches import list_searches
from pixel_gather.in_process.job import Job, listed, opened_job
from pixel_gather.in_process.joined_places import refuse_joined
from pixel_gather.in_process.places import check_new_place, open_existing, show_place
from pixel_gather.in_process.settings import Settings
from pixel_gather.io.cube.stored_cube import StoredCube
from pixel_gather.io.cube.stored_receipt import read_receipt
from pixel_gather.io.cube.stored_table import StoredTable
from pixel_gather.io.cube.zarr_cube import ZarrCube
from pixel_gather.io.event_loop import run
from pixel_gather.io.store.object_store import Objects, open_place

type OnSource = Callable[[SourceDrift], None]

_KEPT_LIMITS: Final = ("times_source", "requests_per_s")
"""Limits of a request that hold for its replay, too. Others are of a plan that was agreed to."""

_NO_LIMIT: Final = 1 << 50
"""Largest size of a task, in bytes: the cube's shards are what they are."""


@check_arguments
def replay(
    cube: str | os.PathLike[str],
    to: str | os.PathLike[str] | None = None,
    *,
    headers_only: bool = False,
    settings: Settings | None = None,
    on_source: OnSource = lambda _: None,
) -> Replayed:
    """Gather again what a cube's receipt says, and compare every source with the cube.

    The request is that of the receipt, and the sources are those of the cube's rows. If the cube's
    list came from a search or a prefix, that is searched again for sources that the cube does not have.
    Rows that are reduced of many scenes are reduced again, and every scene is told.
    Memory holds two shards, each with its former and its present pixels, and every source that has changed.

    Args:
        cube: A folder, or ``s3://bucket/prefix``.
        to: Where to write a new cube of the same sources, which is then compared. None to write nothing.
        headers_only: Compare only the versions of the files: one request of one byte for each source.
        settings: How this machine is used.
        on_source: Called for every source, also if nothing has changed, in the order of the rows.

    Raises:
        RequestError: ``to`` and ``headers_only`` are both given, a place is wrong, or joined cubes or a
            virtual cube are there.
        ArrayExistsError: Something else is at ``to``.
        StoreError: No complete cube with a receipt is there, or a store failed.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    if to is not None and headers_only:
        raise RequestError(
            "a new cube needs pixels, and --headers-only reads none: leave out --to or --headers-only",
            field="to",
        )
    return run(_replay(cube, to, headers_only, settings or Settings(), on_source))


async def _replay(
    place: str | os.PathLike[str],
    to: str | os.PathLike[str] | None,
    headers_only: bool,  # noqa: FBT001 # named in `replay`
    settings: Settings,
    on_source: OnSource,
) -> Replayed:
    # Can this cube be replayed?
    store, name = open_existing(place, settings.stores)
    refuse_joined(
        store,
        name,
        done="replayed",
        instead="make a virtual cube again from its list; replay the cubes that are joined",
    )
    if (await asyncio.to_thread(read_receipt, store, name)).images_per_chip is not None:
        raise RequestError(
            f"{name} is a cube of chips, which cannot be replayed: gather its request again to another place",
            field="cube",
        )
    cube = await asyncio.to_thread(StoredCube, store, place=name)
    if JOINED in cube.receipt.request:
        raise RequestError(
            f"{name} is a copy of joined cubes, which no request has gathered: replay its members",
            field="cube",
        )
    if to is not None and len(_requests(cube)) > 1:
        raise RequestError(
            f"rows of {name} were added by requests for other pixels or other tokens: gather each request "
            "again to another place, or replay it without a new cube",
            field="to",
        )
    if cube.is_reduced and to is not None:
        raise RequestError(
            f"rows of {name} are reduced of many scenes: gather its request again to another place, or "
            "replay it without a new cube",
            field="to",
        )
    found = Replayed(place=name)

    def note(each: SourceDrift) -> None:
        found.add(each)
        on_source(each)

    # What do its sources give now, source by source? And which are new in its list?
    async with AsyncExitStack() as stack:
        if to is None:
            look = await _look_at_sources(cube, settings, stack, found.remarks, headers_only=headers_only)
        else:
            look = await _gather_new_cube(cube, to, settings, found)
        known = set[int]()
        drifts = _drifts(cube, look, known, found.remarks)
        async with aclosing(drifts):
            async for each in drifts:
                note(each)
    for source in await _new_sources(cube, settings, known, found.remarks):
        note(SourceDrift(row=None, band=source.band, href=source.href, drift=Drift.NEW))
    return found


async def _drifts(
    cube: StoredCube, look: SecondLook, known: set[int], remarks: list[str]
) -> AsyncGenerator[SourceDrift]:
    """Yield every source of the cube in order. The hash of each href is added to ``known``."""
    parts = looked_at(cube, look)
    async with aclosing(parts):
        async for start, seen in parts:
            versions = await asyncio.to_thread(cube.versions, start, start + len(seen.rows))
            for at, row in enumerate(seen.rows):
                same = [None] * len(row.sources) if seen.are_same is None else seen.are_same[at]
                drifts = [
                    _drift(start + at, row, source, then, now, pixels_are_same=is_same)
                    for source, then, now, is_same in zip(
                        row.sources, versions[at], seen.versions[at], same, strict=True
                    )
                    if source is not None
                ]
                if False in same and all(each.drift is Drift.SAME for each in drifts):
                    remarks.append(
                        f"row {start + at} has other pixels than its sources, of which none has changed: "
                        "pixel-gather verify tells whether the cube is damaged"
                    )
                for each in drifts:
                    known.add(hash(each.href))
                    yield each


def _drift(
    number: int, row: CubeRow, source: Source, then: Version, now: Version, *, pixels_are_same: bool | None
) -> SourceDrift:
    """Return what has changed in one source of a row."""
    drift = find_drift(then, now, pixels_are_same=pixels_are_same, are_shared=bool(row.members))
    return SourceDrift(row=number, band=source.band, href=source.href, drift=drift, then=then, now=now)


async def _look_at_sources(
    cube: StoredCube, settings: Settings, stack: AsyncExitStack, remarks: list[str], *, headers_only: bool
) -> SecondLook:
    """Open the sources. Where no pixels can be compared, a remark says why."""
    clients: list[Objects] = []

    def keep(objects: Objects) -> Objects:
        clients.append(objects)
        return objects

    decoded = {"output": Output()}  # pixels are compared, also where the cube keeps compressed tiles
    requests = [
        (rows, _listed_request(cube, own).model_copy(update=decoded)) for rows, own in _requests(cube)
    ]
    opened = [
        await stack.enter_async_context(
            opened_job(request.sources, settings, request=request, table=_table(cube), over=keep)
        )
        for _, request in requests
    ]
    looks: list[SecondLook] = [VersionLook(cube, *each) for each in zip(opened, clients, strict=True)]
    if not headers_only:
        try:
            looks = [
                PixelLook(cube, _plan_rows_anew(request, cube, job), job)
                for (_, request), job in zip(requests, opened, strict=True)
            ]
        except BudgetError as error:
            remarks.append(f"no pixels were compared: {error}")
    of_rows = [(each, look) for (rows, _), look in zip(requests, looks, strict=True) for each in rows]
    return LookByRequest(sorted(of_rows, key=lambda each: each[0].start))


def _requests(cube: StoredCube) -> list[tuple[list[range], Mapping[str, Any]]]:
    """Return the requests that have added the rows, each with its rows. Those that read alike are one."""
    added = [
        (range(*each.rows), each.request) for each in cube.receipt.appends if each.rows[0] < each.rows[1]
    ]
    first = range(added[0][0].start if added else cube.receipt.shape[0])
    found: list[tuple[list[range], Mapping[str, Any]]] = []
    for rows, request in [(first, cube.receipt.request), *added]:
        of_request = next((ranges for ranges, each in found if may_read(request, each)), None)
        if of_request is None:
            found.append(([rows], request))
        elif of_request[-1].stop == rows.start:
            of_request[-1] = range(of_request[-1].start, rows.stop)
        else:
            of_request.append(rows)
    return found


def _plan_rows_anew(request: GatherRequest, cube: StoredCube, job: Job) -> CubePlan:
    """Return a plan that reads all rows of a cube again, by what the cube prescribes to its sources."""
    n_rows, workers = cube.receipt.shape[0], replace(job.workers, max_task_nbytes=_NO_LIMIT)
    scenes: tuple[int, ...] = ()
    if cube.is_reduced:
        scenes, workers = tuple(len(row.members) for row in cube.rows(0, n_rows)), job.workers
    append = Append(
        version=len(cube.receipt.appends) + 2,
        first_row=n_rows,
        again=tuple(range(n_rows)),
        n_tries=(1,) * n_rows,
        scenes_again=scenes,
    )
    nothing_known = Again(n_sources=1, n_by_bucket={}, mean_nbytes=0, mean_open_nbytes=0)
    plan = plan_again(
        request,
        template=cube.template,
        append=append,
        digest=cube.receipt.digest,
        size=nothing_known,
        workers=workers,
        now=0.0,
    )
    return replace(plan, layout=Layout(chunk=cube.receipt.shard, shard=cube.receipt.shard), codec="none")


async def _gather_new_cube(
    cube: StoredCube, to: str | os.PathLike[str], settings: Settings, found: Replayed
) -> SecondLook:
    """Gather into a new cube and open it."""
    content = None if cube.receipt.appends else await asyncio.to_thread(_found_list, cube)
    request = _own_request(cube) or _listed_request(cube, cube.receipt.request)
    if request.output.archive is not None:
        folder = parent_of(check_new_place(to))
        archive = ZarrCube(open_place(folder, settings.stores), show_place(folder))
        await copy_archive(request, cube.template, cube.receipt.digest, archive)
    gathered = await gather_listed(
        request,
        to=to,
        table=_table(cube, found_list=content),
        settings=settings,
    )
    found.to, found.was_complete = gathered.place, gathered.was_complete
    store, name = open_existing(to, settings.stores, field="to")
    other = await asyncio.to_thread(StoredCube, store, place=name)
    if (other.receipt.shape, other.receipt.dtypes) != (cube.receipt.shape, cube.receipt.dtypes):
        raise StoreError(
            f"{name} is complete, but cannot be compared: it is {_form(other)}, "
            f"and {cube.place} is {_form(cube)}"
        )
    if found.was_complete:
        at = other.receipt.planned_at[:19].replace("T", " ")
        found.remarks.append(
            f"{name} was there already, so no source was read: it has the pixels of {at} UTC. "
            "To know what has changed since, choose another place"
        )
    return CubeLook(cube, other)


async def _new_sources(
    cube: StoredCube, settings: Settings, known: set[int], remarks: list[str]
) -> list[Source]:
    """Ask the cube's searches or listing again, and return the sources that the cube does not have."""
    receipt, new = cube.receipt, list[Source]()
    for given in list_searches([receipt.request, *(each.request for each in receipt.appends)]):
        try:
            request = parse_request(_plain(given))
            async with opened_job(request.sources, settings, request=request) as job:
                with closing(listed(job.table)) as found:
                    for each in found:
                        if hash(each.href) not in known:
                            known.add(hash(each.href))
                            new.append(each)
        except GatherError as error:
            remarks.append(f"the search cannot be repeated: {error}")
    return new


def _own_request(cube: StoredCube) -> GatherRequest | None:
    """Return the request of the receipt, without its header index; None if parts of it are not kept."""
    try:
        return parse_request(_plain(cube.receipt.request))
    except RequestError:
        return None


def _listed_request(cube: StoredCube, own: Mapping[str, Any]) -> GatherRequest:
    """Return a request for the same windows as one of the cube's, whose list is that of the cube."""
    given = _plain(own)
    sources = given["sources"] if isinstance(given["sources"], dict) else {}
    first = next(_hrefs(cube), None)
    if first is None:
        raise StoreError(f"{cube.place}: its rows name no source")
    given["sources"] = {"hrefs": [first], "sign": sources.get("sign", "none")}
    if cube.source_bands is not None:
        given["bands"] = cube.source_bands
    return parse_request(given)


def _plain(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request without what only concerns how and where its cube was made."""
    given = {name: value for name, value in request.items() if name not in ("index", "duplicates")}
    limits = given.pop("limits", {})
    return given | {"limits": {name: limits[name] for name in _KEPT_LIMITS if name in limits}}


def _table(cube: StoredCube, *, found_list: bytes | None = None) -> StoredTable:
    sources = cube.receipt.request.get("sources", {})
    searched = (sources.get("stac") or sources.get("catalog") or {}) if isinstance(sources, dict) else {}
    choices = asset_choices(searched["assets"], field="sources.assets") if "assets" in searched else ()
    return StoredTable(cube, band_numbers=band_numbers(choices), found_list=found_list)


def _found_list(cube: StoredCube) -> bytes | None:
    try:
        return bytes(obstore.get(cube.store, FOUND_LIST_KEY).bytes())
    except FileNotFoundError:
        return None


def _hrefs(cube: StoredCube) -> Iterator[str]:
    for row in cube.rows(0, cube.receipt.shape[0]):
        yield from (each.href for each in row.sources if each is not None)


def _form(cube: StoredCube) -> str:
    dtypes = ", ".join(f"{name} {dtype}" for name, dtype in list(cube.receipt.dtypes.items())[:10])
    return f"{' x '.join(map(str, cube.receipt.shape))}, {dtypes}"
