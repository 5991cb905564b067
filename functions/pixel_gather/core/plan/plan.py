"""Plan the cube before a pixel is read: shape, dtypes, layout, price, warnings.

Some headers spread over the list are opened. One of the most frequent kind is the typical header. Later
every source is compared with it.
"""

import math
from collections.abc import Sequence
from copy import replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pixel_gather.core.errors import BudgetError, RequestError
from pixel_gather.core.estimate.compute_estimate import estimate_on_aws
from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.model.source import ListColumn
from pixel_gather.core.model.window import Window
from pixel_gather.core.plan.chip_rows import ChipAxis
from pixel_gather.core.plan.chip_table import TABLE_FIELD, ChipTable
from pixel_gather.core.plan.choose_layout import Layout, chip_layout, plan_layout
from pixel_gather.core.plan.choose_measurements import check_band_axis, choose_measurements, mask_of_cube
from pixel_gather.core.plan.common_grid import (
    CommonGrid,
    check_one_grid,
    choose_grid,
    crs_in_degrees,
    is_as_wide,
    rule_on_grid,
)
from pixel_gather.core.plan.cube_plan import (
    MOST_GRIDS,
    Append,
    CubePlan,
    Measurement,
    SourceSlot,
)
from pixel_gather.core.plan.cube_template import CubeTemplate, check_inherits
from pixel_gather.core.plan.locate_window import Placement
from pixel_gather.core.plan.pass_through import layout_of, warnings_of
from pixel_gather.core.plan.plan_reduction import reduced_layout, reduced_measurements, reduction_by
from pixel_gather.core.plan.plan_warnings import warnings_of_plan
from pixel_gather.core.plan.plan_workload import (
    check_task_fits,
    held_nbytes,
    held_share,
    parts_of,
    plan_workload,
    pool_of,
)
from pixel_gather.core.plan.reduced_table import ReducedTable, columns_of_scenes
from pixel_gather.core.plan.refuse_costly_plans import check_limits, check_transfer
from pixel_gather.core.plan.sample_headers import Sample, choose_levels, draft_slot, open_sample
from pixel_gather.core.plan.sample_warnings import warnings_of_degrees
from pixel_gather.core.plan.slot_draft import Draft
from pixel_gather.core.plan.warning_kinds import gravest_first
from pixel_gather.core.ports import SourceAccess, SourceTable

if TYPE_CHECKING:  # pydantic costs a worker 0.2 s of its start
    from pixel_gather.core.request.request import GatherRequest, Limits


_LARGE_SHARE: Final = 16
"""Bytes that a worker holds for each byte of the cube, from which errors tell of them."""

_LARGE_WINDOW: Final = 2**20
"""Windows of up to this many pixels may be any number of times larger than their sources."""

_SAME_WIDTH: Final = 0.05
"""Share by which widths of pixels may differ that are meant to be the same: those of overviews do."""

_MOST_TIMES_SOURCE: Final = 16


def gather_digest(request: "GatherRequest", table: SourceTable) -> str:
    """Return the digest of a gather: equal for the same request of the same list."""
    return f"{request.digest()}{table.digest[:16]}"


