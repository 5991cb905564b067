"""The first step of an append: plan the rows behind those of a cube, and claim them."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pixel_gather.core.errors import RequestError
from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.source import CubeRow
from pixel_gather.core.model.tile_coding import AS_STORED
from pixel_gather.core.plan.cube_plan import Append, CubePlan
from pixel_gather.core.plan.inherit import CubeTemplate, check_inherits
from pixel_gather.core.plan.plan import gather_digest, plan_cube
from pixel_gather.core.plan.shards import ShardTask
from pixel_gather.core.plan.table_view import TableView
from pixel_gather.core.ports import Projector, SourceReader, SourceTable
from pixel_gather.core.stores import NOT_COMPLETE, ControlStore, FoundCube, GrowingCube
from pixel_gather.engine.plan_gather import described, planned, write_control_files
from pixel_gather.engine.row_claim import RowClaim, claim_key, found_claim, take_claim
from pixel_gather.engine.step_files import FOUND_LIST_KEY

if TYPE_CHECKING:  # finish has no pydantic
    from pixel_gather.core.request.request import GatherRequest

NOTHING_TO_APPEND: Final = "the cube has all of these sources: there is nothing to append"
_FIELD: Final = "output.append_to"
_CHOOSE_PIXELS: Final = ("window", "bands", "overview", "masked", "nodata", "grid")
"""Fields of a request that say which pixels of its sources are wanted."""


async def plan_append(
    request: "GatherRequest",
    *,
    table: SourceTable,
    reader: SourceReader,
    projector: Projector,
    cube: GrowingCube,
    control: ControlStore,
    max_task_nbytes: int,
    deployment: WorkerPool | None = None,
    is_dry: bool = False,
) -> tuple[CubePlan, tuple[ShardTask, ...]] | None:
    """Plan rows behind those of a cube, claim them, and write the control files for the workers.

    Safe to run twice. The same request continues what it has begun.

    Args:
        request: The checked request, with ``output.append_to``.
        table: The list.
        reader: Opens the sampled headers. No pixel is read.
        projector: For boxes and points.
        cube: The cube.
        control: Where the control files are.
        max_task_nbytes: Largest decoded size of a task.
        deployment: The workers for the estimate; None for those of a new deployment.
        is_dry: Only plan: claim nothing and write nothing.

    Returns:
        The plan and its tasks; no tasks if it is dry. None if there is nothing to append: the cube has had
        this request with this list, or it has all its sources.

    Raises:
        RequestError: The request does not fit the cube, or there is no cube.
        BudgetError: The plan is over a limit.
        AppendRunningError: Another append is at work.
    """
    found = await complete_cube(cube)
    template = _template_of(found)
    digest = gather_digest(request, table)
    if digest in {each.digest for each in found.versions}:
        return None
    version = found.version + 1
    claim = None if is_dry else await found_claim(cube, version, digest)
    if claim is not None and (earlier := await planned(control.below(claim.claim))) is not None:
        await take_claim(cube, version, RowClaim.of(earlier[0]))
        return earlier
    metadata, batches = await cube.row_table()
    whole = _whole_list(table, template)
    view = _new_rows(request, whole, found, template, batches)
    if not view.n_rows:
        await _check_known_list(
            request,
            whole,
            found,
            template,
            reader=reader,
            projector=projector,
            max_task_nbytes=max_task_nbytes,
        )
        return None
    append = Append(
        version=version,
        first_row=found.versions[-1].n_rows,
        n_skipped=table.n_sources - view.n_sources,
        chunk_rows=found.chunk_rows,
        versions=found.versions,
        origin=dict(found.origin),
    )
    plan = await plan_cube(
        request,
        table=view,
        reader=reader,
        projector=projector,
        max_task_nbytes=max_task_nbytes,
        now=time.time() if claim is None else claim.planned_at,
        deployment=deployment,
        template=template,
        append=append,
    )
    plan = replace(plan, append=replace(append, tails=_tails(plan, metadata)))
    if is_dry:
        return plan, ()
    plan = described(plan, projector)
    claim = await take_claim(cube, version, RowClaim.of(plan))
    plan = replace(plan, planned_at=claim.planned_at)
    return await write_control_files(plan, view, control.below(plan.claim))


async def found_list_of_append(
    request: "GatherRequest", *, cube: GrowingCube, control: ControlStore
) -> bytes | None:
    """Return the list that an earlier, unfinished run of this append found; None if there is none.

    See `pixel_gather.engine.plan_gather.found_list_of`.
    """
    if not request.sources.are_searched:
        return None
    found = await complete_cube(cube)
    there = await cube.read_object(claim_key(found.version + 1))
    claim = None if there is None else RowClaim.from_bytes(there.content)
    if claim is None or not claim.digest.startswith(request.digest()):
        return None
    return await control.below(claim.claim).get(FOUND_LIST_KEY)


async def complete_cube(cube: GrowingCube) -> FoundCube:
    """Return the cube that rows are to be added to.

    Raises:
        RequestError: There is none that rows can be added to.
    """
    found = await finished_cube(cube, field=_FIELD)
    if found.template is None:
        raise RequestError(
            f"{cube.place} is a copy of joined cubes and cannot grow: append to its members and copy again",
            field=_FIELD,
        )
    return found


async def finished_cube(cube: GrowingCube, *, field: str) -> FoundCube:
    """Return the complete cube that is there, whether it can grow or not.

    Args:
        cube: Where.
        field: What names it, for messages.

    Raises:
        RequestError: There is none.
    """
    found = await cube.found()
    if found is None:
        raise RequestError(
            f"{cube.place} holds no cube: name an existing one, or gather a new one", field=field
        )
    if not found.versions:
        raise RequestError(f"{cube.place}: {NOT_COMPLETE}", field=field)
    return found


def _template_of(found: FoundCube) -> CubeTemplate:
    """Return what a cube prescribes to its new rows.

    Raises:
        RequestError: The cube has the sources' own tiles, so it cannot grow.
    """
    assert found.template is not None  # noqa: S101 # `complete_cube` has checked it
    if found.template.codec == AS_STORED:
        raise RequestError("a cube of codec source cannot grow: gather a new cube", field=_FIELD)
    return found.template


async def _check_known_list(
    request: "GatherRequest",
    whole: TableView,
    found: FoundCube,
    template: CubeTemplate,
    *,
    reader: SourceReader,
    projector: Projector,
    max_task_nbytes: int,
) -> None:
    """Refuse a request that does not fit the cube, though the cube has all sources of its list.

    Opens headers only if the request asks for other pixels than the cube's first gather. Limits of cost do
    not count, because nothing is read.

    Raises:
        RequestError: The message names the field, and both values.
    """
    if not whole.n_rows:
        return
    check_inherits(template, request, slots=(), has_time=whole.has_time, columns=whole.columns)
    asked, first = request.to_json(), found.origin.get("request", {})
    if all(asked.get(name) == first.get(name) for name in _CHOOSE_PIXELS):
        return
    no_cost = dict.fromkeys(("usd", "files", "pixels", "fetched_bytes"))
    await plan_cube(
        request.model_copy(update={"limits": request.limits.model_copy(update=no_cost)}),
        table=whole,
        reader=reader,
        projector=projector,
        max_task_nbytes=max_task_nbytes,
        now=time.time(),
        template=template,
    )


def _whole_list(table: SourceTable, template: CubeTemplate) -> TableView:
    """Return all rows of the list, with their bands in the cube's order."""
    return TableView(
        table=table,
        bands=tuple(each.name for each in template.slots if each.name is not None),
        slot_order=template.slot_order(table.bands),
        kept=range(table.n_rows),
    )


