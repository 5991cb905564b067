"""How long the first try of a shard may take, before a fresh worker takes its place. Pure.

One worker on a slow machine, or one that is stuck, would else decide the whole gather's time: Lambda ends it
after a quarter of an hour. The second try has all of that: what takes so long by right still gets it.
"""

from math import ceil
from typing import Final

from pixel_gather.estimate import assumptions
from pixel_gather.estimate.estimate import Estimate
from pixel_gather.estimate.worker import Share, Worker
from pixel_gather.estimate.workload import Deployment

_LEAST_S: Final = 120
"""However small the shard: a store that throttles for a minute makes no worker late."""

_TIMES: Final = 10
"""As long as the model says; it knows nothing of what else goes on in the store and the network."""

_MOST_S: Final = 900
"""A Lambda function cannot run for longer."""


def shard_limit_s(estimate: Estimate, *, n_sources: int, n_tasks: int, deployment: Deployment) -> int:
    """Return the limit of a shard's first try, in whole seconds, for the state machine to take.

    Args:
        estimate: Of the whole gather.
        n_sources: Of the list.
        n_tasks: Shards that they are cut into.
        deployment: Whose workers fill them.
    """
    n = max(n_tasks, 1)
    share = Share(
        n_sources=n_sources / n,
        n_gets=estimate.n_gets / n,
        n_puts=estimate.n_puts / n,
        fetched_nbytes=estimate.fetched_nbytes / n,
        decoded_nbytes=estimate.decoded_nbytes / n,
    )
    worker = Worker.on_lambda(memory_mib=deployment.worker_memory_mib, in_flight=deployment.in_flight)
    usual_s = assumptions.COLD_START.value + worker.reading_s(share) + worker.storing_s(share)
    return min(max(ceil(_TIMES * usual_s), _LEAST_S), _MOST_S)
