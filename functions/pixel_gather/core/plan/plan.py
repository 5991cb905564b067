"""Plan the cube before a pixel is read: shape, dtypes, layout, price, warnings.

Some headers spread over the list are opened. The most frequent kind becomes the template. Later every source
is compared with it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import replace
from functools import partial
from itertools import combinations
from math import inf
from typing import TYPE_CHECKING, Final

import numpy as np

from pixel_gather.core.errors import BudgetError, RequestError
from pixel_gather.core.estimate.compute_estimate import estimate_on_aws
from pixel_gather.core.estimate.estimate_result import Estimate
from pixel_gather.core.estimate.pricing import PRICES_OF, SAME_PRICES, n_puts
from pixel_gather.core.estimate.range_parts import HERE, LAMBDA, Parts, choose_parts
from pixel_gather.core.estimate.worker_limits import MOST_PARTS
from pixel_gather.core.estimate.workload import WorkerPool, Workload
from pixel_gather.core.model.band_meaning import BandMeaning, has_classes
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.scaling import SCALED
from pixel_gather.core.model.source import NO_INTEGER, ListColumn
from pixel_gather.core.model.tile_coding import AS_STORED
from pixel_gather.core.model.window import Window
from pixel_gather.core.pixel_mask import PixelMask
from pixel_gather.core.plan.chip_axis import ChipAxis
from pixel_gather.core.plan.chip_table import TABLE_FIELD, ChipTable
from pixel_gather.core.plan.choose_layout import Layout, chip_layout, plan_layout
from pixel_gather.core.plan.choose_template import Sample, choose_levels, draft_slot, open_sample
from pixel_gather.core.plan.common_grid import (
    CommonGrid,
    check_one_grid,
    choose_grid,
    is_as_wide,
    rule_on_grid,
)
from pixel_gather.core.plan.cube_plan import (
    BAND,
    BANDS,
    MOST_GRIDS,
    Append,
    CubePlan,
    Measurement,
    Reduction,
    SourceSlot,
    StoredValues,
)
from pixel_gather.core.plan.draft import Draft
from pixel_gather.core.plan.inherit import CubeTemplate, check_inherits
from pixel_gather.core.plan.locate_window import Placement
from pixel_gather.core.plan.pass_through import layout_of, warnings_of
from pixel_gather.core.plan.plan_reduction import (
    inherit_reduction,
    plan_reduction,
    reduced_layout,
    reduced_measurements,
)
from pixel_gather.core.plan.reduced_table import ReducedTable, columns_of_scenes
from pixel_gather.core.plan.refuse_costly_plans import check_limits, check_transfer
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
_S3: Final = "s3://"
_N_LOOKED_AT: Final = 16
"""Sources that are looked at to learn in which cloud they lie."""


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
        RequestError: No source of the sample fits the request, or the template. The message names the field.
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
    draft = partial(
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
    of_main = draft(samples[main], rule=rule)
    if grid is not None:
        rule = rule_on_grid(rule, of_main.slot.window, is_warped=False)
    drafts = [of_main if at == main else draft(each, rule=rule) for at, each in enumerate(samples)]
    slots = tuple(each.slot for each in drafts)
    if grid is not None:
        check_one_grid([(each.name, Placement.on(each.grid, each.window)) for each in slots])
    _check_one_size(slots)
    if grid is None and request.windows is None and template is None:
        _check_one_resolution(slots)
    _check_window(drafts, request.limits)

    # Which arrays hold the pixels, and how are these cut? The plan chooses, or it inherits.
    reduction = None
    if template is None:
        chosen, reduction = _choose_template(
            request, table, drafts, grid, max_task_nbytes=workers.max_task_nbytes
        )
    else:
        chosen = template
        if template.codec == AS_STORED:
            raise RequestError(
                "a cube of codec source cannot grow: gather a new cube", field="output.append_to"
            )
        columns = columns_of_scenes(table)
        check_inherits(template, request, slots=slots, has_time=table.has_time, columns=columns)
        reduction = inherit_reduction(template, append, table)
        check_task_fits(template, workers.max_task_nbytes, reduction=reduction)

    # What will it take?
    n_sources = table.n_sources + append.n_again + append.n_beside
    on_aws = pool_of(request, workers, n_by_bucket=table.n_by_bucket, n_sources=n_sources)
    work = replace(
        _workload(drafts, table, chosen, reduction, append=append, in_flight=on_aws.in_flight),
        is_decoded=not request.passes_through,
        has_report=request.output.report,
    )
    estimate = estimate_on_aws(work, on_aws)

    # Write it down, and hold it against the request's limits.
    plan = CubePlan(
        digest=gather_digest(request, table),
        planned_at=now,
        request=request.without_key().to_json(),
        rule=rule,
        overview=request.overview,
        masked=request.masked,
        wants_same_grid=wants_same_grid,
        default_nodata=chosen.default_nodata,
        slots=chosen.slots,
        measurements=chosen.measurements,
        n_sources=table.n_sources,
        n_rows=append.first_row + table.n_rows,
        height=slots[0].window.height,
        width=slots[0].window.width,
        has_time=table.has_time,
        columns=_columns(table, template, n_slots=len(chosen.slots)),
        layout=chosen.layout,
        codec=chosen.codec,
        zfp_tolerance=chosen.zfp_tolerance,
        append=append,
        sampled_grids=tuple(dict.fromkeys(grid for each in drafts for grid in each.grids))[:MOST_GRIDS],
        part_nbytes=parts_of(work, workers).part_nbytes,
        estimate=estimate,
        resolution=chosen.resolution,
        chips=_chip_axis(table, template),
        mask=chosen.mask if reduction is None else None,
        bands_are_axis=chosen.bands_are_axis,
        values=chosen.values,
        reduction=reduction,
        warnings=(
            *(warning for draft in drafts for warning in draft.warnings),
            *_warnings_of_times(request, table, template),
            *_warnings_of_list(table),
            *_warnings_of_template(template, table),
            *_warnings_of_index(request, table),
            *_warnings_of_transfer(table, estimate, on_aws),
            *_warnings_of_prices(on_aws),
            *_warnings_of_cloud(table),
            *warnings_of(request, drafts, codec=chosen.codec, by_reference=by_reference),
        ),
    )
    _check_codec(plan)
    _check_mask(plan.of_scenes)
    _check_values(plan.of_scenes)
    _check_missing(plan.of_scenes)
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
        await open_sample(name, request, table=table, reader=sources.reader)
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


def _choose_template(
    request: "GatherRequest",
    table: SourceTable,
    drafts: Sequence[Draft],
    grid: CommonGrid | None,
    *,
    max_task_nbytes: int,
) -> tuple[CubeTemplate, Reduction | None]:
    """Return what a new cube prescribes to itself, and later to others, and how scenes become its rows."""
    slots, measurements = tuple(draft.slot for draft in drafts), tuple(_measurements(drafts, request))
    window, mask = slots[0].window, _mask(request, measurements)
    shape = (max(table.n_rows, request.output.expected_rows or 0), window.height, window.width)
    reduction = None
    if isinstance(table, ReducedTable):
        of_scenes = slots, measurements
        slots, measurements = reduced_measurements(request, *of_scenes, n_scenes=table.n_scenes)
        scene_nbytes = _held_nbytes(*of_scenes)
        layout = reduced_layout(
            request, table, shape, measurements, scene_nbytes=scene_nbytes, max_task_nbytes=max_task_nbytes
        )
        reduction, mask = plan_reduction(request, table, *of_scenes, mask, layout), None
    else:
        layout = _layout(request, table, drafts, measurements, shape, max_task_nbytes=max_task_nbytes)
    if request.output.has_band_axis:
        _check_axis(measurements, table)
    template = CubeTemplate(
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
    )
    return template, reduction


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
    share = _held_share([draft.slot for draft in drafts], measurements)
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


def _check_axis(measurements: Sequence[Measurement], table: SourceTable) -> None:
    """Refuse bands that one array cannot hold, or whose array would have the name of a column."""
    first = measurements[0]
    for each in measurements[1:]:
        for what, ours, theirs in (
            ("dtype", first.dtype, each.dtype),
            ("nodata", str(first.nodata), str(each.nodata)),
            ("scale", first.scale, each.scale),
            ("offset", first.offset, each.offset),
        ):
            if ours != theirs:
                raise RequestError(
                    f"bands along one axis have one {what}, but {first.name} has {ours} and {each.name} "
                    f"{theirs}: leave one of them out, or write arrays",
                    field="output.bands",
                )
    if twice := next((each.name for each in table.columns if each.name in (BANDS, BAND)), None):
        raise RequestError(
            f"a cube with an axis of bands has {twice} already: rename the column {twice}", field="sources"
        )


def _mask(request: "GatherRequest", measurements: Sequence[Measurement]) -> PixelMask | None:
    """Return a new cube's mask.

    Raises:
        RequestError: The cube has no such band, or hidden pixels of another one would look like values.
    """
    if request.mask is None:
        return None
    mask = request.mask.mask()
    band = next((each for each in measurements if each.name == mask.band), None)
    if band is None:
        raise RequestError(
            f"the cube has no band {mask.band}; it has {', '.join(each.name for each in measurements)}. "
            "Name it among the sources, too",
            field="mask.band",
        )
    if np.dtype(band.dtype).kind not in "iu":
        raise RequestError(f"{mask.band} is {band.dtype}, and a mask has whole numbers", field="mask.band")
    for each in measurements:
        if each.nodata is None and each.name != mask.band and np.dtype(each.dtype).kind not in "fc":
            raise RequestError(
                f"hidden pixels need a nodata value, and the sources of {each.name} declare none: give one",
                field="nodata",
            )
    return mask


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
    """Refuse to warp whole numbers without nodata: a warped source has edges across the window."""
    for each in plan.measurements if plan.is_warped else ():
        if each.source_nodata is None and np.dtype(plan.slots[each.slot].dtype).kind not in "fc":
            raise RequestError(
                f"pixels beside a warped source need a nodata value, and the sources of {each.name} declare "
                "none: give one",
                field="nodata",
            )


def _held_share(slots: Sequence[SourceSlot], measurements: Sequence[Measurement]) -> float:
    """Return the bytes that a worker holds for each byte of a shard: sources' own pixels are held, too."""
    return _held_nbytes(slots, measurements) / sum(np.dtype(each.dtype).itemsize for each in measurements)


