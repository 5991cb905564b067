"""Hedged requests: which answer is taken, what errors mean, and that nothing stays in flight."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from pixel_gather.core.model.source import Cost
from pixel_gather.io.store import hedged_gets
from pixel_gather.io.store.fetched import Fetched
from pixel_gather.io.store.hedge_policy import BackEnd, HedgeSettings
from pixel_gather.io.store.hedged_gets import HedgedGets, Leg
from support.in_loop import in_loop, in_virtual_time
from support.virtual_time import run_virtually

LATE_S = 0.03
NEVER_S = 60.0


@pytest.fixture(autouse=True)
def _virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let requests be late by the running loop's clock, so that no machine is too slow."""
    clock = SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time())
    monkeypatch.setattr(hedged_gets, "time", clock)


class RefusedError(Exception):
    """Another request would be refused, too."""


class BrokenError(Exception):
    """Another request may do better."""


@dataclass(kw_only=True)
class Plays:
    """The outcome of one request."""

    name: bytes
    head_s: float = 0.0
    """Time to its first byte, or to its error, in seconds."""

    body_s: float = 0.0
    error: Exception | None = None


@dataclass
class FakeStore:
    """Answers each request as configured, and counts those in flight."""

    plays: Iterator[Plays]
    n_sent: int = 0
    ended: list[bytes] = field(default_factory=list)
    """Names of the requests that have ended in any way."""

    async def send(self, leg: Leg) -> Fetched:
        """Answer with the next configured outcome."""
        self.n_sent += 1
        play = next(self.plays)
        try:
            await leg.waits_for(self._after(play.head_s, play.error))
            leg.begins()
            await leg.waits_for(self._after(play.body_s, None))
        finally:
            self.ended.append(play.name)
        return Fetched(content=memoryview(play.name), etag=None, object_nbytes=1)

    def _after(self, seconds: float, error: Exception | None) -> asyncio.Future[None]:
        def end() -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(None)

        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(seconds, end)
        return future


def gets_of(*, n_known: int = 100, first_byte_timeout_s: float = NEVER_S) -> HedgedGets:
    """Return a client of a store that has given this many fast answers."""
    back_end = BackEnd(HedgeSettings(least_late_s=LATE_S))
    for _ in range(n_known):
        back_end.sent()
        back_end.record_answer(0.001)
    return HedgedGets(
        back_end,
        first_byte_timeout_s=first_byte_timeout_s,
        is_final=lambda error: isinstance(error, RefusedError),
    )


def play(*plays: Plays, gets: HedgedGets | None = None, cost: Cost | None = None) -> tuple[bytes, FakeStore]:
    """Send one request and return which answer it got. Check that nothing stays in flight."""
    store = FakeStore(iter(plays))

    async def run() -> bytes:
        await asyncio.sleep(1)
        try:
            async with asyncio.timeout(5):
                answer = await (gets or gets_of()).get(store.send, cost or Cost())
        finally:
            assert len(store.ended) == store.n_sent
            assert asyncio.all_tasks() == {asyncio.current_task()}
        return bytes(answer.content)

    return run_virtually(run()), store


def test_hedge_wins_over_a_request_that_hangs() -> None:
    """The answer arrives soon after the hedge is sent. Both requests are counted."""
    cost = Cost(requests=1)

    name, store = play(Plays(name=b"first", head_s=NEVER_S), Plays(name=b"hedge"), cost=cost)

    assert name == b"hedge"
    assert store.ended == [b"hedge", b"first"]
    assert (cost.requests, cost.hedges, cost.retries) == (2, 1, 0)


def test_request_wins_over_its_hedge() -> None:
    """A late answer of the first request is taken, and the hedge is cancelled."""
    name, store = play(Plays(name=b"first", head_s=4 * LATE_S), Plays(name=b"hedge", head_s=NEVER_S))

    assert name == b"first"
    assert store.ended == [b"first", b"hedge"]


def test_request_that_is_in_time_is_sent_once() -> None:
    """A request that is not late is sent once."""
    cost = Cost()

    name, store = play(Plays(name=b"first", head_s=LATE_S / 3), cost=cost)

    assert (name, store.n_sent, cost.hedges) == (b"first", 1, 0)


def test_body_that_takes_long_is_no_reason_for_a_hedge() -> None:
    """A long body is not late once its first byte has arrived."""
    name, store = play(Plays(name=b"first", body_s=5 * LATE_S))

    assert (name, store.n_sent) == (b"first", 1)


def test_hedge_wins_while_the_body_of_the_first_is_on_its_way() -> None:
    """The whole answer decides, not the first byte."""
    name, _ = play(
        Plays(name=b"first", head_s=4 * LATE_S, body_s=NEVER_S), Plays(name=b"hedge", head_s=6 * LATE_S)
    )

    assert name == b"hedge"


def test_no_hedge_before_the_store_is_known() -> None:
    """Without answers to compare with, nothing is late."""
    name, store = play(Plays(name=b"first", head_s=5 * LATE_S), gets=gets_of(n_known=10))

    assert (name, store.n_sent) == (b"first", 1)


def test_request_is_hedged_once_other_answers_have_shown_that_it_is_late() -> None:
    """A fresh worker knows nothing when it sends its first requests, all at the same time."""
    gets = gets_of(n_known=0)
    plays = [
        Plays(name=b"hangs", head_s=NEVER_S),
        *(Plays(name=b"well") for _ in range(40)),
        Plays(name=b"hedge"),
    ]
    store = FakeStore(iter(plays))

    async def run() -> list[Fetched]:
        async with asyncio.timeout(5):
            return await asyncio.gather(*(gets.get(store.send, Cost()) for _ in range(41)))

    assert bytes(run_virtually(run())[0].content) == b"hedge"