def _new_rows(
    request: "GatherRequest",
    whole: TableView,
    found: FoundCube,
    template: CubeTemplate,
    batches: Iterator[Mapping[str, Any]],
) -> TableView:
    """Return the rows of the list to append."""
    if request.duplicates == "again":
        return whole
    hrefs, scenes = _known(template, found.versions[-1].n_rows, batches)
    kept: list[int] = []
    known: list[int] = []
    for index, row in enumerate(whole.rows(0, whole.n_rows)):
        (known if _is_known(row, hrefs, scenes) else kept).append(index)
    if known and request.duplicates == "fail":
        first = next(each for row in whole.rows(known[0], known[0] + 1) for each in row.sources if each)
        raise RequestError(
            f"the cube already has {counted(len(known), 'row')} of this list, such as {first.href}. Leave "
            "them out of the list, or set duplicates to skip or again",
            field="duplicates",
        )
    return replace(whole, kept=kept)


def _known(
    template: CubeTemplate, n_rows: int, batches: Iterator[Mapping[str, Any]]
) -> tuple[set[str], set[str]]:
    """Return the hrefs and the scenes of the cube's rows."""
    hrefs: set[str] = set()
    scenes: set[str] = set()
    has_scenes = any(each.name == "scene" for each in template.columns)
    left = n_rows  # the table of an append that was not committed has more
    for batch in batches:
        hrefs.update(batch["href"][:left].ravel().tolist())
        if has_scenes:
            scenes.update(batch["scene"][:left].ravel().tolist())
        left -= min(len(batch["href"]), left)
    return hrefs, scenes - {""}


def _is_known(row: CubeRow, hrefs: set[str], scenes: set[str]) -> bool:
    """Return whether the cube has a row's scene, or all of its sources."""
    sources = [each for each in row.sources if each is not None]
    return any(each.scene in scenes for each in sources) or all(each.href in hrefs for each in sources)


def _tails(plan: CubePlan, metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys of the shards that the first new rows share with rows of the cube.

    Raises:
        RequestError: The cube's windows are cut into strips, and its last shards are not full.
    """
    place, n_before = divmod(plan.first_row, plan.layout.shard[0])
    if not n_before:
        return ()
    if plan.n_strips > 1:
        raise RequestError(
            f"this cube cannot grow. Its windows are cut into strips, and its last shards have {n_before} of "
            f"{plan.layout.shard[0]} rows. A cube of strips can grow only if its shards are full",
            field=_FIELD,
        )
    stored = {key for key, *_ in metadata["shards"]}
    keys = (f"{each.name}/c/{place}/0/0" for each in plan.measurements)
    return tuple(key for key in keys if key in stored)
