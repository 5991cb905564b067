"""Plan to read failed sources of a cube again, without new rows. No source is opened for it. Pure."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from pixel_gather.core.estimate.compute_estimate import estimate_on_aws
from pixel_gather.core.estimate.pricing import n_puts
from pixel_gather.core.estimate.workload import WorkerPool, Workload
from pixel_gather.core.plan.common_grid import rule_on_grid
from pixel_gather.core.plan.cube_plan import Append, CubePlan, Reduction, pixel_nbytes
from pixel_gather.core.plan.cube_template import CubeTemplate
from pixel_gather.core.plan.plan_reduction import reduction_by
from pixel_gather.core.plan.plan_workload import (
    check_task_fits,
    parts_of,
    pool_of,
    reduced_task_nbytes,
    touched,
)
from pixel_gather.core.plan.refuse_costly_plans import check_limits, check_transfer

if TYPE_CHECKING:  # pydantic costs a worker 0.2 s of its start
    from pixel_gather.core.request.request import GatherRequest


class Again(Struct, frozen=True, kw_only=True):
    """Size of the work of trying sources again."""

    n_sources: int
    n_by_bucket: Mapping[str, int]
    """Number of them in each S3 bucket."""

    mean_nbytes: float
    """Mean bytes that were read for the pixels of one of the cube's sources. The next ones are like them."""

    mean_open_nbytes: float
    """Mean bytes that were read for its header."""


def plan_again(
    request: "GatherRequest",
    *,
    template: CubeTemplate,
    append: Append,
    digest: str,
    size: Again,
    workers: WorkerPool,
    now: float,
) -> CubePlan:
    """Plan a version that only tries rows again.

    Args:
        request: It wants the same pixels as the one that has added the rows.
        template: The cube's.
        append: Which rows.
        digest: Of this try.
        size: For the estimate.
        workers: Who will do it.
        now: Seconds since 1970-01-01 UTC.

    Raises:
        BudgetError: The plan is over one of the request's limits.
    """
    # What will it take, if only these rows are read?
    reduction = reduction_by(template, append, None)
    check_task_fits(template, workers.max_task_nbytes, reduction=reduction)
    on_aws = pool_of(request, workers, n_by_bucket=size.n_by_bucket, n_sources=size.n_sources)
    work = _workload(request, template, append, size, reduction, in_flight=on_aws.in_flight)
    # The cube stays as it is: all but digest, rows and estimate are its template.
    window = template.slots[0].window
    estimate = estimate_on_aws(work, on_aws)
    of_cube = template.shared_fields() | {"mask": template.mask if reduction is None else None}
    plan = CubePlan(
        **of_cube,
        digest=digest,
        planned_at=now,
        request=request.without_key().to_json(),
        rule=request.rule()
        if template.resolution is None
        else rule_on_grid(request.rule(), window, is_warped=template.slots[0].is_warped),
        masked=request.masked,
        wants_same_grid=request.shares_grid or template.is_aligned,
        n_sources=0,
        n_rows=append.first_row,
        height=window.height,
        width=window.width,
        append=append,
        part_nbytes=parts_of(work, workers).part_nbytes,
        estimate=estimate,
        reduction=reduction,
    )
    # Only a whole plan can be held against the limits.
    check_limits(plan, request.limits)
    check_transfer(work, estimate, on_aws, most_usd=request.limits.transfer_usd)
    return plan


def _workload(
    request: "GatherRequest",
    template: CubeTemplate,
    append: Append,
    size: Again,
    reduction: Reduction | None,
    *,
    in_flight: int,
) -> Workload:
    layout, window, of_scenes = template.layout, template.slots[0].window, template.of_scenes
    n_gets = max(touched(slot)[0] for slot in of_scenes.slots)
    fetched = size.n_sources * (size.mean_open_nbytes + size.mean_nbytes)
    n_scenes = len(append.again)
    task_nbytes: float = math.prod(layout.shard) * pixel_nbytes(template.measurements)
    if reduction is not None:  # a worker measures and holds the scenes
        n_scenes = reduction.n_scenes
        task_nbytes = reduced_task_nbytes(layout, template.measurements, reduction)
    n_tasks = append.n_places_again(layout.shard[0]) * template.n_strips
    return Workload(
        n_sources=size.n_sources,
        n_gets=size.n_sources * (1 + n_gets),
        fetched_nbytes=round(fetched),
        window_nbytes=size.mean_nbytes / template.n_strips,
        n_side_by_side=max(min(size.n_sources, in_flight // n_gets), 1),
        decoded_nbytes=n_scenes * window.n_pixels * pixel_nbytes(of_scenes.measurements),
        n_tasks=n_tasks,
        task_nbytes=round(task_nbytes),
        nbytes_by_bucket={
            bucket: round(fetched * n / max(size.n_sources, 1)) for bucket, n in size.n_by_bucket.items()
        },
        n_puts=n_puts(
            n_tasks=n_tasks,
            n_arrays=1 if template.bands_are_axis else len(template.measurements),
            n_rows=len(append.again),
            n_columns=len(template.columns),
        ),
        has_report=request.output.report,
    )