async def plan_cube(
    request: "GatherRequest",
    *,
    table: SourceTable,
    sources: SourceAccess,
    workers: WorkerPool,
    now: float,
    template: CubeTemplate | None = None,
    append: Append | None = None,
    by_reference: bool = False,
) -> CubePlan:
    """Plan a gather.

    Args:
        request: The checked request.
        table: The list.
        sources: How the sampled headers are opened. No pixel is read.
        workers: Who will do it: for the estimate, and for the size of the tasks.
        now: Seconds since 1970-01-01 UTC.
        template: What the cube inherits. The list's bands are then in its order.
        append: Where the rows go; None for a new cube.
        by_reference: Whether the cube will refer to the sources' tiles, and store none. It only changes
            what warnings and errors say.

    Raises:
        RequestError: No source of the sample fits the request, or the cube. The message names the field.
        BudgetError: The plan is over one of the request's limits.
    """
    # Can the request be understood?
    append, rule = append or Append(), request.rule()
    if rule.crs is not None:
        sources.projector.check(rule.crs, field="window.crs")
    names: tuple[str | None, ...] = table.bands or (None,)
    if table.bands and request.bands is not None and len(request.bands) > 1:
        raise RequestError("name one band only: the list's band column names the measurements", field="bands")

    # Open some headers of each band. Do all of them get one grid?
    wants_same_grid = request.shares_grid or (template is not None and template.is_aligned)
    of_scenes = None if template is None else template.of_scenes
    samples, grid = await _open_samples(request, names, table=table, sources=sources, template=of_scenes)

    # The most frequent kind of each band stands for all of its sources.
    make_draft = partial(
        draft_slot,
        request=request,
        table=table,
        projector=sources.projector,
        wants_same_grid=wants_same_grid,
        grid=grid,
        by_reference=by_reference,
    )
    if grid is not None and grid.target is not None:
        whole = Window(col_off=0, row_off=0, width=grid.target.width, height=grid.target.height)
        rule = rule_on_grid(rule, whole, is_warped=True)
    main = _main_sample(samples, grid)
    of_main = make_draft(samples[main], rule=rule)
    if grid is not None:
        rule = rule_on_grid(rule, of_main.slot.window, is_warped=False)
    drafts = [of_main if at == main else make_draft(each, rule=rule) for at, each in enumerate(samples)]
    slots = tuple(each.slot for each in drafts)
    if grid is not None:
        check_one_grid([(each.name, Placement.on(each.grid, each.window)) for each in slots])
    _check_one_size(slots)
    geographic_crs = None if grid is None else crs_in_degrees(slots[0].grid, sources.projector)
    of_degrees = (
        ()
        if grid is None or geographic_crs is None
        else tuple(warnings_of_degrees(slots, grid.resolution, sources.projector))
    )
    if grid is None and request.windows is None and template is None:
        _check_one_resolution(slots)
    _check_window(drafts, request.limits)

    # Which arrays hold the pixels, and how are these cut? The plan chooses, or it inherits.
    try:
        chosen = template or _template_of_new_cube(
            request, table, drafts, grid, max_task_nbytes=workers.max_task_nbytes
        )
    except BudgetError as error:
        raise BudgetError(". ".join((error.message, *of_degrees)), field=error.field) from error
    reduction = reduction_by(chosen, append, table)
    if template is not None:
        columns = columns_of_scenes(table)
        first = append.origin.get("request", {})
        check_inherits(template, request, slots=slots, has_time=table.has_time, columns=columns, first=first)
        check_task_fits(template, workers.max_task_nbytes, reduction=reduction)

    # What will it take?
    n_sources = table.n_sources + append.n_again + append.n_beside
    on_aws = pool_of(request, workers, n_by_bucket=table.n_by_bucket, n_sources=n_sources)
    work = replace(
        plan_workload(drafts, table, chosen, reduction, append=append, in_flight=on_aws.in_flight),
        is_decoded=not request.passes_through,
        has_report=request.output.report,
    )
    estimate = estimate_on_aws(work, on_aws)

    # Write it down, and hold it against the request's limits.
    of_cube = chosen.shared_fields() | {
        "columns": _columns(table, template, n_slots=len(chosen.slots)),
        "chips": _chip_axis(table, template),
        "mask": chosen.mask if reduction is None else None,
    }
    plan = CubePlan(
        **of_cube,
        digest=gather_digest(request, table),
        planned_at=now,
        request=request.without_key().to_json(),
        rule=rule,
        masked=request.masked,
        wants_same_grid=wants_same_grid,
        n_sources=table.n_sources,
        n_rows=append.first_row + table.n_rows,
        height=slots[0].window.height,
        width=slots[0].window.width,
        append=append,
        sampled_grids=tuple(dict.fromkeys(each for draft in drafts for each in draft.grids))[:MOST_GRIDS],
        part_nbytes=parts_of(work, workers).part_nbytes,
        estimate=estimate,
        crs=geographic_crs,
        reduction=reduction,
        warnings=gravest_first(
            (
                *of_degrees,
                *(warning for draft in drafts for warning in draft.warnings),
                *warnings_of_plan(request, table, template, append=append, estimate=estimate, workers=on_aws),
                *warnings_of(request, drafts, codec=chosen.codec, by_reference=by_reference),
            )
        ),
    )
    _check_codec(plan)
    _check_mask(plan.of_scenes)
    _check_values(plan.of_scenes)
    _check_missing(plan)
    check_limits(plan, request.limits)
    check_transfer(work, estimate, on_aws, most_usd=request.limits.transfer_usd)
    return plan


async def _open_samples(
    request: "GatherRequest",
    names: Sequence[str | None],
    *,
    table: SourceTable,
    sources: SourceAccess,
    template: CubeTemplate | None,
) -> tuple[list[Sample], CommonGrid | None]:
    """Return some headers of each band, and the grid of all: at the overviews that fit it, if asked for."""
    samples = [
        await open_sample(name, request, table=table, access=sources)
        for name in names
        if template is None or table.spread(1, band=name)
    ]
    headers = {each.name: each.headers for each in samples}
    grid = choose_grid(request, template, headers, sources.projector)
    if request.overview != "auto" or grid is None:
        return samples, grid
    mask = None if request.mask is None else request.mask.band
    if template is not None and template.mask is not None:
        mask = template.mask.band
    return [await choose_levels(each, grid, mask=mask, projector=sources.projector) for each in samples], grid


