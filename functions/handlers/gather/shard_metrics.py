"""Turns the results of shards and gathers into metrics and into the keys of a log line. Pure."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pixel_gather.core.metric_names import (
    FETCHED,
    GATHER,
    GATHER_USD,
    REQUESTS,
    RETRIES,
    SHARD,
    SOURCE_OPEN,
    SOURCE_READ,
    SOURCE_TOTAL,
    SOURCES_FAILED,
    SOURCES_FAILED_BY_STATUS,
    SOURCES_READ,
    STORED,
    Metric,
)
from pixel_gather.core.model.outcome import Outcome, ShardResult
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask

if TYPE_CHECKING:  # not in a worker's start
    from pixel_gather.core.results.report import Report

type Values = dict[Metric, list[float]]


def metrics_of_shard(result: ShardResult, *, is_strip: bool = False) -> Values:
    """Return a shard's metrics: three times in seconds for each source, and totals of the shard.

    If a shard has a part of its sources' windows, `metrics_of_gather` counts the sources, as each would
    otherwise be counted once for each strip.
    """
    sources = list(_present_outcomes(result))
    values: Values = {
        SOURCE_OPEN: [each.cost.open_s for each in sources],
        SOURCE_READ: [each.reading_s for each in sources],
        SOURCE_TOTAL: [each.end_s - each.start_s for each in sources],
        REQUESTS: [sum(each.cost.requests for each in sources)],
        RETRIES: [sum(each.cost.retries for each in sources)],
        FETCHED: [sum(each.cost.nbytes for each in sources)],
        STORED: [result.stored_nbytes],
        SHARD: [result.worker_s],
    }
    return values if is_strip else values | _count_sources(Counter(each.status for each in sources))


def metrics_of_gather(report: "Report", usd: float, *, has_strips: bool = False) -> Values:
    """Return the metrics of a finished gather that its shards have not written.

    If the shards have parts of windows, sources are counted here.
    """
    counts = Counter({Status[name.upper()]: n for name, n in report.status_counts.items()})
    values: Values = {GATHER: [report.wall_s], GATHER_USD: [usd]}
    if has_strips:
        return values | _count_sources(counts)
    n_lost = counts[Status.LOST]
    return values | {SOURCES_FAILED_BY_STATUS[Status.LOST]: [n_lost]} if n_lost else values


def _count_sources(counts: Counter[Status]) -> Values:
    """Return how many sources were read, and how many failed with each status."""
    failed = {status: n for status, n in counts.items() if status.is_failure}
    values: Values = {SOURCES_READ: [counts[Status.OK]], SOURCES_FAILED: [sum(failed.values())]}
    return values | {SOURCES_FAILED_BY_STATUS[status]: [n] for status, n in failed.items()}


def summarize_shard(result: ShardResult, *, plan: CubePlan, task: ShardTask) -> dict[str, Any]:
    """Return the keys of a shard's log line, without the names of the gather and the shard."""
    sources = list(_present_outcomes(result))
    pixel_nbytes = sum(np.dtype(slot.dtype).itemsize * len(slot.bands) for slot in plan.slots)
    return {
        "windows_read": sum(not each.status.is_failure for each in sources),
        "windows_failed": sum(each.status.is_failure for each in sources),
        "requests": sum(each.cost.requests for each in sources),
        "retries": sum(each.cost.retries for each in sources),
        "hedges": sum(each.cost.hedges for each in sources),
        "fetched_bytes": sum(each.cost.nbytes for each in sources),
        "decoded_bytes": task.n_rows * (task.y_stop - task.y_start) * plan.width * pixel_nbytes,
        "stored_bytes": result.stored_nbytes,
        "read_s": round(result.read_s, 3),
        "measure_s": round(result.measure_s, 3),
        "write_s": round(result.write_s, 3),
        "peak_rss_mib": round(result.peak_rss_mib),
    }


def _present_outcomes(result: ShardResult) -> Iterator[Outcome]:
    for row in result.rows:
        yield from (outcome for outcome in row if outcome.status is not Status.ABSENT)
