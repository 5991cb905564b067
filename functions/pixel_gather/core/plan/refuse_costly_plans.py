"""Refuses plans over the limits of a request or a deployment: dollars, files, pixels, bytes and transfer."""

from collections import Counter
from typing import TYPE_CHECKING, Final

from pixel_gather.core.errors import BudgetError
from pixel_gather.core.estimate.estimate_result import Estimate
from pixel_gather.core.estimate.pricing import dollars
from pixel_gather.core.estimate.workload import WorkerPool, Workload
from pixel_gather.core.plan.cube_plan import CubePlan

if TYPE_CHECKING:  # pydantic costs a worker 0.2 s of its start
    from pixel_gather.core.request.request import Limits

_OF_TRANSFER: Final = "limits.transfer_usd"
_MOST_TRANSFER_USD: Final = 1.0
"""Transfer between Regions that is paid for without being asked for."""


def check_limits(plan: CubePlan, limits: "Limits") -> None:
    """Refuse a plan over one of a request's limits.

    Raises:
        BudgetError: The message names the limit.
    """
    n_read = plan.n_rows - plan.first_row + len(plan.append.again)
    n_read = n_read if plan.reduction is None else plan.reduction.n_scenes
    n_pixels = n_read * plan.height * plan.width * len(plan.of_scenes.measurements)
    checks = (
        ("usd", limits.usd, plan.estimate.usd, dollars),
        ("files", limits.files, plan.n_files, "{:,} files".format),
        ("pixels", limits.pixels, n_pixels, "{:,} pixels".format),
        ("fetched_bytes", limits.fetched_bytes, plan.estimate.fetched_nbytes, "{:,} bytes".format),
    )
    for name, limit, planned, form in checks:
        if limit is not None and planned > limit:
            raise BudgetError(
                f"the plan takes {form(planned)}, the limit is {form(limit)}. Ask for less, or raise the "
                "limit. On AWS the lower limit holds: the request's or the deployment's",
                field=f"limits.{name}",
            )


def check_goes_on(plan: CubePlan, limits: "Limits") -> None:
    """Refuse to go on with a plan that an earlier run has made, if it is over one of a request's limits.

    Raises:
        BudgetError: The message names the limit.
    """
    check_limits(plan, limits)
    usd, limit_usd = _usd_of_transfer(plan.estimate, limits.transfer_usd)
    if usd > limit_usd:
        raise BudgetError(
            f"{dollars(usd)} would be paid for transfer between Regions, the limit is {dollars(limit_usd)}. "
            "Raise the limit, or deploy in the Region of the files",
            field=_OF_TRANSFER,
        )


def check_transfer(
    work: Workload, estimate: Estimate, workers: WorkerPool, *, most_usd: float | None
) -> None:
    """Refuse to pay for much transfer between Regions. Within a Region, transfer costs nothing.

    Args:
        work: How much is read of each bucket.
        estimate: The price of it.
        workers: The Region of the workers, and the Regions of the buckets.
        most_usd: The request's limit; None for the usual one.

    Raises:
        BudgetError: The message names the Region in which to deploy.
    """
    usd, limit_usd = _usd_of_transfer(estimate, most_usd)
    if usd <= limit_usd:
        return
    nbytes = Counter[str]()
    for bucket, far in workers.far_buckets.items():
        nbytes[far.region] += work.nbytes_by_bucket.get(bucket, 0) if far.is_charged else 0
    ((region, _),) = nbytes.most_common(1)
    raise BudgetError(
        f"{dollars(usd)} would be paid for transfer to {workers.region}, the limit is {dollars(limit_usd)}. "
        f"Deploy in {region}, where most of these files lie, or raise the limit",
        field=_OF_TRANSFER,
    )


def _usd_of_transfer(estimate: Estimate, most_usd: float | None) -> tuple[float, float]:
    """Return what transfer between Regions costs, and may cost."""
    return estimate.usd_by_service.get("transfer", 0.0), _MOST_TRANSFER_USD if most_usd is None else most_usd
