"""What one worker may hold and how long it may take, and the workers of a deployment."""

from copy import replace
from math import inf
from typing import Any

import msgspec
import pytest

from pixel_gather.core.estimate.compute_estimate import estimate_on_aws, finish_s_of, plan_s_of
from pixel_gather.core.estimate.estimate_result import Estimate
from pixel_gather.core.estimate.fleet import simulate
from pixel_gather.core.estimate.pricing import usd_on_aws
from pixel_gather.core.estimate.try_time_limits import (
    first_limit_s,
    late_usd,
    limits_of_tries_s,
    second_limit_s,
)
from pixel_gather.core.estimate.worker import Share, Worker
from pixel_gather.core.estimate.worker_count import fewest_workers, share_of, staff
from pixel_gather.core.estimate.worker_limits import max_task_nbytes
from pixel_gather.core.estimate.workload import FarBucket, WorkerPool, Workload
from pixel_gather.core.model.plurals import size

NOTHING = Share(n_sources=0, n_gets=0, n_puts=0, fetched_nbytes=0, decoded_nbytes=0)
SMALL = WorkerPool(worker_memory_mib=1024, tasks_per_child=11)
"""A task without sources takes its worker 0.03 s: the answer to its PUT."""

LONG = replace(NOTHING, n_sources=1, n_gets=1, fetched_nbytes=78_000_000 * 20, is_decoded=False)
"""It takes 20 s to fetch, as long to put, and twice 0.03 s until the first byte."""


@pytest.mark.parametrize(
    ("memory_mib", "expected"),
    [(512, 1), (746, 1), (749, 2), (1024, 139), (1769, 512), (3008, 870), (10_240, 1024)],
)
def test_shard_fits_beside_python_and_gdal_twice(memory_mib: int, expected: int) -> None:
    """A worker of one vCPU holds 512 MiB, larger ones more in proportion, up to 1 GiB. In MiB."""
    assert max_task_nbytes(memory_mib) == expected * 2**20


@pytest.mark.parametrize(
    ("nbytes", "expected"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_960, "1.0 MB"),
        (1_234_567, "1.2 MB"),
        (5e9, "5.0 GB"),
        (5e12, "5.0 TB"),
        (5e15, "5,000.0 TB"),
    ],
)
def test_sizes_are_decimal(nbytes: float, expected: str) -> None:
    """Whole bytes, and one decimal of all else."""
    assert size(nbytes) == expected


def test_first_try_may_take_ten_times_its_first_shard_and_three_times_the_others() -> None:
    """Never less than two minutes for the first one, and never more than a function may run."""
    alone = replace(SMALL, tasks_per_child=None)

    assert first_limit_s(NOTHING, alone) == 120
    assert first_limit_s(NOTHING, SMALL) == 121
    assert first_limit_s(LONG, alone) == 411
    assert first_limit_s(LONG, replace(SMALL, tasks_per_child=3)) == 411 + 241
    assert first_limit_s(LONG, SMALL) == 900


def test_second_try_is_as_long_as_the_price_allows() -> None:
    """But two minutes, and twenty times what the shard should take, are always allowed."""
    capped = WorkerPool(max_usd=2.0)

    assert second_limit_s(NOTHING, WorkerPool(), n_tasks=100) == 900
    assert second_limit_s(NOTHING, capped, n_tasks=100) == 868
    assert second_limit_s(NOTHING, capped, n_tasks=0) == 900
    assert second_limit_s(NOTHING, capped, n_tasks=10_000) == 120
    assert second_limit_s(replace(LONG, fetched_nbytes=78e6 * 5), capped, n_tasks=10_000) == 202
    assert second_limit_s(LONG, capped, n_tasks=10_000) == 802
    assert second_limit_s(replace(LONG, fetched_nbytes=78e6 * 50), capped, n_tasks=10_000) == 900


def test_highest_price_is_of_both_tries_and_of_two_days_of_throttling() -> None:
    """Two children of 11 shards: 121 s each, 900 s for each shard, and 2,880 refused tries of each."""
    tries = (2 * 121 + 22 * 900) * 0.0000133334
    refused = 2 * 2880 * 0.000025

    assert late_usd(NOTHING, n_tasks=22, deployment=SMALL) == pytest.approx(tries + refused, rel=1e-6)
    one_worker = replace(SMALL, asked_workers=1)
    assert late_usd(NOTHING, n_tasks=22, deployment=one_worker) == pytest.approx(
        tries + refused / 2, rel=1e-6
    )