def _held_nbytes(slots: Sequence[SourceSlot], measurements: Sequence[Measurement]) -> float:
    """Return the bytes that a worker holds for each pixel of a scene."""
    nbytes = [len(each.bands) * np.dtype(each.dtype).itemsize for each in slots]
    own = sum(n * each.own_share for n, each in zip(nbytes, slots, strict=True))
    own += sum(np.dtype(slots[each.slot].dtype).itemsize for each in measurements if each.stored is not None)
    return own + sum(np.dtype(each.dtype).itemsize for each in measurements)


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


def pool_of(
    request: "GatherRequest", workers: WorkerPool, *, n_by_bucket: Mapping[str, int], n_sources: int
) -> WorkerPool:
    """Return the workers for the estimate, within the request's limits.

    Args:
        request: The request.
        workers: All that there may be.
        n_by_bucket: Sources in each S3 bucket.
        n_sources: All sources.
    """
    return replace(
        workers,
        asked_workers=request.limits.workers,
        max_usd=request.limits.usd,
        gets_per_s=_allowed_per_s(request.limits.requests_per_s or {}, n_by_bucket, n_sources=n_sources),
        # if shards may be lost, the map counts the lost ones: so each shard is a child
        tasks_per_child=1 if request.limits.failed_shards else None,
        may_be_inline=not (request.limits.workers or request.limits.failed_shards),
    )


