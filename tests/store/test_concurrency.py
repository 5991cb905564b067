"""Adaptive limits compared with fixed ones, on back ends that are simulated in virtual time."""

import asyncio
import os
import resource
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from pixel_gather.io.store.concurrency import MOST_IN_FLIGHT, AdaptiveLimiter, most_in_flight
from pixel_gather.io.store.limiter.adapt_concurrency import MOST_NEAR
from support.in_loop import in_virtual_time
from support.simulated_back_ends import ROOT, BackEnd, OverloadedStore, QueueingStore, Store, gather_from
from support.virtual_time import run_virtually

FIXED = (1, 2, 4, 8, 16, 32, 64, 96, 128)
N_SOURCES = 1278


@dataclass(frozen=True)
class Case:
    """A back end, and the share of the best fixed limit's throughput that must be reached."""

    id: str
    make: Callable[[], BackEnd]
    share: float = 0.95
    n_sources: int = N_SOURCES
    fixed: tuple[int, ...] = FIXED


FAR = (*FIXED, 192, MOST_IN_FLIGHT)

CASES = (
    Case("0 ms", lambda: Store(0.0005, slow_share=0.01)),
    Case("15 ms", lambda: Store(0.015, slow_share=0.01)),
    Case("30 ms", lambda: Store(0.03, slow_share=0.01)),
    Case("100 ms", lambda: Store(0.1, slow_share=0.01), n_sources=5000, fixed=FAR),
    Case("200 ms", lambda: Store(0.2, slow_share=0.01), share=0.85, n_sources=5000, fixed=FAR),
    Case("few servers", lambda: QueueingStore(6, 0.1)),
    Case("20 servers", lambda: QueueingStore(20, 0.05)),
    Case("100 servers", lambda: QueueingStore(100, 0.05), share=0.9, n_sources=5000),
    Case("no end of counters", lambda: Store(0.03, n_cores=1000), share=0.9, n_sources=5000),
    Case("far, no end", lambda: Store(0.1, n_cores=1000), share=0.85, n_sources=5000, fixed=FAR),
    Case("long run, 15 ms", lambda: Store(0.015, slow_share=0.01), n_sources=8000),
    Case("long run, 20 servers", lambda: QueueingStore(20, 0.05), n_sources=8000),
)


def adaptive(**changes: Any) -> AdaptiveLimiter:
    """Return a limiter on the running loop's clock, in a process that may open many files."""
    return AdaptiveLimiter(clock=asyncio.get_running_loop().time, **{"most": MOST_IN_FLIGHT, **changes})


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@in_virtual_time
async def test_adaptive_limiter_come_near_the_best_fixed_number(case: Case) -> None:
    """The throughput counts from the first source on, so the growth of the limit costs, too."""

    async def pace(n_sources: int, **changes: int) -> float:
        return await gather_from(case.make(), adaptive(**changes), n_sources=n_sources)

    tried = {n: await pace(N_SOURCES, fixed=n) for n in case.fixed}
    found = await pace(case.n_sources)
    best = await pace(case.n_sources, fixed=max(tried, key=tried.__getitem__))

    assert found >= case.share * best


@pytest.mark.long
@pytest.mark.parametrize("shares", [{"missing_share": 0.05}, {"missing_share": 0.3}, {"known_share": 0.05}])
@in_virtual_time
async def test_adaptive_limiter_are_not_led_by_quick_answers_that_are_no_measure(
    shares: dict[str, Any],
) -> None:
    """Sources that are missing, or whose header is known, take half as long and must not set the limit."""

    def far() -> Store:
        return Store(0.03, n_cores=1000, slow_share=0.01, spread=0.5, **shares)

    most = await gather_from(far(), adaptive(fixed=MOST_NEAR), n_sources=3000)
    found = await gather_from(far(), adaptive(), n_sources=3000)

    assert found >= 0.9 * most


@pytest.mark.long
def test_adaptive_limiter_hold_at_the_knee() -> None:
    """A back end that serves 20 requests at a time gets little more than 20. More would only queue."""

    async def limit_after(n_sources: int) -> int:
        limiter = adaptive()
        await gather_from(QueueingStore(20, 0.05), limiter, n_sources=n_sources)
        return limiter.limit(ROOT)

    limits = [run_virtually(limit_after(n)) for n in (6000, 9000, 12_000)]

    assert all(18 <= limit <= 40 for limit in limits), limits


