"""Forecast the time, the price and the binding limit of a gather on AWS. Pure.

The time comes from a simulation of the workers. All inputs are in `pixel_gather.core.estimate.assumptions`.
Nothing here was measured on AWS.
"""

from collections.abc import Mapping
from copy import replace
from math import ceil, inf
from typing import Final

from pixel_gather.core.estimate import assumptions, pricing, try_time_limits
from pixel_gather.core.estimate.estimate_result import Estimate
from pixel_gather.core.estimate.explain import figures_of
from pixel_gather.core.estimate.fleet import Fleet, child_sizes, simulate
from pixel_gather.core.estimate.worker import Share, Worker
from pixel_gather.core.estimate.worker_count import (
    SLIGHTLY_LONGER,
    Staffed,
    fewest_workers,
    share_of,
    staff,
    worker_of,
)
from pixel_gather.core.estimate.workload import PER_HOST, WorkerPool, Workload

BESIDE: Final = "plan and finish"
"""Name of the limit if plan and finish take longer than the work between them."""

_BYTES_PER_GB: Final = 1e9


def estimate_on_aws(work: Workload, deployment: WorkerPool) -> Estimate:
    """Estimate a gather on AWS. Each number comes with its basis.

    If the request does not set the number of workers, the gather gets only as many as make it faster. More
    would wait for S3 and be billed for it.
    """
    # How long do the chosen workers take, and how many would be enough?
    plan_s, finish_s = plan_s_of(work.n_sources), finish_s_of(work.n_sources, n_tasks=work.n_tasks)
    beside_s = plan_s + finish_s
    staffed = staff(work, deployment, beside_s=beside_s)
    course = staffed.course
    all_of_them = staff(work, replace(deployment, asked_workers=deployment.n_workers), beside_s=beside_s)
    enough = fewest_workers(
        work,
        deployment,
        beside_s=beside_s,
        longest_s=(all_of_them.seconds + beside_s) * SLIGHTLY_LONGER,
    )
    sizes = child_sizes(
        work.n_tasks,
        tasks_per_child=staffed.fleet.tasks_per_child,
        n_workers=staffed.deployment.n_workers,
    )
    chosen = replace(staffed.deployment, tasks_per_child=max(sizes, default=1))
    plan_s, finish_s = plan_s + staffed.map_run_s, finish_s - staffed.overlap_s
    # What does it cost, with the leases that share the requests and with transfer between Regions?
    usd = pricing.usd_on_aws(
        n_gets=work.n_gets + work.n_search_gets,
        n_puts=work.n_puts,
        n_tasks=work.n_tasks,
        n_children=course.n_children,
        worker_s=course.worker_s,
        worker_mib=chosen.worker_memory_mib,
        beside_s=beside_s + drawing_s_of(has_report=work.has_report),
        is_inline=staffed.is_inline,
    )
    usd["s3"] += pricing.ledger_usd(
        n_workers=course.n_workers, seconds=course.seconds, per_s=deployment.gets_per_s
    )
    transfer_nbytes, transfer_usd = _transfer(work, deployment)
    if transfer_nbytes:
        usd["transfer"] = transfer_usd
    # The figures that explain the estimate are made of it, so they come last.
    estimate = Estimate(
        n_gets=work.n_gets,
        n_puts=work.n_puts,
        fetched_nbytes=work.fetched_nbytes,
        decoded_nbytes=work.decoded_nbytes,
        n_workers=course.n_workers,
        most_workers=chosen.n_workers,
        seconds=plan_s + course.seconds + finish_s,
        seconds_by_part={"plan": plan_s, **course.parts_s, "finish": finish_s},
        bound_by=BESIDE if course.seconds < plan_s + finish_s else _binding_limit(work, staffed),
        enough_workers=enough,
        worker_memory_mib=chosen.worker_memory_mib,
        tasks_per_child=chosen.tasks_per_child or 1,
        n_children=course.n_children,
        transfer_nbytes=transfer_nbytes,
        usd=sum(usd.values()),
        usd_by_service=usd,
        usd_if_late=sum(usd.values())
        + try_time_limits.late_usd(
            share_of(work), n_tasks=work.n_tasks, deployment=chosen, is_inline=staffed.is_inline
        ),
        figures=(),
    )
    figures = figures_of(estimate, work, chosen, share=share_of(work), is_inline=staffed.is_inline)
    return replace(estimate, figures=figures)