def _allowed_per_s(per_s: Mapping[str, float], n_by_bucket: Mapping[str, int], *, n_sources: int) -> float:
    """Return how many sources' requests a second the limits allow. The host with the least to give decides.

    The list does not tell the hosts of sources outside of S3. Each may have all of them.
    """
    elsewhere = n_sources - sum(n_by_bucket.values())
    of_hosts = {
        root: n_by_bucket.get(root.removeprefix(_S3), 0) if root.startswith(_S3) else elsewhere
        for root in per_s
    }
    return min((per_s[root] * n_sources / n for root, n in of_hosts.items() if n), default=inf)


def parts_of(work: Workload, workers: WorkerPool) -> Parts:
    """Choose whether sources are fetched in parts. It depends on the network of the reading machine."""
    link = LAMBDA if workers.is_deployed else HERE
    return choose_parts(work.window_nbytes, link=link, n_in_flight=work.n_side_by_side)


def _warnings_of_times(
    request: "GatherRequest", table: SourceTable, template: CubeTemplate | None
) -> Iterator[str]:
    """Warn about rows without a time, because of which a new cube has no time axis."""
    if request.sources.time is not None and not table.has_time and request.reduce is None:
        yield "sources.time finds no time in some hrefs: the cube's first axis is source, not time"
    elif template is None and (n := table.n_timeless):
        verb = "has" if n == 1 else "have"
        yield (
            f"{n:,} of {table.n_rows:,} rows {verb} no time: the cube's first axis is source, not time. Give "
            "every row a time, or leave these rows out"
        )