def test_kept_tiles_are_stored_as_large_as_they_were_fetched() -> None:
    """Decoded ones are compressed again. Only these take the CPU time of that."""
    share = replace(NOTHING, fetched_nbytes=100.0, decoded_nbytes=274.0)

    assert share.stored_nbytes == pytest.approx(200)
    assert replace(share, is_decoded=False).stored_nbytes == 100


def test_time_to_read_is_that_of_the_slowest_of_waiting_fetching_and_decoding() -> None:
    """By hand, for a worker of half a vCPU that reads ten sources at one time."""
    worker = Worker(
        vcpus=0.5,
        network_bytes_per_s=100.0,
        in_flight=10,
        first_byte_s=0.25,
        cpu_s_per_get=1.0,
        cpu_s_per_source=2.0,
        decoding_bytes_per_s=50.0,
        tls_bytes_per_s=200.0,
    )
    share = Share(n_sources=21, n_gets=42, n_puts=2, fetched_nbytes=1000, decoded_nbytes=2000)
    cpu_s = 42 * 1.0 + 21 * 2.0 + 1000 / 200 + 2000 / 50

    assert worker.reading_s(share) == pytest.approx(0.5 + cpu_s / 0.5)
    assert replace(worker, vcpus=inf).reading_s(share) == pytest.approx(0.5 + 1000 / 100)
    fast = replace(worker, vcpus=inf, network_bytes_per_s=inf)
    assert fast.reading_s(share) == pytest.approx(3 * 0.5)
    assert fast.reading_s(replace(share, n_sources=20, n_gets=40)) == pytest.approx(2 * 0.5)
    kept = replace(share, is_decoded=False)
    assert worker.reading_s(kept) == pytest.approx(0.5 + (cpu_s - 2000 / 50) / 0.5)
    assert worker.storing_s(kept) == pytest.approx(1000 / 100 + 0.25)
    by_hand = 2000 * (1 / 3.1e9 + 1 / 420e6) / 0.5 + 2000 / 1.37 / 100 + 0.25
    assert worker.storing_s(share) == pytest.approx(by_hand)


def test_worker_on_lambda_has_a_vcpu_for_1769_mib() -> None:
    """Its network does not depend on its memory."""
    small, large = (Worker.on_lambda(memory_mib=each, in_flight=8) for each in (1769, 3538))

    assert (small.vcpus, large.vcpus) == (1, 2)
    assert replace(large, vcpus=1.0) == small
    assert small.cpu_s_per_source == pytest.approx(0.002)
    assert small.in_flight == 8


def test_deployment_has_its_own_workers_or_else_those_of_a_new_one() -> None:
    """A bucket in an unknown Region of an unknown deployment is not far."""
    buckets = {"a": FarBucket(region="x"), "b": FarBucket(region="y")}

    def pool(max_workers: float | None = None, concurrency: int = 8, region: str | None = "x") -> WorkerPool:
        return WorkerPool.deployed(
            max_workers=max_workers,
            memories_mib=(512, 1024, 3538),
            concurrency=concurrency,
            region=region,
            buckets=buckets,
        )

    found = pool()
    assert (found.max_workers, found.worker_memory_mib, found.in_flight) == (500, 3538, 8)
    assert found.smaller_mib == (512, 1024)
    assert found.far_buckets == {"b": buckets["b"]}
    assert pool(region=None).far_buckets == {}
    assert pool(max_workers=7.0).max_workers == 7
    assert pool(concurrency=999).in_flight == 64
    assert found.is_deployed


@pytest.mark.parametrize(
    ("pool", "n_workers", "limit"),
    [
        (WorkerPool(), 500, "max_workers, by default"),
        (WorkerPool(is_deployed=True), 500, "the deployment's max_workers"),
        (WorkerPool(asked_workers=3), 3, "the request's limits.workers"),
        (WorkerPool(chosen_workers=4), 4, "as many as help"),
        (WorkerPool(max_workers=9999), 1000, "the account's concurrency"),
    ],
)
def test_lowest_limit_on_workers_has_a_name(pool: WorkerPool, n_workers: int, limit: str) -> None:
    """It tells users what to change."""
    assert (pool.n_workers, pool.limit) == (n_workers, limit)


