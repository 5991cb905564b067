"""The figures of docs/cost.md and of the benchmarks are what the model says. A plan prints their basis."""

import pytest

from benchmarks.bench_simulation import simulated
from pixel_gather.core.estimate.compute_estimate import estimate_on_aws
from pixel_gather.core.estimate.workload import FarBucket, WorkerPool, Workload


@pytest.mark.parametrize(
    ("n_files", "workers", "expected"),
    [
        (1278, 1, "2 children, 1 of 1769 MiB, 21.7 s, $0.0026, the request's limits.workers, 1"),
        (1278, 10, "19 children, 10 of 1769 MiB, 6.4 s, $0.0041, the request's limits.workers, 10"),
        (1278, None, "20 children, 20 of 1769 MiB, 4.0 s, $0.0035, cold starts, 20"),
        (5000, None, "79 children, 79 of 1024 MiB, 6.7 s, $0.0144, plan and finish, 42"),  # README.md
        (100_000, 10, "169 children, 10 of 1769 MiB, 152.8 s, $0.1555, the request's limits.workers, 10"),
        (100_000, None, "301 children, 55 of 1024 MiB, 50.9 s, $0.1603, S3 rate per prefix, 39"),
    ],
)
def test_gathers_take_what_the_benchmarks_page_says(n_files: int, workers: int | None, expected: str) -> None:
    """Children, workers and their memory, seconds, dollars, the limit, and how many workers are enough."""
    found = simulated(n_files, workers).estimate

    assert (
        f"{found.n_children} children, {found.n_workers} of {found.worker_memory_mib} MiB, "
        f"{found.seconds:.1f} s, ${found.usd:.4f}, {found.bound_by}, {found.enough_workers}"
    ) == expected


def test_a_small_gather_takes_four_seconds_and_less_than_half_a_cent() -> None:
    """The report of 2018 has as many files."""
    found = simulated(1278, None).estimate

    assert found.seconds <= 4.0
    assert found.usd < 0.004


@pytest.mark.parametrize(
    ("n_files", "usd", "seconds"),
    [
        (1278, ("0.0018", "0.0010", "0.0007"), ("1.7", "0.1", "1.0", "0.6", "0.4", "0.3")),
        (100_000, ("0.1107", "0.0269", "0.0227"), ("4.4", "1.1", "1.0", "22.9", "12.5", "9.0")),
    ],
)
def test_dollars_and_seconds_are_those_of_the_cost_page(
    n_files: int, usd: tuple[str, ...], seconds: tuple[str, ...]
) -> None:
    """Of S3, Lambda and Step Functions; of plan, dispatch, start, read, store and finish."""
    found = simulated(n_files, None).estimate

    assert tuple(f"{each:.4f}" for each in found.usd_by_service.values()) == usd
    assert tuple(f"{each:.1f}" for each in found.seconds_by_part.values()) == seconds