def _binding_limit(work: Workload, staffed: Staffed) -> str:
    """Simulate a gather again without each limit. Return the one without which it ends soonest."""
    limited = replace(staffed.deployment, chosen_workers=None)  # our own choice is no limit
    fleet = replace(staffed.fleet, n_workers=limited.n_workers)
    without_each = _without_each(fleet, share_of(work), worker_of(limited), limited)
    seconds = {name: simulate(without).seconds for name, without in without_each.items()}
    return min(seconds, key=lambda name: seconds[name])


def plan_s_of(n_sources: int) -> float:
    """Return the duration of the plan, with the state machine's own steps but a Map Run's."""
    return (
        assumptions.STEPS.value
        + assumptions.COLD_START.value
        + assumptions.PLAN_ROUND_TRIPS.value * assumptions.FIRST_BYTE.value
        + n_sources * assumptions.PLAN_PER_SOURCE.value
    )


def finish_s_of(n_sources: int, *, n_tasks: int) -> float:
    """Return the duration of the finish until the cube is complete, without drawing the report."""
    sidecars = ceil(n_tasks / assumptions.SIDECARS_AHEAD.value)
    headers = ceil(max(n_tasks - assumptions.HEADERS_FIRST.value, 0) / assumptions.HEADERS_AHEAD.value)
    n_objects = (ceil(n_sources / pricing.ROWS_PER_PUT) + 1) * pricing.COORDINATES  # and their metadata
    puts = ceil(n_objects / assumptions.PUTS_AHEAD.value)
    round_trips = assumptions.FINISH_ROUND_TRIPS.value + sidecars + headers + puts
    return (
        assumptions.COLD_START.value
        + round_trips * assumptions.FIRST_BYTE.value
        + n_sources * assumptions.FINISH_PER_SOURCE.value
    )


def drawing_s_of(*, has_report: bool) -> float:
    """Return how long the finish draws the report, once the cube is complete."""
    return assumptions.DRAWING.value if has_report else 0.0


def _transfer(work: Workload, deployment: WorkerPool) -> tuple[int, float]:
    """Return the bytes from other Regions that the reader pays for, and their price."""
    nbytes, usd = 0, 0.0
    for bucket, of_bucket in work.nbytes_by_bucket.items():
        far = deployment.far_buckets.get(bucket)
        if far is not None and far.is_charged:
            nbytes += of_bucket
            per_gb = pricing.usd_per_gb_from(far.region, to=deployment.region or "")
            usd += of_bucket / _BYTES_PER_GB * per_gb
    return nbytes, usd


def _without_each(fleet: Fleet, share: Share, worker: Worker, deployment: WorkerPool) -> Mapping[str, Fleet]:
    """Return, by the limit's name, the fleet without that limit."""

    def of(other: Worker) -> Fleet:
        return replace(
            fleet,
            load_s=assumptions.CHILD_ROUND_TRIPS.value * other.first_byte_s,
            round_trips_s=assumptions.TASK_ROUND_TRIPS.value * other.first_byte_s,
            reading_s=other.reading_s(share),
            storing_s=other.storing_s(share),
        )

    is_host = fleet.gets_per_s == deployment.gets_per_s
    return {
        "network per worker": of(replace(worker, network_bytes_per_s=inf)),
        "CPU per worker": of(replace(worker, vcpus=inf)),
        "time to first byte": of(replace(worker, first_byte_s=0.0)),
        PER_HOST if is_host else "S3 rate per prefix": replace(fleet, gets_per_s=inf),
        "dispatch rate": replace(fleet, children_per_s=inf),
        deployment.limit: replace(fleet, n_workers=fleet.n_tasks),
        "cold starts": replace(fleet, cold_start_s=0.0, burst=inf),
        "late answers": replace(fleet, late_share=0.0),
    }
