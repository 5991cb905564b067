"""The time limit of the first try of a child."""

import pytest

from pixel_gather.core.estimate.compute_estimate import estimate_on_aws
from pixel_gather.core.estimate.try_time_limits import limits_of_tries_s
from pixel_gather.core.estimate.workload import WorkerPool, Workload

GB = 10**9


def limit_of(*, gb_per_shard: float, n_tasks: int = 10) -> int:
    """Return the limit for shards of 64 sources and this many bytes."""
    work = Workload(
        n_sources=64 * n_tasks,
        n_gets=128 * n_tasks,
        fetched_nbytes=round(gb_per_shard * GB * n_tasks),
        decoded_nbytes=round(gb_per_shard * GB * n_tasks),
        n_tasks=n_tasks,
        n_puts=2 * n_tasks,
    )
    deployment = WorkerPool()
    first_s, _ = limits_of_tries_s(
        estimate_on_aws(work, deployment),
        n_sources=work.n_sources,
        n_tasks=n_tasks,
        deployment=deployment,
    )
    return first_s


def test_limit_of_a_usual_shard_is_the_least() -> None:
    """A shard of a few seconds may take two minutes, which is longer than a short throttling."""
    assert limit_of(gb_per_shard=0.026) == 120


def test_limit_of_a_large_shard_is_many_times_what_it_takes() -> None:
    """3 GB at 78 MB/s take at least 38 s, and the limit is a multiple of that."""
    assert 380 <= limit_of(gb_per_shard=3) < 900


def test_limit_is_never_beyond_what_a_function_may_run() -> None:
    """The limit is at most that of Lambda."""
    assert limit_of(gb_per_shard=100) == 900


@pytest.mark.long
@pytest.mark.parametrize("n_tasks", [1, 10, 10_000])
def test_limit_is_of_one_shard_however_many_there_are(n_tasks: int) -> None:
    """The estimate is of the whole gather, but the limit is of one shard."""
    assert limit_of(gb_per_shard=3, n_tasks=n_tasks) == limit_of(gb_per_shard=3)


def test_limit_of_nothing_to_do_is_the_least() -> None:
    """If all shards are committed, the limit is the shortest one."""
    assert limit_of(gb_per_shard=0, n_tasks=0) == 120