def _warnings_of_list(table: SourceTable) -> Iterator[str]:
    """Warn about the list's notes, names of columns and repeated sources."""
    yield from table.notes
    spaced = [each.name for each in table.columns if len(each.name.split()) > 1]
    if spaced:
        yield (
            f"the name of column {spaced[0]!r} has a space: xarray opens it as a variable, not as a "
            "coordinate, and conditions cannot name it. Write _ instead"
        )
    n = table.n_repeated
    if not n:
        return
    verb = "repeats" if n == 1 else "repeat"
    again = (
        "read again and counts twice in the result: leave such lines out"
        if isinstance(table, ReducedTable)
        else "read and stored again"
    )
    yield f"{n:,} of {table.n_sources:,} lines {verb} an earlier source, which is {again}"


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


def _warnings_of_template(template: CubeTemplate | None, table: SourceTable) -> Iterator[str]:
    """Warn about columns of the cube that the list does not have."""
    missing = () if template is None else template.columns_missing_in(table.columns)
    if missing:
        yield f"the list lacks columns of the cube: the new rows have no value of {', '.join(missing)}"
    new = () if template is None else [each for each in template.columns if each.name in missing]
    for each in new:
        if not each.has_gaps and each.dtype == "bool":
            yield f"so xarray opens the column {each.name} as numbers: 1 is true, 0 is false, NaN is missing"
        elif not each.has_gaps and each.dtype == "int64":
            missing_is = f"{NO_INTEGER} is missing" if each.is_large else "NaN is missing"
            opened = "as int64, as float64 cannot hold its values" if each.is_large else "as float64"
            yield f"so xarray opens the column {each.name} {opened}: {missing_is}"


def check_task_fits(
    template: CubeTemplate, max_task_nbytes: int, *, reduction: Reduction | None = None
) -> None:
    """Refuse a cube whose shards do not fit the workers.

    Args:
        template: The cube's.
        max_task_nbytes: What a worker holds.
        reduction: How scenes become the rows that are read, if they do. All scenes of a shard are held.

    Raises:
        BudgetError: They are too large.
    """
    pixel_nbytes = sum(np.dtype(each.dtype).itemsize for each in template.measurements)
    if reduction is None:
        held = _held_share(template.slots, template.measurements)
        task_nbytes = math.prod(template.layout.shard) * pixel_nbytes * held
    else:
        task_nbytes = reduced_task_nbytes(template.layout, template.measurements, reduction)
    if task_nbytes > max_task_nbytes:
        raise BudgetError(
            f"a shard of the cube takes {task_nbytes / 2**20:,.0f} MiB, and workers hold "
            f"{max_task_nbytes / 2**20:,.0f} MiB: use workers with more memory"
        )


def _warnings_of_index(request: "GatherRequest", table: SourceTable) -> Sequence[str]:
    """Warn about a header index that has no entry for these sources."""
    if request.index is None or table.n_known:
        return ()
    warning = (
        "the header index has no entry for these sources: it was made for other files or another overview, "
        "so every header is read"
    )
    return (warning,)


def _warnings_of_prices(deployment: WorkerPool) -> Sequence[str]:
    """Warn about a Region whose prices are not known."""
    if deployment.region is None or deployment.region in SAME_PRICES:
        return ()
    warning = (
        f"the dollars are by the prices of {PRICES_OF}: those of {deployment.region} may be higher, so set "
        "limits.usd with a margin"
    )
    return (warning,)


def _warnings_of_cloud(table: SourceTable) -> Iterator[str]:
    """Warn about sources that lie with Google or Azure, by a sample of them."""
    hrefs = [each.href for each in table.spread(_N_LOOKED_AT, band=None)]
    far = next((href for href in hrefs if href.startswith(("gs://", "az://", "abfs://"))), None)
    if far is not None:
        yield (
            f"sources such as {far[:200]} lie in another cloud: gather them in process, as workers on AWS "
            "do not read them. What that cloud charges for requests and transfer is not known here"
        )