@pytest.mark.long
@pytest.mark.parametrize(("ttfb_s", "most"), [(0.03, 128), (0.1, MOST_IN_FLIGHT)])
@in_virtual_time
async def test_adaptive_limiter_open_more_connections_only_to_distant_stores(
    ttfb_s: float, most: int
) -> None:
    """A near store would gain nothing from them, even if it could answer any number."""
    limiter = adaptive()
    limits = []
    for _ in range(20):
        await gather_from(Store(ttfb_s, n_cores=1000), limiter, n_sources=1000)
        limits.append(limiter.limit(ROOT))
    assert max(limits) == most


@pytest.mark.long
@in_virtual_time
async def test_adaptive_limiter_back_off_where_latency_rises_and_throughput_falls() -> None:
    """A store that slows down under load gets fewer requests."""
    limiter, store = adaptive(), OverloadedStore(20, 0.05)
    await gather_from(store, limiter, n_sources=4000)
    pace = await gather_from(store, limiter, n_sources=2000)
    limit, best = (
        limiter.limit(ROOT),
        await gather_from(OverloadedStore(20, 0.05), adaptive(fixed=20), n_sources=2000),
    )

    assert limit <= 40
    assert pace >= 0.85 * best


@in_virtual_time
async def test_adaptive_limiter_remember_what_they_found() -> None:
    """The second shard of a warm worker starts with the limit that the first one found."""
    limiter, store = adaptive(), Store(0.03, n_cores=1000)
    await gather_from(store, limiter, n_sources=N_SOURCES)
    cold = await gather_from(store, adaptive(), n_sources=128)
    warm = await gather_from(store, limiter, n_sources=128)

    assert warm > 1.5 * cold


@pytest.mark.long
@in_virtual_time
async def test_adaptive_limiter_climb_again_when_a_back_end_gets_faster() -> None:
    """The limit grows again when the back end gets faster."""
    limiter = adaptive()
    await gather_from(QueueingStore(6, 0.1), limiter, n_sources=3000)
    assert limiter.limit(ROOT) <= 32
    await gather_from(QueueingStore(100, 0.1), limiter, n_sources=6000)
    assert limiter.limit(ROOT) >= 64


@pytest.mark.long
@pytest.mark.parametrize("max_rate", [50, 100, 200, 400, 800])
@pytest.mark.parametrize("ttfb_s", [0.0005, 0.015, 0.03])
@in_virtual_time
async def test_adaptive_limiter_waste_little_on_a_store_that_throttles(
    max_rate: float, ttfb_s: float
) -> None:
    """No source fails, less than 3 % of the requests are refused, and most of what is granted is used."""
    store = Store(ttfb_s, max_rate=max_rate)
    pace = await gather_from(store, adaptive(), n_sources=N_SOURCES)

    assert store.n_failed == 0
    assert store.n_refused < 0.03 * store.n_requests
    assert 2 * pace > 0.8 * max_rate


@pytest.mark.long
@pytest.mark.parametrize(("refused_share", "least"), [(0.003, 0.5), (0.014, 0.4), (0.03, 0.25), (0.1, 0.07)])
def test_adaptive_limiter_keep_their_pace_at_a_store_that_refuses_at_every_rate(
    refused_share: float, least: float
) -> None:
    """No source fails. Sending less would not lower the share of refused requests."""

    async def run(share: float) -> tuple[Store, float]:
        store = Store(0.015, refused_share=share)
        return store, await gather_from(store, adaptive(), n_sources=N_SOURCES)

    store, pace = run_virtually(run(refused_share))
    _, calm_pace = run_virtually(run(0.0))

    assert store.n_failed == 0
    assert pace > least * calm_pace


@in_virtual_time
async def test_adaptive_limiter_share_a_store_that_throttles() -> None:
    """Workers do not know of one another. They use most of what the store grants, and no source fails."""
    granted_per_s, n_workers, n_sources = 200, 10, 150

    stores = [Store(0.015, max_rate=granted_per_s, seed=seed) for seed in range(n_workers)]
    for each in stores:
        each._throttle = stores[0]._throttle
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await asyncio.gather(*(gather_from(each, adaptive(), n_sources=n_sources) for each in stores))
    took_s = loop.time() - began_s

    assert sum(each.n_failed for each in stores) == 0
    assert 2 * n_workers * n_sources / took_s > 0.33 * granted_per_s


@pytest.mark.long
@in_virtual_time
async def test_adaptive_limiter_remember_what_a_store_grants() -> None:
    """In the second gather, a store that throttles refuses almost no request."""
    limiter = adaptive()
    await gather_from(Store(0.015, max_rate=200), limiter, n_sources=N_SOURCES)
    again = Store(0.015, max_rate=200)
    await gather_from(again, limiter, n_sources=N_SOURCES)

    assert again.n_refused < 0.015 * again.n_requests


