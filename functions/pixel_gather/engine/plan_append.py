"""What an append adds to a cube: the rows that the cube lacks, and its failed rows that are tried again.

Both come from the list and from the cube's own table of rows. `pixel_gather.engine.plan_gather` claims and
writes what is planned here.
"""

import time
from collections.abc import Callable, Iterable
from copy import replace
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct

from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.model.source import CubeRow
from pixel_gather.core.plan.cube_plan import Append, CubePlan
from pixel_gather.core.plan.cube_template import check_inherits, check_reduces_alike
from pixel_gather.core.plan.plan import plan_cube
from pixel_gather.core.plan.plan_again import plan_again
from pixel_gather.core.plan.reduced_table import columns_of_scenes, reduced_table
from pixel_gather.core.ports import SourceAccess, SourceTable
from pixel_gather.core.stores import CubeStore, FoundCube
from pixel_gather.engine.archive import order_bands
from pixel_gather.engine.base_cube import Base, read_base
from pixel_gather.engine.choose_new_rows import choose_rows, find_tails
from pixel_gather.engine.find_failed_rows import FailedRows, chooses_same_pixels

if TYPE_CHECKING:  # finish has no pydantic
    from pixel_gather.core.request.request import GatherRequest

type ListedRow = Callable[[int], CubeRow]
"""Gives a row of the cube that is tried again, by its number, as it is written to the list."""


class AskedRows(Struct, frozen=True):
    """What is to be planned."""

    request: "GatherRequest"
    table: SourceTable
    digest: str
    is_known: bool
    """Whether the cube has had this request with this list. Then only failed rows are tried again."""

    settles: bool = False
    """As `pixel_gather.engine.row_claim.RowClaim.settles`."""


async def plan_append(
    asked: AskedRows,
    base: Base,
    *,
    cube: CubeStore | None,
    sources: SourceAccess,
    workers: WorkerPool,
    now: float,
) -> tuple[CubePlan, SourceTable | None, ListedRow | None] | None:
    """Return three things: the plan of an append, the rows that the cube lacks, and what gives tried rows.

    Args:
        asked: What is to be planned.
        base: What the rows are added to.
        cube: The cube; not needed for a new one.
        sources: How the sampled headers are opened.
        workers: Who will do it.
        now: Seconds since 1970-01-01 UTC.

    Returns:
        None if no row is lacking, and none is tried again.
    """
    request, table = asked.request, asked.table
    # Which rows does the cube lack, and which of its rows have failed?
    failed = None
    if base.template is not None and not base.append.is_first:
        failed = _failed_rows(base, request, settles=asked.settles)
        base = replace(base, rows=failed.watch(base.rows))
    whole = order_bands(table, None if base.template is None else base.template.of_scenes)
    if base.template is not None:
        check_reduces_alike(base.template, request)
    rows: SourceTable | None = (
        None if asked.is_known else choose_rows(request, whole, base, sources.projector)
    )
    if rows is not None and not rows.n_rows:
        await _check_known_list(request, whole, base, sources=sources, workers=workers)
        rows = None
    if failed is not None:
        assert cube is not None  # noqa: S101 # it has rows
        await _read_rest(base.rows, failed, request, cube, settles=asked.settles)
        base = replace(base, append=failed.added_to(base.append, stored=base.shards))
        if rows is None and not base.append.n_again:
            return None
    elif rows is None:
        return None

    # Without new rows, no source is opened for the plan.
    if rows is None:
        assert base.template is not None  # noqa: S101 # as above
        assert failed is not None  # noqa: S101 # as above
        plan = plan_again(
            request,
            template=base.template,
            append=base.append,
            digest=asked.digest,
            size=failed.size,
            workers=workers,
            now=now,
        )
        return _with_sizes(plan, base), None, failed.listed(plan)

    # Plan new rows as the cube prescribes.
    plan = await plan_cube(
        request,
        table=rows,
        sources=sources,
        workers=workers,
        now=now,
        template=base.template,
        append=replace(base.append, n_skipped=table.n_sources - rows.n_sources),
    )

    # The first of them may continue shards.
    tails = tuple(dict.fromkeys((*plan.append.tails, *find_tails(plan, base))))
    plan = replace(plan, append=replace(plan.append, tails=tails))
    return _with_sizes(plan, base), rows, None if failed is None else failed.listed(plan)


def _with_sizes(plan: CubePlan, base: Base) -> CubePlan:
    """Return the plan of an append with the sizes of the objects that it goes on from."""
    sizes = tuple(base.shards[key] for key in plan.append.tails)
    return replace(plan, append=replace(plan.append, tail_nbytes=sizes))


def _failed_rows(base: Base, request: "GatherRequest", *, settles: bool) -> FailedRows:
    """Return what collects the rows of a cube that have failed."""
    assert base.template is not None  # noqa: S101 # the cube is there
    asks_for_all = settles or request.failed_rows == "retry_all"
    return FailedRows(template=base.template, n_rows=base.append.first_row, asks_for_all=asks_for_all)


async def _read_rest(
    rows: Iterable[object], failed: FailedRows, request: "GatherRequest", cube: CubeStore, *, settles: bool
) -> None:
    """Read the rest of the table that ``failed`` watches. Only what the request tries again stays in it."""
    for _ in rows:
        pass
    if request.failed_rows == "keep" and not settles:
        failed.rows.clear()
    if failed.rows:
        failed.leave_to_others(request.to_json(), await cube.receipt(), settles=settles)


async def has_failed_rows(request: "GatherRequest", cube: CubeStore, found: FoundCube) -> bool:
    """Return whether a cube has rows that a request tries again."""
    if request.output.append_to is None or request.failed_rows == "keep":
        return False
    base = await read_base(request, None, cube, found)
    failed = _failed_rows(base, request, settles=False)
    await _read_rest(failed.watch(base.rows), failed, request, cube, settles=False)
    return bool(failed.rows)


async def _check_known_list(
    request: "GatherRequest",
    whole: SourceTable,
    base: Base,
    *,
    sources: SourceAccess,
    workers: WorkerPool,
) -> None:
    """Refuse a request that does not fit the cube, though the cube has all sources of its list.

    Opens headers only if the request asks for other pixels than the cube's first gather. Limits of cost do
    not count, because nothing is read.

    Raises:
        RequestError: The message names the field, and both values.
    """
    if not whole.n_rows:
        return
    assert base.template is not None  # noqa: S101 # it is a cube that is there
    whole = reduced_table(request, whole, sources.projector)
    columns = columns_of_scenes(whole)
    asked, first = request.to_json(), base.append.origin.get("request", {})
    check_inherits(base.template, request, slots=(), has_time=whole.has_time, columns=columns, first=first)
    if asked.get("grid") in (None, first.get("grid")) and chooses_same_pixels(asked, first):
        return
    no_cost = dict.fromkeys(("usd", "files", "pixels", "fetched_bytes")) | {"transfer_usd": inf}
    await plan_cube(
        request.model_copy(update={"limits": request.limits.model_copy(update=no_cost)}),
        table=whole,
        sources=sources,
        workers=workers,
        now=time.time(),
        template=base.template,
        append=Append(origin=base.append.origin),
    )
