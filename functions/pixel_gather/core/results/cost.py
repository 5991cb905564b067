"""Cost of a finished gather: the report's counts times the prices of `estimate.pricing`. Pure."""

from math import ceil

from pixel_gather.core.estimate import assumptions
from pixel_gather.core.estimate.compute_estimate import drawing_s_of, finish_s_of, plan_s_of
from pixel_gather.core.estimate.pricing import n_puts, usd_on_aws
from pixel_gather.core.results.report import Report


def usd_by_service(
    report: Report, *, worker_memory_mib: int, max_workers: int, has_report: bool = True
) -> dict[str, float]:
    """Return the cost of a gather in US dollars by service.

    Requests, invocations and seconds are those of the report. The rest is estimated: each worker's start,
    the small requests of each shard, plan and finish.

    Args:
        report: The gather's report.
        worker_memory_mib: The deployment's, used if the report has none.
        max_workers: The deployment's limit: no more workers have started.
        has_report: Whether a report was drawn.
    """
    n_arrays = 1 if report.bands_are_axis else len(report.measurements)
    puts = n_puts(n_tasks=report.n_shards, n_arrays=n_arrays, n_rows=report.shape[0], n_columns=0)
    n_children = ceil(report.n_shards / (report.tasks_per_child or 1))
    starts_s = min(n_children, max_workers, report.most_workers or max_workers) * assumptions.COLD_START.value
    n_waits = report.n_shards * assumptions.TASK_ROUND_TRIPS.value
    n_waits += n_children * assumptions.CHILD_ROUND_TRIPS.value
    round_trips_s = n_waits * assumptions.FIRST_BYTE.value
    beside_s = plan_s_of(report.n_sources) + finish_s_of(report.n_sources, n_tasks=report.n_shards)
    usd = usd_on_aws(
        n_gets=report.requests,
        n_puts=puts,
        n_tasks=report.n_shards,
        n_children=n_children,
        worker_s=report.worker_s + starts_s + round_trips_s,
        worker_mib=report.worker_memory_mib or worker_memory_mib,
        beside_s=beside_s + drawing_s_of(has_report=has_report),
        is_inline=report.is_inline,
    )
    if report.transfer_usd_per_byte:
        usd["transfer"] = report.fetched_nbytes * report.transfer_usd_per_byte
    return usd
