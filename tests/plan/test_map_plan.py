"""The map's workers, children and time limits follow from the plan, the request and the deployment."""

from copy import replace

import numpy as np
import pytest

from pixel_gather.core.estimate.workload import FarBucket, WorkerPool
from pixel_gather.core.plan.choose_layout import MOST_CHILDREN
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.map_plan import plan_map
from pixel_gather.core.request.request import Limits
from support.fakes import FakeReader, table_of
from support.plans import planned

N_SHARDS = 100
WORKERS = WorkerPool(is_deployed=True, max_workers=40)


@pytest.fixture(scope="module")
def plan() -> CubePlan:
    """A plan whose estimate has 5 shards per child and 30 workers."""
    made = planned(FakeReader({"a": np.zeros((1, 8, 8), "uint16")}), table_of("a"))
    return replace(made, estimate=replace(made.estimate, tasks_per_child=5, most_workers=30))


def test_plan_map_takes_the_workers_of_the_estimate_unless_the_request_names_a_number(plan: CubePlan) -> None:
    """The deployment's number is the limit of the estimate's."""
    few = WorkerPool(is_deployed=True, max_workers=20)

    def n_workers(limits: Limits, workers: WorkerPool) -> int:
        return plan_map(plan, limits, n_shards=N_SHARDS, n_missing=N_SHARDS, workers=workers).n_workers

    assert n_workers(Limits(), WORKERS) == 30
    assert n_workers(Limits(), few) == 20
    assert n_workers(Limits(workers=7), WORKERS) == 7


@pytest.mark.parametrize(
    ("n_shards", "n_missing", "expected"),
    [(N_SHARDS, N_SHARDS, 5), (N_SHARDS, N_SHARDS - 1, 1), (3 * MOST_CHILDREN, MOST_CHILDREN + 1, 5)],
)
def test_plan_map_gives_each_shard_its_own_child_after_a_failed_attempt(
    plan: CubePlan, n_shards: int, n_missing: int, expected: int
) -> None:
    """This holds unless there would be more children than the map can run at one time."""
    found = plan_map(plan, Limits(), n_shards=n_shards, n_missing=n_missing, workers=WORKERS)

    assert found.tasks_per_child == expected


def test_plan_map_limits_second_tries_by_the_price_of_the_gather(plan: CubePlan) -> None:
    """With a low limit in dollars, a late shard may take less than Lambda's 15 minutes."""
    free, cheap = (
        plan_map(plan, Limits(usd=usd), n_shards=N_SHARDS, n_missing=N_SHARDS, workers=WORKERS)
        for usd in (None, 0.5)
    )

    assert free.late_shard_s == 900
    assert 120 <= cheap.late_shard_s < 900
    assert free.first_limit_s == cheap.first_limit_s


def test_first_try_has_the_time_that_its_turns_take(plan: CubePlan) -> None:
    """Workers that wait for their turns are not late."""
    many = replace(plan, n_sources=10_000, estimate=replace(plan.estimate, n_gets=20_000))
    slow = replace(many, request=plan.request | {"limits": {"requests_per_s": {"s3://b": 10.0}}})

    free, waiting = (
        plan_map(each, Limits(), n_shards=N_SHARDS, n_missing=N_SHARDS, workers=WORKERS).first_limit_s
        for each in (many, slow)
    )

    assert free < waiting <= 900


def test_deployed_workers_pay_for_buckets_of_other_regions_only() -> None:
    """A bucket of the workers' own Region is not far, and without a Region none is."""
    buckets = {"near": FarBucket(region="eu-central-1"), "far": FarBucket(region="us-west-2")}

    def far(region: str | None) -> set[str]:
        pool = WorkerPool.deployed(
            max_workers=None, memories_mib=(1024, 1769), concurrency=128, region=region, buckets=buckets
        )
        return set(pool.far_buckets)

    assert far("eu-central-1") == {"far"}
    assert far(None) == set()