def test_adaptive_limiter_send_at_once_while_nobody_throttles() -> None:
    """Without throttling a request is sent without a wait, and without a switch to other tasks."""
    limiter = AdaptiveLimiter()
    limiter.record_answer(ROOT, first_byte_s=0.01)

    with pytest.raises(StopIteration):
        limiter.turn(ROOT).send(None)


@in_virtual_time
async def test_adaptive_limiter_tell_back_ends_apart() -> None:
    """A back end that throttles does not slow down the others."""
    limiter = adaptive()
    limiter.record_throttle("s3://slow")
    await limiter.turn("s3://fast")
    assert asyncio.get_running_loop().time() == 0
    await limiter.turn("s3://slow")
    assert asyncio.get_running_loop().time() > 0
    slow, fast, local = limiter.limit("s3://slow"), limiter.limit("s3://fast"), limiter.limit("file://")

    assert slow < fast
    assert local == min(16 * (os.process_cpu_count() or 1), MOST_NEAR)


@in_virtual_time
async def test_adaptive_limiter_never_exceed_what_the_deployment_allows() -> None:
    """``most`` holds for the start, too."""
    limiter = adaptive(most=16)
    started = limiter.limit(ROOT)
    await gather_from(Store(0.03, n_cores=1000), limiter, n_sources=1000)
    assert (started, limiter.limit(ROOT)) == (16, 16)


@in_virtual_time
async def test_adaptive_limiter_can_be_a_fixed_number() -> None:
    """A fixed limit never moves, even if it is too high."""
    limiter = adaptive(fixed=300)
    await gather_from(Store(0.001, max_rate=400), limiter, n_sources=1000)
    assert limiter.limit(ROOT) == 300 > MOST_IN_FLIGHT


async def most_held(limiter: AdaptiveLimiter, hrefs: Iterable[str], weight: int) -> int:
    """Return how many sources at most were read at a time."""
    held = most = 0

    async def one(href: str) -> None:
        nonlocal held, most
        async with limiter.permit(href, weight=weight):
            held += 1
            most = max(most, held)
            await asyncio.sleep(1)
            held -= 1

    async with asyncio.TaskGroup() as group:
        for href in hrefs:
            group.create_task(one(href))
    return most


@in_virtual_time
async def test_adaptive_limiter_count_requests_in_flight() -> None:
    """A source counts by its concurrent requests, 8 at most. A fixed limit counts sources."""
    hrefs = [f"{ROOT}/k"] * 200
    assert [await most_held(adaptive(most=32), hrefs, weight) for weight in (1, 4, 100)] + [
        await most_held(adaptive(fixed=32), hrefs, 4)
    ] == [32, 8, 4, 32]


@pytest.mark.long
@in_virtual_time
async def test_adaptive_limiter_hold_connections_to_many_hosts_down() -> None:
    """The number of connections is limited over all hosts. Local files need none."""
    many = [f"https://host{n % 100}/{n}.tif" for n in range(2000)]
    assert [
        weight * await most_held(adaptive(most=most), many, weight)
        for weight in (1, 4)
        for most in (16, 128, MOST_IN_FLIGHT)
    ] == [192, 192, 384] * 2


@pytest.mark.parametrize(
    ("open_files", "most"), [(256, 128), (300, 150), (1024, 256), (resource.RLIM_INFINITY, 256), (6, 4)]
)
def test_most_in_flight_leaves_half_of_the_open_files(open_files: int, most: int) -> None:
    """One back end holds at most half of them, so that there are some for others and for the cube."""
    assert most_in_flight(open_files=open_files) == most


def test_adaptive_limiter_ask_how_many_files_this_process_may_open() -> None:
    """It does so where the caller gives no number."""
    assert AdaptiveLimiter().most == most_in_flight(open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0])


@in_virtual_time
async def test_adaptive_limiter_let_go_of_what_was_cancelled() -> None:
    """A cancelled source releases its permits, whether it waited for its back end or for all."""
    limiter = adaptive()

    async def one(href: str) -> None:
        async with limiter.permit(href, weight=1):
            await asyncio.sleep(1)

    tasks = [asyncio.create_task(one(f"https://host{n % 20}/{n}")) for n in range(2000)]
    await asyncio.sleep(0.5)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    begun = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as group:
        for n in range(MOST_IN_FLIGHT * 3 // 2):
            group.create_task(one(f"https://host{n % 20}/{n}"))
    assert round(asyncio.get_running_loop().time() - begun) == 1
