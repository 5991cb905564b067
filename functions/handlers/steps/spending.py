"""What one try of a child's shards costs, told to CloudWatch however it ends: an alarm adds up a day's."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pixel_gather.adapters.aws.metrics import EmfMetrics
from pixel_gather.estimate.pricing import (
    GETS_PER_TASK,
    TRANSITIONS_PER_CHILD,
    USD_PER_GB_S,
    USD_PER_GET,
    USD_PER_INVOCATION,
    USD_PER_PUT,
    USD_PER_TRANSITION,
)
from pixel_gather.model.outcome import ShardResult
from pixel_gather.plan.cube_plan import CubePlan
from pixel_gather.telemetry import SPENT_USD

_PUTS_BESIDE_PIXELS = 2
"""A shard's sidecars."""


@dataclass(slots=True)
class Spending:
    """What a try has used beside its time; of shards that failed, nothing is known but a transition."""

    n_shards: int = 0
    n_gets: int = 0
    n_puts: int = 0

    def add(self, result: ShardResult, plan: CubePlan) -> None:
        """Count what filling a shard took."""
        self.n_shards += 1
        self.n_gets += sum(outcome.cost.requests for row in result.rows for outcome in row)
        self.n_puts += len(plan.measurements) + _PUTS_BESIDE_PIXELS

    def usd(self, seconds: float, *, memory_mib: int) -> float:
        """Return the price of it all, by our model."""
        return (
            seconds * memory_mib / 1024 * USD_PER_GB_S
            + USD_PER_INVOCATION
            + (self.n_gets + max(self.n_shards, 1) * GETS_PER_TASK) * USD_PER_GET
            + self.n_puts * USD_PER_PUT
            + (TRANSITIONS_PER_CHILD if self.n_shards else 1) * USD_PER_TRANSITION
        )


@contextmanager
def spending(metrics: EmfMetrics, *, memory_mib: int, **properties: Any) -> Iterator[Spending]:
    """Tell what the block costs when it ends, be it by an exception.

    Args:
        metrics: Where it is told.
        memory_mib: Of the function.
        properties: What it is spent for.
    """
    spent, began_s = Spending(), time.monotonic()
    try:
        yield spent
    finally:
        usd = spent.usd(time.monotonic() - began_s, memory_mib=memory_mib)
        metrics.write({SPENT_USD: [usd]}, **properties)