AWS = "AWS: 625 Mbit/s a Lambda environment"
X86 = "one vCPU of x86"
PRINTED = f"""
search: 12 GETs
- of the catalog's files, $0.0000048 in the dollars of s3 if they lie there
sources: 1,278
- counted in the list
shards: 20
- the layout: each is a task and an object per measurement
GETs: 2,356
- one for each header except 200 that are in an index, the window's in the sampled sources, by their headers
PUTs: 105
- a shard: one object per measurement, two sidecars; 45 others; coordinates
bytes to read: 510.0 MB
- the window's tiles in the sampled sources, by their headers; else a share of their size
- if only failed sources are tried again: the mean of what the cube's other sources took
parts: single (7 of 2.3 MB in process)
- 16.0 MB per source, 2 sources at one time
- one connection: 85 MB/s (AWS: one request at a time for each 85-90 MB/s that is wanted)
- a worker's network: 78 MB/s ({AWS})
- a machine's network in process: 1.25 GB/s (assumed: 10 Gbit/s, as many machines on EC2 have)
bytes decoded: 670.0 MB
- the cube's shape and dtypes
workers: 4
- at most 4: the request's limits.workers
- started as they are needed: 100 children/s (AWS: a Distributed Map of STANDARD children)
- 1,769 MiB each, the smallest size that is at most 5 % slower; one vCPU: 1,769 MiB (AWS: memory that comes \
with one vCPU)
children: 11
- of the map: up to 5 shards each, in sequence; the last ones have fewer, so that all workers end at about \
the same time
seconds: 9.2
- until the cube is complete: a simulation of the workers, not measured on AWS
seconds of plan: 1.9
- steps: 300 ms (assumed: Step Functions, for all but a Map Run and its children)
- and 200 ms (assumed: Step Functions, for the start and end of a Map Run)
- function's start: 1 s (assumed, with imports of 0.15 s measured)
- each source: 26 µs (measured: bench_scale)
- waits for 11 requests (counted: those of a plan that follow one another)
seconds of dispatch: 0.4
- of the worker that ends last, like the next three parts
- waiting for its turn: 100 children/s (AWS: a Distributed Map of STANDARD children)
- each child: 100 ms (assumed: Step Functions, for a child's start, Task and end)
seconds of start: 1.0
- worker's start: 1 s (assumed, with imports of 0.15 s measured)
seconds of read: 2.4
- network: 78 MB/s ({AWS})
- first byte: 30 ms (report of 2018: median time to open a file, one thread), 32 sources in flight
- decoding: 400 MB/s (measured: DEFLATE with predictor 2, {X86})
- CPU time of each source: 1.6 ms (measured: bench_gather, rest of 2.55 CPU s per 1,000 compressed tiles; \
{X86})
- S3: 5,500 GETs/s (AWS: of one prefix, more only gradually); 2 assumed
- late: one of 1,278 GETs (report of 2018: how many had one such answer)
- by 100 ms (measured: bench_peers, at most 0.06 s with hedged requests; 1 s without)
seconds of store: 2.2
- statistics: 3.1 GB/s (measured: statistics and digest, {X86})
- compressing: 420 MB/s (measured: decision 0003, blosc-lz4, {X86})
- to be put: 1.37 times smaller (measured: decision 0003, blosc-lz4 of Landsat-like tiles)
- network: 78 MB/s ({AWS})
seconds of finish: 1.3
- function's start: 1 s (assumed, with imports of 0.15 s measured)
- each source: 48 µs (measured: bench_scale, and 8 µs for the table of rows)
- waits for 5 requests (counted: those of a finish that follow one another), and more for many shards and \
sources
report: 4.0 s more
- drawn after that: 4 s (measured: the report of 1,278 sources, and of 100,000)
bound by: the request's limits.workers
- the binding limit: without it, the gather would end soonest
enough: 4 workers
- more workers would save less than 5 % of the time and are billed while they wait
dollars: $0.0132
- prices of us-east-1, arm64, November 2026
- with transfer between Regions
dollars of s3: $0.00160
- $0.0004 per 1,000 GETs, with 10 more per shard
- $0.005 per 1,000 PUTs
dollars of lambda: $0.00066
- $1.33334e-05 per GB-second, 1.728 GB per worker
- $0.20 per million invocations
dollars of step_functions: $0.00095
- 3 transitions per child of the map
- $0.025 per 1,000
dollars of transfer: $0.01000
- 500.0 MB from other Regions
- far in us-west-2: $0.020 per GB
dollars if all are late: $0.73
- if every child is stopped after 130 s, and each shard takes 900 s at its second try; there is no third
- beside it: a child whose worker is killed or whose store fails is tried again, a few times
- and if Lambda throttles 4 workers, each every 60 s, for two days
"""


def test_a_plan_prints_every_number_with_its_basis() -> None:
    """Of a gather with a search, an index, two buckets in other Regions, of which one costs, and a cap."""
    work = Workload(
        n_sources=1278,
        n_indexed=200,
        n_gets=2356,
        fetched_nbytes=510_000_000,
        decoded_nbytes=670_040_064,
        n_tasks=20,
        n_puts=105,
        task_nbytes=33_554_432,
        nbytes_by_bucket={"near": 10_000_000, "far": 500_000_000, "open": 1000},
        window_nbytes=16_000_000.0,
        n_side_by_side=2,
        n_search_gets=12,
        n_prefixes=2,
    )
    workers = WorkerPool(
        is_deployed=True,
        region="eu-central-1",
        far_buckets={
            "far": FarBucket(region="us-west-2"),
            "open": FarBucket(region="us-east-1", is_charged=False),
        },
        max_usd=2.0,
        asked_workers=4,
        in_flight=32,
    )

    lines = [
        line
        for each in estimate_on_aws(work, workers).figures
        for line in (f"{each.what}: {each.how_much}", *(f"- {basis}" for basis in each.rests_on))
    ]

    assert lines == PRINTED.strip().splitlines()