def test_gather_without_shards_takes_its_plan_and_its_finish() -> None:
    """All are committed. There is one shard a child and no child."""
    work = Workload(n_sources=0, n_gets=0, fetched_nbytes=0, decoded_nbytes=0, n_tasks=0, n_puts=0)

    found = estimate_on_aws(work, WorkerPool())

    assert (found.n_children, found.tasks_per_child, found.n_workers, found.enough_workers) == (0, 1, 0, 1)
    assert found.seconds == pytest.approx(plan_s_of(0) + finish_s_of(0, n_tasks=0))
    assert found.bound_by == "plan and finish"
    assert [each.how_much for each in found.figures if each.what == "enough"] == ["1 worker"]


def test_plan_and_finish_take_longer_for_more_sources_and_shards() -> None:
    """The plan by 26 µs a source. The finish by 48 µs, a wait for 32 shards, and one for 64 objects.

    Headers of eight shards are read beside their sidecars, others 32 at a time.
    """
    assert plan_s_of(0) == pytest.approx(0.3 + 1.0 + 11 * 0.03)
    assert plan_s_of(10**6) == pytest.approx(1.63 + 26)
    assert finish_s_of(0, n_tasks=0) == pytest.approx(1.0 + 6 * 0.03)
    for n_tasks, waits in ((8, 1), (9, 2), (32, 2), (33, 3), (40, 3), (41, 4)):
        assert finish_s_of(0, n_tasks=n_tasks) == pytest.approx(1.18 + waits * 0.03)
    for n_chunks, waits in ((1, 0), (2, 0), (3, 1), (6, 2)):
        n_rows = n_chunks * 16_384
        expected = 1.18 + waits * 0.03 + n_rows * 48e-6
        assert finish_s_of(n_rows, n_tasks=0) == pytest.approx(expected)


def test_prices_are_those_of_the_cost_page() -> None:
    """Of a million GETs, a thousand PUTs, a million GB-seconds, and children with three transitions each."""

    def usd_of(**given: Any) -> dict[str, float]:
        nothing = dict.fromkeys(("n_gets", "n_puts", "n_tasks", "n_children", "worker_s", "beside_s"), 0)
        return usd_on_aws(**nothing | given, worker_mib=1024, is_inline=False)

    none = usd_of()

    def more(**given: float) -> dict[str, float]:
        found = usd_of(**given)
        return {name: usd - none[name] for name, usd in found.items() if usd != none[name]}

    assert none == pytest.approx({"s3": 120 * 4e-7, "lambda": 2 * 2e-7, "step_functions": 5 * 2.5e-5})
    assert more(n_gets=1_000_000) == pytest.approx({"s3": 0.4})
    assert more(n_puts=1000) == pytest.approx({"s3": 0.005})
    assert more(worker_s=1_000_000) == pytest.approx({"lambda": 13.3334})
    assert more(beside_s=1024) == pytest.approx({"lambda": 1769 * 0.0000133334})
    assert more(n_children=1000) == pytest.approx({"lambda": 2e-4, "step_functions": 0.075})
    assert more(n_tasks=1000) == pytest.approx({"s3": 10_000 * 4e-7})


@pytest.mark.parametrize(("gb_per_shard", "expected"), [(0.01, 11), (0.6, 7), (1.9, 2), (40.0, 1)])
def test_child_does_as_many_shards_as_a_minute_has_room_for(gb_per_shard: float, expected: int) -> None:
    """It does eleven at most. A gather that has few workers shows it."""
    work = Workload(
        n_sources=1000,
        n_gets=2000,
        fetched_nbytes=round(100 * gb_per_shard * 1e9),
        decoded_nbytes=100,
        n_tasks=100,
        n_puts=200,
    )

    assert estimate_on_aws(work, WorkerPool(asked_workers=2)).tasks_per_child == expected


