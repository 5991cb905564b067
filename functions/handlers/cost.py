"""What a finished gather cost, by what its report counted and the prices of `pixel_gather.pricing`. Pure."""

from typing import Final

from pixel_gather.pricing import OVERHEAD_S, usd_on_aws
from pixel_gather.report import Report

_GETS_PER_TASK: Final = 3
"""The plan, the task's part of the list and, by the finish, its sidecar."""

_PUTS_BESIDE: Final = 30
"""The plan's files and the coordinates, about."""

_START_S: Final = 1.0
"""Of one worker, as the estimate assumes."""


def usd_by_service(report: Report, *, worker_memory_mib: int) -> dict[str, float]:
    """Price a gather: requests, invocations and seconds are those of the report, starts are assumed."""
    return usd_on_aws(
        n_gets=report.requests + report.n_shards * _GETS_PER_TASK,
        n_puts=report.n_shards * (len(report.measurements) + 1) + _PUTS_BESIDE,
        n_tasks=report.n_shards,
        worker_s=report.worker_s + report.n_shards * _START_S + OVERHEAD_S,
        worker_gb=worker_memory_mib / 1024,
    )
