"""Time limits of a child's first and second try, and the price if both are used up. Pure.

One slow or stuck worker could delay the whole gather. So a child that takes much longer than expected is
stopped, and a new worker does the rest. The second try is limited, too. Sources that are not read by then are
recorded as timed out. A late worker has no third try.
"""

from copy import replace
from math import ceil
from typing import Final

from pixel_gather.core.estimate import assumptions, pricing
from pixel_gather.core.estimate.estimate_result import Estimate
from pixel_gather.core.estimate.worker import Share, Worker
from pixel_gather.core.estimate.workload import WorkerPool

LEAST_S: Final = 120
"""Shortest limit. A store that throttles for a minute does not make a worker late."""

_TIMES: Final = 10
"""Limit of the first shard, in multiples of the model's time. The model ignores other load on the store."""

_OTHERS_TIMES: Final = 3
"""The same for a child's other shards. It is low, so that a stuck worker is noticed soon."""

_SECOND_TIMES: Final = 20
"""The same for one shard at its second try."""

MOST_S: Final = 900
"""Lambda's own limit."""

THROTTLED_PAUSE_S: Final = 60.0
"""Average pause between two tries of a child that Lambda throttles; see `infra.state_machine_definition`."""

LONGEST_GATHER_S: Final = 2 * 24 * 3600
"""Time-out of the state machine, which ends such tries."""


def first_limit_s(share: Share, deployment: WorkerPool) -> int:
    """Return the time limit for the first try of a whole child, its start included, in whole seconds."""
    task_s = _task_s(share, deployment)
    one_s = max(ceil(_TIMES * (assumptions.COLD_START.value + task_s)), LEAST_S)
    others_s = ceil(_OTHERS_TIMES * ((deployment.tasks_per_child or 1) - 1) * task_s)
    return min(one_s + others_s, MOST_S)


def second_limit_s(share: Share, deployment: WorkerPool, *, n_tasks: int) -> int:
    """Return the time limit of one shard at its second try, in whole seconds.

    It is Lambda's limit, or less if all shards together would then cost more than the gather may. It is never
    less than 20 times the model's time.
    """
    task_s = _task_s(share, deployment)
    paid_s: float = MOST_S
    if deployment.max_usd is not None and n_tasks:
        paid_s = min(deployment.max_usd / (n_tasks * _usd_per_s(deployment)), MOST_S)
    return min(max(ceil(_SECOND_TIMES * task_s), LEAST_S, int(paid_s)), MOST_S)


def limits_of_tries_s(
    estimate: Estimate, *, n_sources: int, n_tasks: int, deployment: WorkerPool
) -> tuple[int, int]:
    """Return how long the first try of a child may take, and each shard at its second try.

    Args:
        estimate: Of the whole gather. The limits are those of its average shard.
        n_sources: Number of sources in the list.
        n_tasks: Number of shards that they are cut into.
        deployment: Its workers fill the shards, with the memory and the tasks per child of the estimate.
    """
    n = max(n_tasks, 1)
    share = Share(
        n_sources=n_sources / n,
        n_gets=estimate.n_gets / n,
        n_puts=estimate.n_puts / n,
        fetched_nbytes=estimate.fetched_nbytes / n,
        decoded_nbytes=estimate.decoded_nbytes / n,
    )
    chosen = replace(
        deployment,
        worker_memory_mib=estimate.worker_memory_mib,
        tasks_per_child=estimate.tasks_per_child,
    )
    return first_limit_s(share, chosen), second_limit_s(share, chosen, n_tasks=n_tasks)


def late_usd(share: Share, *, n_tasks: int, deployment: WorkerPool, is_inline: bool = False) -> float:
    """Return the extra price if all workers are late and throttled.

    Tries after a worker was killed, or a store has failed, are not counted.

    It makes three assumptions. Every first try uses its whole limit and commits nothing. Every shard uses its
    whole limit at the second try. Lambda throttles as many children as may run at one time for two days.
    In an inline Map each child has one more first try.
    """
    n_children = ceil(n_tasks / (deployment.tasks_per_child or 1))
    second_s = n_tasks * second_limit_s(share, deployment, n_tasks=n_tasks)
    first_s = (1 + is_inline) * n_children * first_limit_s(share, deployment)
    late = (first_s + second_s) * _usd_per_s(deployment)
    n_waiting = min(deployment.n_workers, n_children)
    n_refused = n_waiting * LONGEST_GATHER_S / THROTTLED_PAUSE_S
    return late + n_refused * pricing.USD_PER_TRANSITION


def _task_s(share: Share, deployment: WorkerPool) -> float:
    """Return how long a task takes while all workers share the requests that a host allows."""
    worker = Worker.on_lambda(memory_mib=deployment.worker_memory_mib, in_flight=deployment.in_flight)
    in_turn_s = share.n_gets * deployment.n_workers / deployment.gets_per_s
    return max(worker.reading_s(share), in_turn_s) + worker.storing_s(share)


def _usd_per_s(deployment: WorkerPool) -> float:
    return deployment.worker_memory_mib / 1024 * pricing.USD_PER_GB_S