def _template_of_new_cube(
    request: "GatherRequest",
    table: SourceTable,
    drafts: Sequence[Draft],
    grid: CommonGrid | None,
    *,
    max_task_nbytes: int,
) -> CubeTemplate:
    """Return what a new cube prescribes to itself, and later to others."""
    slots, measurements = tuple(draft.slot for draft in drafts), tuple(choose_measurements(drafts, request))
    window, mask = slots[0].window, mask_of_cube(request, measurements)
    shape = (max(table.n_rows, request.output.expected_rows or 0), window.height, window.width)
    of_scenes: dict[str, Any] = {}
    if isinstance(table, ReducedTable) and request.reduce is not None:
        of_scenes = {
            "reduce": request.reduce.told(),
            "scene_slots": slots,
            "scene_measurements": measurements,
            "scene_columns": table.scene_columns,
        }
        scene_nbytes = held_nbytes(slots, measurements)
        slots, measurements = reduced_measurements(request, slots, measurements, n_scenes=table.n_scenes)
        layout = reduced_layout(
            request, table, shape, measurements, scene_nbytes=scene_nbytes, max_task_nbytes=max_task_nbytes
        )
    else:
        layout = _layout(request, table, drafts, measurements, shape, max_task_nbytes=max_task_nbytes)
    if request.output.has_band_axis:
        check_band_axis(measurements, table)
    return CubeTemplate(
        slots=slots,
        measurements=measurements,
        has_time=table.has_time,
        columns=table.columns,
        layout=layout,
        codec=request.output.codec,
        zfp_tolerance=request.output.zfp_tolerance,
        overview=request.overview,
        default_nodata=request.nodata,
        is_aligned=request.shares_grid,
        resolution=None if grid is None else grid.resolution,
        mask=mask,
        bands_are_axis=request.output.has_band_axis,
        values=request.values,
        **of_scenes,
    )


def _layout(
    request: "GatherRequest",
    table: SourceTable,
    drafts: Sequence[Draft],
    measurements: Sequence[Measurement],
    shape: tuple[int, int, int],
    *,
    max_task_nbytes: int,
) -> Layout:
    """Return the layout of a new cube of this shape (row, y, x)."""
    share = held_share([draft.slot for draft in drafts], measurements)
    sizes = {
        "itemsize": max(np.dtype(each.dtype).itemsize for each in measurements),
        "n_measurements": len(measurements),
        "max_task_nbytes": int(max_task_nbytes / share),
    }
    if isinstance(table, ChipTable):
        _check_names(table, measurements)
        return chip_layout(shape, n_images=table.axis.n_images, **sizes)
    if request.passes_through:
        return layout_of(request, drafts, shape, **sizes)
    try:
        return plan_layout(
            shape,
            wanted=request.output.layout,
            n_in_object=len(measurements) if request.output.has_band_axis else 1,
            is_sharded=request.output.sharding,
            **sizes,
        )
    except BudgetError as error:
        if share < _LARGE_SHARE:
            raise
        raise BudgetError(
            f"{error}. For each byte of the cube a worker holds {share:,.0f} bytes of sources, as their "
            "pixels are finer than those of the grid: a smaller grid.resolution (--grid) takes less"
        ) from error


def _check_mask(plan: CubePlan) -> None:
    """Refuse to dilate a mask that is read in strips: it would end at the edge of each.

    Also refuse a mask of chips whose pixels are larger or smaller than those of another band.
    """
    if plan.chips is not None and (slot := plan.mask_slot) is not None:
        of_mask = _pixel_width(plan.slots[slot])
        for each in plan.slots:
            if not math.isclose(width := _pixel_width(each), of_mask, rel_tol=1e-6):
                raise RequestError(
                    f"the pixels of {plan.slots[slot].name} are {of_mask:g} wide and those of {each.name} "
                    f"{width:g}, and chips have no common grid: leave mask out, or name bands of one "
                    "resolution",
                    field="mask.band",
                )
    if plan.mask is not None and plan.mask.dilate and plan.n_strips > 1:
        raise RequestError(
            f"the window is read in {plan.n_strips} strips, and a mask is not dilated across them: use "
            "workers with more memory, a smaller window or fewer bands",
            field="mask.dilate",
        )


def _pixel_width(slot: SourceSlot) -> float:
    """Return the width of a slot's pixels in units of their CRS; 1 without a georeference."""
    transform = slot.grid.transform
    return 1.0 if transform is None else math.hypot(transform.a, transform.d)