def test_price_of_transfer_is_shared_by_all_bytes() -> None:
    """A source tells its bytes, not its bucket."""
    work = Workload(
        n_sources=1, n_gets=2, fetched_nbytes=4 * 10**9, decoded_nbytes=1, n_tasks=1, n_puts=2,
        nbytes_by_bucket={"far": 10**9, "near": 3 * 10**9},
    )  # fmt: skip
    far = WorkerPool(region="x", far_buckets={"far": FarBucket(region="us-west-2")})

    assert estimate_on_aws(work, far).transfer_usd_per_byte == pytest.approx(0.02 / 4e9)
    assert estimate_on_aws(work, WorkerPool()).transfer_usd_per_byte == 0.0
    nothing = replace(work, fetched_nbytes=0, nbytes_by_bucket={})
    assert estimate_on_aws(nothing, far).transfer_usd_per_byte == 0.0


@pytest.mark.parametrize("n_prefixes", [1, 2, 3, 4, 5])
def test_one_worker_fewer_than_chosen_takes_longer_than_is_worth_it(n_prefixes: int) -> None:
    """The gather would take more than 1 % longer."""
    work = Workload(
        n_sources=20_000,
        n_gets=40_000,
        fetched_nbytes=8 * 10**9,
        decoded_nbytes=10**10,
        n_tasks=313,
        n_puts=650,
        n_prefixes=n_prefixes,
    )
    beside_s = plan_s_of(work.n_sources) + finish_s_of(work.n_sources, n_tasks=work.n_tasks)

    found = staff(work, WorkerPool(), beside_s=beside_s)

    def seconds(n: int) -> float:
        return simulate(replace(found.fleet, n_workers=n)).seconds + beside_s

    n = found.deployment.chosen_workers
    assert n is not None
    assert seconds(n) <= 1.01 * seconds(500) < seconds(n - 1)


def test_one_worker_is_enough_where_all_else_takes_far_longer() -> None:
    """A second one would save a second of a quarter of an hour."""
    work = Workload(
        n_sources=64, n_gets=128, fetched_nbytes=10**6, decoded_nbytes=10**6, n_tasks=8, n_puts=16
    )

    assert staff(work, WorkerPool(), beside_s=900.0).deployment.chosen_workers == 1
    assert fewest_workers(work, WorkerPool(), beside_s=900.0, longest_s=950.0) == 1
    assert fewest_workers(work, WorkerPool(), beside_s=0.0, longest_s=0.0) == 8


def test_limits_of_a_gather_are_those_of_its_average_shard() -> None:
    """At both tries, with the workers that the estimate has chosen."""
    work = Workload(
        n_sources=40, n_gets=40, fetched_nbytes=40 * 78_000_000, decoded_nbytes=10**6, n_tasks=20, n_puts=40
    )
    workers = WorkerPool(max_usd=0.01, asked_workers=20)
    estimate = estimate_on_aws(work, workers)
    share = share_of(work)
    chosen = replace(
        workers, worker_memory_mib=estimate.worker_memory_mib, tasks_per_child=estimate.tasks_per_child
    )

    first, second = limits_of_tries_s(estimate, n_sources=40, n_tasks=20, deployment=workers)

    assert first == first_limit_s(share, chosen)
    assert second == second_limit_s(share, chosen, n_tasks=20)
    assert limits_of_tries_s(estimate, n_sources=40, n_tasks=0, deployment=workers)[1] == 900


def test_estimates_of_earlier_versions_have_one_shard_a_child() -> None:
    """And as many workers of one vCPU as the map allows. Nothing says what limits them."""
    old = {
        "n_gets": 1,
        "n_puts": 2,
        "fetched_nbytes": 3,
        "decoded_nbytes": 4,
        "n_workers": 5,
        "seconds": 6.0,
        "usd": 7.0,
        "usd_by_service": {},
    }

    found = msgspec.convert(old, Estimate)

    assert (found.most_workers, found.enough_workers, found.worker_memory_mib) == (10_000, 10_000, 1769)
    assert (found.tasks_per_child, found.n_children, found.transfer_nbytes) == (1, 0, 0)
    assert (found.bound_by, found.usd_if_late, found.figures) == ("", None, ())
