"""Workers share the budget of a host in virtual time: none is refused, and little is left unused."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from pixel_gather.core.errors import StoreError
from pixel_gather.io.store.limiter.govern_host import Budget, HostGovernor
from support.in_loop import in_virtual_time
from support.simulated_workers import SimulatedLedger, SimulatedWorker, ThrottledHost, now_s, worker_of
from support.virtual_time import run_virtually

PER_S = 200.0
ALL_S = 90.0

type Play = Callable[["Stage"], Awaitable[None]]


class Stage:
    """A ledger, a host, and workers."""

    def __init__(self, seed: int, *, n: int, per_s: float = PER_S, n_expected: int = 1) -> None:
        random.seed(seed)
        self.chance = random.Random(seed)  # noqa: S311 # not for secrets
        self.ledger = SimulatedLedger(self.chance)
        self.host = ThrottledHost(per_s)
        budget = Budget(per_s=per_s, n_workers=n_expected)
        self.workers = [
            worker_of(self.ledger, self.host, budget, seed=1000 * seed + each, skew_s=3600.0)
            for each in range(n)
        ]

    def start(
        self, worker: SimulatedWorker, *, at_s: float = 0.0, stop_s: float = ALL_S
    ) -> asyncio.Task[None]:
        """Let a worker work."""
        return asyncio.ensure_future(worker.work(start_s=at_s, stop_s=stop_s))


def played(stage: Callable[[], Stage], play: Play) -> Stage:
    """Return the stage when all is over."""

    async def go() -> Stage:
        made = stage()
        await play(made)
        return made

    return run_virtually(go())


def check_used(stage: Stage, *spans: tuple[float, float]) -> None:
    """Assert that the host refuses almost nothing, and that its budget is used in spans of time."""
    assert stage.host.refused_share <= 0.02
    for start_s, stop_s in spans:
        assert stage.host.used(start_s, stop_s) >= 0.95, start_s


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_expected", [1, 50])
def test_fifty_workers_use_the_budget_and_are_not_refused(seed: int, n_expected: int) -> None:
    """Their clocks differ by up to two hours. The first seconds count, in which they find one another."""

    async def all_at_once(stage: Stage) -> None:
        await asyncio.gather(*(stage.start(each, at_s=stage.chance.random() / 2) for each in stage.workers))

    stage = played(lambda: Stage(seed, n=50, n_expected=n_expected), all_at_once)

    check_used(stage, (0, ALL_S))
    sent = [each.n_sent for each in stage.workers]
    assert max(sent) < 4 * min(sent)
    assert stage.ledger.counts["replace"] < 10 * ALL_S


@pytest.mark.long
def test_second_gather_gets_its_half() -> None:
    """The first one gives it back as its leases end."""

    async def one_after_the_other(stage: Stage) -> None:
        late = [stage.start(each, at_s=30 + stage.chance.random()) for each in stage.workers[10:]]
        await asyncio.gather(*(stage.start(each) for each in stage.workers[:10]), *late)

    stage = played(lambda: Stage(1, n=20, n_expected=10), one_after_the_other)

    check_used(stage, (0, ALL_S))
    first, second = (sum(each.n_sent for each in some) for some in (stage.workers[:10], stage.workers[10:]))
    assert second > 0.4 * PER_S * 0.5 * (ALL_S - 30)
    assert first > second


@pytest.mark.long
def test_share_of_workers_that_died_is_used_by_the_others() -> None:
    """Their leases end. Nobody has to notice that they are gone."""

    async def some_die(stage: Stage) -> None:
        working = [stage.start(each, stop_s=120.0) for each in stage.workers]
        await asyncio.sleep(20)
        for task in working[:10]:
            task.cancel()
        await asyncio.gather(*working[10:])

    stage = played(lambda: Stage(2, n=20, n_expected=20), some_die)

    check_used(stage, (50, 120))


@pytest.mark.long
@pytest.mark.parametrize("content", [b"", b"not JSON", b"{}"])
def test_ledger_that_is_gone_or_spoilt_changes_little(content: bytes) -> None:
    """Those who were at work remember how many they were, and take no more than their share."""

    async def somebody_spoils_it(stage: Stage) -> None:
        working = [stage.start(each) for each in stage.workers]
        await asyncio.sleep(40)
        stage.ledger.content = content
        stage.ledger.version += 1
        stage.ledger.is_there = bool(content)
        await asyncio.gather(*working)

    stage = played(lambda: Stage(3, n=20, n_expected=20), somebody_spoils_it)

    check_used(stage, (0, ALL_S))


@pytest.mark.long
def test_store_that_is_out_of_reach_for_some_seconds_does_no_harm() -> None:
    """A lease that runs is used meanwhile."""

    async def out_of_reach(stage: Stage) -> None:
        working = [stage.start(each) for each in stage.workers]
        await asyncio.sleep(30)
        stage.ledger.is_out_of_reach = True
        await asyncio.sleep(10)
        stage.ledger.is_out_of_reach = False
        await asyncio.gather(*working)

    stage = played(lambda: Stage(4, n=20, n_expected=20), out_of_reach)

    check_used(stage, (45, ALL_S))


@in_virtual_time
async def test_nothing_is_sent_without_a_lease() -> None:
    """After a minute the store's error is raised, so the shard is tried again."""
    ledger = SimulatedLedger(random.Random(1), is_out_of_reach=True)  # noqa: S311 # not for secrets
    governor = HostGovernor(ledger, Budget(per_s=PER_S), clock=now_s)
    with pytest.raises(StoreError, match="out of reach"):
        await governor.turn()
    assert 60 <= now_s() <= 70


def test_worker_that_has_nothing_to_ask_gives_its_share_back() -> None:
    """It renews nothing while it sends nothing, and takes its share again later."""

    async def one_rests(stage: Stage) -> None:
        resting, busy = stage.workers
        await asyncio.gather(
            stage.start(busy), stage.start(resting, stop_s=10.0), stage.start(resting, at_s=60.0)
        )

    stage = played(lambda: Stage(5, n=2, per_s=100.0), one_rests)

    check_used(stage, (20, 60), (65, ALL_S))


def test_one_worker_keeps_the_pace_of_a_slow_host() -> None:
    """Five requests a second come evenly: never more than six in a second, by the time on their way."""

    async def alone(stage: Stage) -> None:
        await stage.start(stage.workers[0])

    stage = played(lambda: Stage(6, n=1, per_s=5.0), alone)

    asked = sorted(stage.host.granted + stage.host.refused)
    assert all(later - sooner > 0.98 for sooner, later in zip(asked, asked[6:], strict=False))
    assert len(asked) >= 0.95 * 5 * ALL_S
