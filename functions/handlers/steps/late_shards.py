"""How long the children of a map, and their shards, may take: for the state machine to know. Pure."""

from dataclasses import replace

from pixel_gather.estimate.estimate import Estimate
from pixel_gather.estimate.second_tries import first_limit_s, second_limit_s
from pixel_gather.estimate.worker import Share
from pixel_gather.estimate.workload import Deployment


def shard_limit_s(estimate: Estimate, *, n_sources: int, n_tasks: int, deployment: Deployment) -> int:
    """Return the limit of a child's first try, in whole seconds.

    Args:
        estimate: Of the whole gather.
        n_sources: Of the list.
        n_tasks: Shards that they are cut into.
        deployment: Whose workers fill them.
    """
    share = _share(estimate, n_sources=n_sources, n_tasks=n_tasks)
    return first_limit_s(share, _chosen(estimate, deployment))


def late_shard_s(estimate: Estimate, *, n_sources: int, n_tasks: int, deployment: Deployment) -> int:
    """Return the limit of each shard at a second try, in whole seconds; arguments as above."""
    share = _share(estimate, n_sources=n_sources, n_tasks=n_tasks)
    return second_limit_s(share, _chosen(estimate, deployment), n_tasks=n_tasks)


def _chosen(estimate: Estimate, deployment: Deployment) -> Deployment:
    return replace(
        deployment,
        worker_memory_mib=estimate.worker_memory_mib,
        tasks_per_child=estimate.tasks_per_child,
    )


def _share(estimate: Estimate, *, n_sources: int, n_tasks: int) -> Share:
    n = max(n_tasks, 1)
    return Share(
        n_sources=n_sources / n,
        n_gets=estimate.n_gets / n,
        n_puts=estimate.n_puts / n,
        fetched_nbytes=estimate.fetched_nbytes / n,
        decoded_nbytes=estimate.decoded_nbytes / n,
    )