@in_virtual_time
async def test_hedges_keep_to_their_share() -> None:
    """Of a hundred requests that are all late, at most a twentieth is sent again."""
    gets = gets_of(n_known=20)
    store = FakeStore(iter([Plays(name=b"slow", head_s=8 * LATE_S)] * 200))

    await asyncio.gather(*(gets.get(store.send, Cost()) for _ in range(100)))

    assert 100 < store.n_sent <= 106


@pytest.mark.parametrize("late", ["first", "hedge"])
def test_final_error_of_either_is_the_answer(late: str) -> None:
    """A final error of either request is raised at once."""
    refused, hangs = RefusedError("412"), Plays(name=b"hangs", head_s=NEVER_S)
    told = Plays(name=b"told", head_s=3 * LATE_S, error=refused)

    with pytest.raises(RefusedError, match="412"):
        play(*((told, hangs) if late == "first" else (hangs, told)))


@pytest.mark.parametrize("breaks", ["first", "hedge"])
def test_broken_connection_of_one_waits_for_the_other(breaks: str) -> None:
    """The other request may still succeed."""
    broken = Plays(name=b"broken", head_s=2 * LATE_S, error=BrokenError())
    well = Plays(name=b"well", head_s=5 * LATE_S)

    name, _ = play(*((broken, well) if breaks == "first" else (well, broken)))

    assert name == b"well"


def test_both_broken_is_broken() -> None:
    """When both connections break, the error is raised, and the caller may retry."""
    with pytest.raises(BrokenError):
        play(
            Plays(name=b"first", head_s=2 * LATE_S, error=BrokenError("first")),
            Plays(name=b"hedge", head_s=2 * LATE_S, error=BrokenError("hedge")),
        )


def test_first_byte_that_does_not_come_is_not_waited_for() -> None:
    """The time-out of the first byte holds for a request without a hedge, and for a hedge."""
    hangs = Plays(name=b"hangs", head_s=NEVER_S)

    with pytest.raises(TimeoutError, match="began"):
        play(hangs, gets=gets_of(n_known=0, first_byte_timeout_s=0.1))
    with pytest.raises(TimeoutError, match="began"):
        play(hangs, hangs, gets=gets_of(first_byte_timeout_s=0.1))


@pytest.mark.parametrize("after_s", [LATE_S / 3, 4 * LATE_S])
def test_cancelling_ends_both(after_s: float) -> None:
    """Cancelling works before and after the hedge. The caller's own time-out reaches the caller."""
    store = FakeStore(iter([Plays(name=b"first", head_s=NEVER_S), Plays(name=b"hedge", head_s=NEVER_S)]))

    async def run() -> None:
        try:
            async with asyncio.timeout(after_s):
                await gets_of().get(store.send, Cost())
        finally:
            assert asyncio.all_tasks() == {asyncio.current_task()}

    with pytest.raises(TimeoutError):
        run_virtually(run())

    assert len(store.ended) == store.n_sent


@in_loop  # in virtual time, nothing would pass in a loop that sleeps for no time
async def test_cancelling_at_the_moment_the_hedge_answers_still_cancels() -> None:
    """A task that was cancelled must not go on because an answer came at the same time."""
    store = FakeStore(iter([Plays(name=b"first", head_s=NEVER_S), Plays(name=b"hedge", head_s=2 * LATE_S)]))
    task = asyncio.create_task(gets_of().get(store.send, Cost()))
    while b"hedge" not in store.ended:  # noqa: ASYNC110 # an event would wake this a turn too late
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_requests_on_one_loop_after_another_are_watched() -> None:
    """Requests of several event loops are all checked."""
    gets = gets_of()

    for _ in range(3):
        assert play(Plays(name=b"first", head_s=NEVER_S), Plays(name=b"hedge"), gets=gets)[0] == b"hedge"


@in_virtual_time
async def test_a_stopped_request_waits_for_nothing_more() -> None:
    """It may have been stopped between two futures: the next one is cancelled at once."""
    leg, futures = Leg(), [asyncio.get_running_loop().create_future() for _ in range(2)]
    leg.waits_for(futures[0])
    before = futures[0].cancelled()
    leg.stop()
    leg.waits_for(futures[1])
    assert (before, all(each.cancelled() for each in futures)) == (False, True)


def test_a_request_that_was_given_up_counts_with_the_time_it_was_waited_for() -> None:
    """Else a store that answers every other request only would seem to be quick."""
    gets = gets_of()
    play(Plays(name=b"first", head_s=NEVER_S), Plays(name=b"hedge"), gets=gets)
    hedge_s, first_s = list(gets.back_end._recent)[-2:]
    assert hedge_s < LATE_S <= first_s < 2 * LATE_S

    gets = gets_of()
    play(
        Plays(name=b"first", head_s=2 * LATE_S, body_s=NEVER_S),
        Plays(name=b"h", head_s=4 * LATE_S),
        gets=gets,
    )
    assert len(gets.back_end._recent) == 102
    assert gets.back_end._recent[-1] == pytest.approx(2 * LATE_S)


@in_virtual_time
async def test_requests_after_a_pause_are_watched_again() -> None:
    """The timer ends when nothing is in flight, and begins with the next request."""
    gets = gets_of()
    store = FakeStore(iter([Plays(name=b"a"), Plays(name=b"first", head_s=NEVER_S), Plays(name=b"hedge")]))

    async with asyncio.timeout(5):
        names = [bytes((await gets.get(store.send, Cost())).content)]
        while gets._loop is not None:  # noqa: ASYNC110 # the timer has no event
            await asyncio.sleep(0.01)
        names.append(bytes((await gets.get(store.send, Cost())).content))
    assert names == [b"a", b"hedge"]
