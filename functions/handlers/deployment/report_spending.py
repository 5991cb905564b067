"""Reports to CloudWatch what each try of a child costs, also where the try fails. An alarm adds up a day."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pixel_gather.core.estimate.pricing import (
    GETS_PER_TASK,
    TRANSITIONS_PER_CHILD,
    USD_PER_GB_S,
    USD_PER_GET,
    USD_PER_INVOCATION,
    USD_PER_PUT,
    USD_PER_TRANSITION,
)
from pixel_gather.core.metric_names import SPENT_USD
from pixel_gather.core.model.outcome import ShardResult
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.io.aws.metrics import EmfMetrics

_PUTS_BESIDE_PIXELS = 2
"""The sidecar of the shard, and the headers that it has read."""


@dataclass(slots=True)
class Spending:
    """What a try has used, except for its time. The requests of failed shards are not known."""

    n_shards: int = 0
    n_gets: int = 0
    n_puts: int = 0

    def add(self, result: ShardResult, plan: CubePlan) -> None:
        """Count the requests of a shard that was filled."""
        self.n_shards += 1
        self.n_gets += sum(outcome.cost.requests for row in result.rows for outcome in row)
        self.n_puts += len(plan.arrays) + _PUTS_BESIDE_PIXELS

    def usd(self, seconds: float, *, memory_mib: int) -> float:
        """Return the price of the try by our model of AWS's prices."""
        return (
            seconds * memory_mib / 1024 * USD_PER_GB_S
            + USD_PER_INVOCATION
            + (self.n_gets + max(self.n_shards, 1) * GETS_PER_TASK) * USD_PER_GET
            + self.n_puts * USD_PER_PUT
            + (TRANSITIONS_PER_CHILD if self.n_shards else 1) * USD_PER_TRANSITION
        )


@contextmanager
def report_spending(metrics: EmfMetrics, *, memory_mib: int, **properties: Any) -> Iterator[Spending]:
    """Write the cost of the block as a metric when the block ends or raises."""
    spent, began_s = Spending(), time.monotonic()
    try:
        yield spent
    finally:
        usd = spent.usd(time.monotonic() - began_s, memory_mib=memory_mib)
        metrics.write({SPENT_USD: [usd]}, **properties)