def _warnings_of_transfer(table: SourceTable, estimate: Estimate, deployment: WorkerPool) -> Sequence[str]:
    """Warn about buckets in another Region than the workers, also if their owner pays for the transfer."""
    warnings = []
    for bucket, n_sources in table.n_by_bucket.items():
        if (far := deployment.far_buckets.get(bucket)) is None:
            continue
        verb = "lies" if n_sources == 1 else "lie"
        paid = (
            f"transfer is charged and in the price (${estimate.usd_by_service['transfer']:,.2f} in all)"
            if far.is_charged
            else "its owner pays for transfer, and each request takes longer"
        )
        warnings.append(
            f"{counted(n_sources, 'source')} {verb} in the bucket {bucket} in {far.region}, but the workers "
            f"run in {deployment.region}: {paid}; a deployment in {far.region} would avoid this"
        )
    return warnings


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
        field = "window" if limits.times_source is None else "limits.times_source"
        raise BudgetError(
            f"{field}: the window of {window.width:,} x {window.height:,} pixels is {times:,.0f} "
            f"times as large as the largest source that was looked at ({width:,} x {height:,}). The limit is "
            f"{most:g} times. Ask for a smaller window, or raise the limit, times_source (--times-source)"
        )


def _measurements(drafts: Sequence[Draft], request: "GatherRequest") -> list[Measurement]:
    found = []
    for index, draft in enumerate(drafts):
        names = [draft.slot.name or f"band_{band}" for band in draft.slot.bands]
        stay = {
            name
            for name, band in zip(names, draft.slot.bands, strict=True)
            if _stays_raw(name, draft.meaning(band), request)
        }
        if stay and len(stay) < len(names) and request.values != "raw":
            raise RequestError(
                f"{min(stay)} holds classes or is the mask, and its files hold other bands, too: gather it "
                "by a list with a column band",
                field="values",
            )
        for band, name, (scale, offset) in zip(draft.slot.bands, names, draft.scalings, strict=True):
            if request.nodata is not None and not _fits_dtype(request.nodata, draft.header.dtype):
                raise RequestError(
                    f"{request.nodata} does not fit {draft.header.dtype}; give a value that does",
                    field="nodata",
                )
            if draft.nodata is None and request.masked:
                raise RequestError(
                    "masked pixels need a nodata value, and the sources declare none: give one",
                    field="nodata",
                )
            raw = Measurement(
                name=name,
                slot=index,
                dtype=draft.header.dtype,
                nodata=draft.nodata,
                scale=draft.header.scales[band - 1],
                offset=draft.header.offsets[band - 1],
                meaning=draft.meaning(band),
            )
            if name in stay:
                found.append(raw)
            elif request.values == "harmonised":
                found.append(replace(raw, scale=scale, offset=offset))
            else:
                stored = StoredValues(nodata=draft.nodata, scale=scale, offset=offset)
                found.append(replace(raw, dtype=SCALED, nodata=None, scale=1.0, offset=0.0, stored=stored))
    return found


def _stays_raw(name: str, meaning: BandMeaning, request: "GatherRequest") -> bool:
    """Return whether a band keeps its numbers: those of a mask are classes, which no scale makes values."""
    if request.values == "raw" or (request.mask is not None and name == request.mask.band):
        return True
    return request.values == "scaled" and has_classes(name, meaning)


def _fits_dtype(value: float, dtype: str) -> bool:
    """Return whether a dtype can hold a value: integers exactly, floats within their range."""
    kind = np.dtype(dtype)
    if kind.kind in "fc":
        return not float(np.finfo(kind).max) < abs(value) < math.inf
    if isinstance(value, float) and not value.is_integer():
        return False
    limits = np.iinfo(kind)
    return int(limits.min) <= int(value) <= int(limits.max)


