"""What a gather will take on AWS: requests, bytes, seconds and dollars, each with what it rests on.

Prices are those of us-east-1 for arm64 in November 2026; check them before quoting. Nothing here
was measured on AWS itself: the times are a model, and `Estimate.assumptions` says of what. Pure.
"""

from dataclasses import dataclass
from typing import Final

USD_PER_GET: Final = 0.0004 / 1000
USD_PER_PUT: Final = 0.005 / 1000
USD_PER_GB_S: Final = 0.0000133334
USD_PER_INVOCATION: Final = 0.20 / 1_000_000
USD_PER_TRANSITION: Final = 0.025 / 1000
TRANSITIONS_PER_TASK: Final = 3
"""Start of a child, its one Task, its end."""

TRANSITIONS_BESIDE: Final = 5
"""Start, plan, choice, map, finish."""

WORKER_BYTES_PER_S: Final = 78_000_000
"""625 Mbit/s, what one Lambda environment gets."""

WORKER_GB: Final = 1.769
"""Memory that comes with one vCPU."""

IN_FLIGHT: Final = 64
FIRST_BYTE_S: Final = 0.03
DECODED_BYTES_PER_S: Final = 400_000_000
"""One vCPU decoding DEFLATE with predictor 2 at 1.3 ms for 512 KiB, as measured on x86."""

CHILDREN_PER_S: Final = 100
"""Rate at which a Distributed Map starts STANDARD children."""

MAX_WORKERS: Final = 1000
"""Lambda's concurrency of an account by default."""

OVERHEAD_S: Final = 4.0
"""Plan, finish and one cold start, assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is to be done, in the units that are paid for."""

    n_sources: int
    n_gets: int
    fetched_nbytes: int
    decoded_nbytes: int
    n_tasks: int
    n_puts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A gather's price before a pixel is read."""

    n_gets: int
    n_puts: int
    fetched_nbytes: int
    decoded_nbytes: int
    n_workers: int
    seconds: float
    usd: float
    usd_by_service: dict[str, float]
    assumptions: tuple[str, ...]


def usd_on_aws(
    *, n_gets: int, n_puts: int, n_tasks: int, worker_s: float, worker_gb: float
) -> dict[str, float]:
    """Price what was planned or done, by service.

    Args:
        n_gets: GET requests.
        n_puts: PUT requests.
        n_tasks: Shards, each an invocation and a child of the map.
        worker_s: Seconds that workers are paid for, their starts included.
        worker_gb: Memory of a worker, in GB.
    """
    return {
        "s3": n_gets * USD_PER_GET + n_puts * USD_PER_PUT,
        "lambda": worker_s * worker_gb * USD_PER_GB_S + (n_tasks + 2) * USD_PER_INVOCATION,
        "step_functions": (n_tasks * TRANSITIONS_PER_TASK + TRANSITIONS_BESIDE) * USD_PER_TRANSITION,
    }


def estimate_on_aws(work: Workload) -> Estimate:
    """Price a gather on AWS."""
    n_workers = min(work.n_tasks, MAX_WORKERS)
    task_s = max(
        work.fetched_nbytes / WORKER_BYTES_PER_S,
        work.n_gets * FIRST_BYTE_S / IN_FLIGHT,
        work.decoded_nbytes / DECODED_BYTES_PER_S,
    )
    dispatch_s = work.n_tasks / CHILDREN_PER_S
    seconds = OVERHEAD_S + max(dispatch_s, task_s / n_workers)
    usd = usd_on_aws(
        n_gets=work.n_gets,
        n_puts=work.n_puts,
        n_tasks=work.n_tasks,
        worker_s=task_s + OVERHEAD_S + work.n_tasks,
        worker_gb=WORKER_GB,
    )
    return Estimate(
        n_gets=work.n_gets,
        n_puts=work.n_puts,
        fetched_nbytes=work.fetched_nbytes,
        decoded_nbytes=work.decoded_nbytes,
        n_workers=n_workers,
        seconds=seconds,
        usd=sum(usd.values()),
        usd_by_service=usd,
        assumptions=(
            "sources in the workers' own Region (no transfer is charged)",
            f"{n_workers:,} workers at a time, {CHILDREN_PER_S} started per second",
            f"{WORKER_BYTES_PER_S / 1e6:.0f} MB/s and {WORKER_GB} GB per worker, one second of start-up each",
            f"{FIRST_BYTE_S * 1000:.0f} ms to the first byte, {IN_FLIGHT} requests in flight per worker",
            "prices of us-east-1, November 2026; a model, not measured on AWS",
        ),
    )
