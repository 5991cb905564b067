"""Decide how the state machine's map runs the missing shards: workers, children and time limits. Pure."""

from copy import replace
from math import inf

from msgspec import Struct

from pixel_gather.core.estimate.try_time_limits import limits_of_tries_s
from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.plan.choose_layout import MOST_CHILDREN
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.request.request import Limits


class MapPlan(Struct, frozen=True, kw_only=True):
    """How the map runs."""

    n_workers: int
    """Most workers at one time."""

    worker_memory_mib: int
    """Memory of each worker."""

    tasks_per_child: int
    """Most shards of one child."""

    is_inline: bool
    """Whether each child is an item of an inline Map, if it gets all workers that it wants."""

    first_limit_s: int
    """Longest time of a child's first try, in seconds."""

    late_shard_s: int
    """Longest time of each shard at a second try, in seconds."""


def plan_map(
    plan: CubePlan, limits: Limits, *, n_shards: int, n_missing: int, workers: WorkerPool
) -> MapPlan:
    """Return how the map runs.

    Args:
        plan: The cube.
        limits: The request's, no higher than the deployment's.
        n_shards: All shards of the cube.
        n_missing: Shards that are not committed yet.
        workers: The deployment's.
    """
    gets_per_s = min(plan.requests_per_s.values(), default=inf)
    workers = replace(workers, gets_per_s=gets_per_s, max_usd=limits.usd)
    n_sources, estimate = plan.n_sources + plan.append.n_again, plan.estimate
    first_s, late_s = limits_of_tries_s(estimate, n_sources=n_sources, n_tasks=n_shards, deployment=workers)
    return MapPlan(
        n_workers=limits.workers or min(estimate.most_workers, workers.n_workers),
        worker_memory_mib=estimate.worker_memory_mib,
        tasks_per_child=_tasks_per_child(plan, n_shards=n_shards, n_missing=n_missing),
        is_inline=n_missing == n_shards and plan.runs_inline,
        first_limit_s=first_s,
        late_shard_s=late_s,
    )


def _tasks_per_child(plan: CubePlan, *, n_shards: int, n_missing: int) -> int:
    """Return the largest number of shards of one child.

    After a failed attempt, each shard gets a child of its own if there are few enough. So a shard that fails
    in every worker keeps no other shard from being filled.
    """
    is_another_attempt = n_missing < n_shards
    return 1 if is_another_attempt and n_missing <= MOST_CHILDREN else plan.estimate.tasks_per_child
