"""Makes runs for tests of figures: many workers, each taking one source after another."""

import heapq

import numpy as np

from pixel_gather.core.results.timed_run import Run
from pixel_gather.core.results.timings import Timings


def run_of(
    *,
    n: int = 200,
    concurrency: int = 8,
    name: str = "",
    engine: str = "fast",
    open_s: float = 0.03,
    is_even: bool = False,
) -> Run:
    """Return a run whose times vary, with some late answers, or are all equal."""
    rng = np.random.default_rng(n + concurrency)
    spread = np.ones((2, n)) if is_even else rng.lognormal(0, 0.4, (2, n))
    opens, reads = open_s * spread[0], 0.02 * spread[1]
    if not is_even:
        reads[50::100] += 0.5
    start = begun_by_workers(opens + reads, n_workers=concurrency)
    timings = Timings(
        start_s=start,
        end_s=start + opens + reads,
        open_s=opens,
        read_s=reads,
        nbytes=np.full(n, 400_000) if is_even else rng.integers(240_000, 468_000, n),
        shard=np.arange(n) // 64,
    )
    return run_with(timings, concurrency, name=name, engine=engine)


def run_with(timings: Timings, concurrency: int, *, name: str = "", engine: str = "fast") -> Run:
    """Return a run of these times that read all its sources."""
    return Run(
        name=name or f"{engine}, {concurrency}",
        engine=engine,
        concurrency=concurrency,
        digest="",
        window="tile 7_7",
        shape=(512, 512),
        dtype="uint16",
        bands=(1,),
        n_sources=len(timings.start_s),
        n_failed=0,
        timings=timings,
    )


def begun_by_workers(durations_s: np.ndarray, *, n_workers: int) -> np.ndarray:
    """Return when each piece of work begins, if the next free worker takes it."""
    free = [0.0] * n_workers
    starts = np.empty(len(durations_s))
    for index, duration_s in enumerate(durations_s):
        starts[index] = heapq.heappop(free)
        heapq.heappush(free, starts[index] + duration_s)
    return starts