def _workload(
    drafts: Sequence[Draft],
    table: SourceTable,
    chosen: CubeTemplate,
    reduction: Reduction | None,
    *,
    append: Append,
    in_flight: int,
) -> Workload:
    layout, measurements = chosen.layout, chosen.measurements
    n_sources = table.n_sources + append.n_again + append.n_beside
    per_slot = n_sources / len(drafts)
    to_open = 1 - table.n_known / table.n_sources
    if isinstance(table, ChipTable):  # a task opens each image once for all of its chips
        to_open = table.axis.n_images / layout.shard[0]
    gets, fetched, window_nbytes, most_gets = 0.0, 0.0, 0.0, 1
    for draft in drafts:
        ranges, share = touched(draft.slot)
        if isinstance(table, ChipTable):  # all chips of a task take at most one whole image
            share = min(share, table.axis.n_images / layout.shard[0])
        gets += per_slot * (to_open + ranges)
        fetched += per_slot * (to_open * draft.mean_open_nbytes + share * draft.mean_nbytes)
        window_nbytes = max(window_nbytes, share * draft.mean_nbytes)
        most_gets = max(most_gets, min(ranges, MOST_PARTS))
    height, width = drafts[0].slot.window.height, drafts[0].slot.window.width
    shape = (table.n_rows, height, width)
    n_strips = layout.n_shards(shape)[1]
    n_tasks = (layout.n_shards(shape)[0] + append.n_places_again(layout.shard[0])) * n_strips
    n_scenes, most_scenes = table.n_rows, min(layout.shard[0], max(table.n_rows, 1))
    pixel_nbytes = sum(np.dtype(each.dtype).itemsize for each in measurements)
    task_nbytes: float = math.prod(layout.shard) * pixel_nbytes
    if reduction is not None:  # a worker measures and holds the scenes, and stores little
        n_scenes, most_scenes = reduction.n_scenes, reduction.most_scenes
        task_nbytes = reduced_task_nbytes(layout, measurements, reduction)
        pixel_nbytes = sum(np.dtype(each.dtype).itemsize for each in reduction.measurements)
    n_of_task = most_scenes * len(drafts)
    search = table.search_cost
    return Workload(
        n_sources=n_sources,
        n_search_pages=0 if search is None else search.n_pages,
        n_search_gets=0 if search is None else search.n_gets,
        n_indexed=table.n_known,
        n_gets=round(gets),
        fetched_nbytes=round(fetched),
        window_nbytes=window_nbytes / max(n_strips, 1),
        n_side_by_side=max(min(n_of_task, in_flight // most_gets), 1),
        decoded_nbytes=n_scenes * height * width * pixel_nbytes,
        n_tasks=n_tasks,
        task_nbytes=round(task_nbytes),
        nbytes_by_bucket={
            bucket: round(fetched * n / table.n_sources) for bucket, n in table.n_by_bucket.items()
        },
        n_puts=n_puts(
            n_tasks=n_tasks,
            n_arrays=1 if chosen.bands_are_axis else len(measurements),
            n_rows=table.n_rows,
            n_columns=len(table.columns),
        ),
    )


def reduced_task_nbytes(layout: Layout, measurements: Sequence[Measurement], reduction: Reduction) -> float:
    """Return what a worker holds for one shard of reduced rows, in bytes."""
    n_pixels, scene_nbytes = (
        math.prod(layout.shard[1:]),
        _held_nbytes(reduction.slots, reduction.measurements),
    )
    row_nbytes = sum(np.dtype(each.dtype).itemsize for each in measurements)
    return n_pixels * (layout.shard[0] * row_nbytes + reduction.most_scenes * scene_nbytes)


def touched(slot: SourceSlot) -> tuple[int, float]:
    """Return the likely number of ranges of a window, and its share of the file's bytes."""
    grid, wanted = slot.read_from
    window = wanted.clipped(width=grid.width, height=grid.height) or wanted
    rows = -(-window.row_stop // grid.tile_height) - window.row_off // grid.tile_height
    cols = -(-window.col_stop // grid.tile_width) - window.col_off // grid.tile_width
    all_tiles = -(-grid.height // grid.tile_height) * -(-grid.width // grid.tile_width)
    return rows, rows * cols / all_tiles


def _check_codec(plan: CubePlan) -> None:
    not_floats = [
        each.name for each in plan.measurements if np.dtype(each.dtype).name not in ("float32", "float64")
    ]
    if plan.codec == "zfp" and not_floats:
        raise RequestError(
            f"zfp is for float32 and float64, not for {not_floats[0]}: choose another codec",
            field="output.codec",
        )