def _check_values(plan: CubePlan) -> None:
    """Refuse other values than raw of windows in strips, of which each has another darkest pixel.

    Complex numbers have none.
    """
    if plan.values == "raw":
        return
    if plan.n_strips > 1:
        raise RequestError(
            f"the window is read in {plan.n_strips} strips, and the darkest pixel is one of all: "
            "use workers with more memory, a smaller window or fewer bands",
            field="values",
        )
    for each in plan.measurements:
        dtype = plan.slots[each.slot].dtype
        if np.dtype(dtype).kind == "c":
            raise RequestError(
                f"{each.name} is {dtype}, and complex numbers stay raw: leave the field values out",
                field="values",
            )


def _check_missing(plan: CubePlan) -> None:
    """Refuse to store warped whole numbers without nodata: a warped source has edges across the window.

    What becomes physical values, or is reduced, does not need it: see `Outcome.inside`.
    """
    for each in plan.measurements if plan.is_warped and plan.reduction is None else ():
        if not each.marks_missing:
            instead = ", or write values: scaled (--values scaled)" if plan.values == "raw" else ""
            raise RequestError(
                f"pixels beside a warped source need a nodata value, and the sources of {each.name} declare "
                f"none: give one{instead}",
                field="nodata",
            )


def _main_sample(samples: Sequence[Sample], grid: CommonGrid | None) -> int:
    """Return which sample a tile is one of: the first whose pixels are those of the grid."""
    if grid is None or grid.target is not None:
        return 0
    on_it = (
        at
        for at, each in enumerate(samples)
        if any(is_as_wide(header, grid.resolution) for header in each.headers)
    )
    return next(on_it, 0)


def _check_names(table: ChipTable, measurements: Sequence[Measurement]) -> None:
    names = {each.name for each in measurements}
    if twice := next((each.name for each in table.axis.columns if each.name in names), None):
        raise RequestError(f"the cube has a measurement {twice}; rename the column", field=TABLE_FIELD)


def _columns(table: SourceTable, template: CubeTemplate | None, *, n_slots: int) -> tuple[ListColumn, ...]:
    """Return the columns of the cube, and which of them have no value in some rows."""
    columns = table.columns
    if table.n_sources < table.n_rows * n_slots:  # some rows lack a source
        columns = tuple(replace(each, has_gaps=each.has_gaps or each.varies_in_row) for each in columns)
    return columns if template is None else template.columns_with(columns)


def _chip_axis(table: SourceTable, template: CubeTemplate | None) -> ChipAxis | None:
    """Return how rows become chips and images; None if they do not."""
    if not isinstance(table, ChipTable):
        return None
    there = None if template is None else template.chips
    return table.axis if there is None else there.grown_by(table.axis)


def _check_one_size(slots: Sequence[SourceSlot]) -> None:
    first = slots[0]
    for slot in slots[1:]:
        if (slot.window.width, slot.window.height) != (first.window.width, first.window.height):
            raise RequestError(
                f"the window is {first.window.width} x {first.window.height} pixels of band {first.name} but "
                f"{slot.window.width} x {slot.window.height} of band {slot.name}: gather bands of different "
                "resolution by grid: {resolution: finest} (--grid finest)",
                field="window",
            )


def _check_one_resolution(slots: Sequence[SourceSlot]) -> None:
    """Refuse windows of one size in pixels that are of different sizes on the ground."""
    placed = [each for each in slots if each.grid.crs is not None and each.grid.transform is not None]
    for first, slot in combinations(placed, 2):
        widths = _pixel_width(first), _pixel_width(slot)
        if first.grid.crs == slot.grid.crs and not math.isclose(*widths, rel_tol=_SAME_WIDTH):
            raise RequestError(
                f"pixels of band {first.name} are {widths[0]:g} wide and those of band {slot.name} "
                f"{widths[1]:g}, so the windows would show different places: gather bands of different "
                "resolution by grid: {resolution: finest} (--grid finest)",
                field="window",
            )


def _check_window(drafts: Sequence[Draft], limits: "Limits") -> None:
    """Refuse a window that is much larger than the images: most of the cube would be empty."""
    window = drafts[0].slot.window
    width, height = max((draft.largest for draft in drafts), key=math.prod)
    times, most = window.n_pixels / (width * height), limits.times_source or _MOST_TIMES_SOURCE
    if window.n_pixels > _LARGE_WINDOW and times > most:
        raise BudgetError(
            f"the window of {window.width:,} x {window.height:,} pixels is {times:,.0f} "
            f"times as large as the largest source that was looked at ({width:,} x {height:,}). The limit is "
            f"{most:g} times. Ask for a smaller window, or raise the limit, times_source (--times-source)",
            field="window" if limits.times_source is None else "limits.times_source",
        )


def _check_codec(plan: CubePlan) -> None:
    not_floats = [
        each.name for each in plan.measurements if np.dtype(each.dtype).name not in ("float32", "float64")
    ]
    if plan.codec == "zfp" and not_floats:
        raise RequestError(
            f"zfp is for float32 and float64, not for {not_floats[0]}: choose another codec",
            field="output.codec",
        )
