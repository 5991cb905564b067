"""Waiting sources are admitted in order, and no permit is ever lost."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pixel_gather.io.store.limiter.adapt_concurrency import Bounds
from pixel_gather.io.store.limiter.gate import Gate
from support.in_loop import in_virtual_time
from support.virtual_time import run_virtually


def gate_of(n: int) -> Gate:
    """Return a gate with a fixed limit, on the running loop's clock."""
    return Gate(Bounds(start=n, lowest=n, highest=n), clock=asyncio.get_running_loop().time)


@in_virtual_time
async def test_gate_lets_in_who_waits_longest() -> None:
    """Sources are admitted in order of arrival, even if one needs more permits than there are."""
    gate, seen = gate_of(2), list[int]()

    async def one(index: int, weight: int) -> None:
        async with gate.permit(weight):
            seen.append(index)
            await asyncio.sleep(1)

    async with asyncio.TaskGroup() as group:
        for index, weight in enumerate((1, 1, 5, 1, 1)):
            group.create_task(one(index, weight))
    assert seen == [0, 1, 2, 3, 4]


@settings(max_examples=100)
@given(
    n=st.integers(1, 4),
    weights=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    cancelled=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 30)), max_size=12),
)
@in_virtual_time
async def test_gate_loses_no_permit(
    n: int, weights: Sequence[int], cancelled: Sequence[tuple[int, int]]
) -> None:
    """Whatever is cancelled, the limit is kept, and all permits are free in the end."""
    gate, held = gate_of(n), 0

    async def one(weight: int) -> None:
        nonlocal held
        async with gate.permit(weight):
            assert held < n
            held += weight
            try:
                await asyncio.sleep(1)
            finally:
                held -= weight

    tasks = [asyncio.create_task(one(weight)) for weight in weights]
    for index, tenths in sorted(cancelled, key=lambda each: each[1]):
        asyncio.get_running_loop().call_later(tenths / 10, tasks[index % len(tasks)].cancel)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert not [each for each in results if isinstance(each, Exception)]
    async with asyncio.timeout(0.5), asyncio.TaskGroup() as group:
        for _ in range(n):
            group.create_task(gate.permit(1).__aenter__())


@in_virtual_time
async def test_gate_keeps_the_turns_when_one_that_waits_is_cancelled() -> None:
    """After a 503, requests continue in order, without the cancelled one."""
    gate, sent = gate_of(8), list[int]()
    gate.record_answer(0.01)
    gate.record_throttle()

    async def send(index: int) -> None:
        await gate.turn()
        sent.append(index)

    tasks = [asyncio.create_task(send(index)) for index in range(4)]
    asyncio.get_running_loop().call_later(0.01, tasks[0].cancel)
    asyncio.get_running_loop().call_later(0.01, tasks[2].cancel)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert sent == [1, 3]


@in_virtual_time
async def test_gate_tells_its_limit_and_whether_requests_are_paced() -> None:
    """A gate starts at its bounds' start. The first 503 begins the pacing."""
    gate = Gate(Bounds(start=5, lowest=1, highest=9), clock=asyncio.get_running_loop().time)
    limit, before = gate.limit, gate.paces
    gate.record_throttle()
    assert (limit, before, gate.paces) == (5, False, True)


RANGE = Bounds(start=4, lowest=1, highest=64)


async def read_all(gate: Gate, n: int, *, took_s: float = 0.1, were_read: bool = True) -> None:
    """Let sources through a gate, all at once."""

    async def one() -> None:
        async with gate.permit(1) as held:
            await asyncio.sleep(took_s)
            if were_read:
                held.record_read(n_requests=2)

    await asyncio.gather(*(one() for _ in range(n)))


@in_virtual_time
async def test_gate_opens_for_sources_that_were_read_as_quickly_as_ever() -> None:
    """Failures do not open it, nor do sources that take longer and longer."""
    clock = asyncio.get_running_loop().time
    quick, failed, slow = (Gate(RANGE, clock=clock) for _ in range(3))
    await read_all(quick, 400)
    await read_all(failed, 400, were_read=False)
    for n in range(12):
        await read_all(slow, 9, took_s=0.1 * 2**n)

    assert (quick.limit, failed.limit) == (64, 4)
    assert slow.limit < 16


@in_virtual_time
async def test_gate_admits_those_that_wait_as_soon_as_an_answer_opens_it() -> None:
    """An answer opens it for one more, if somebody waits for it."""
    gate, seen = Gate(RANGE, clock=asyncio.get_running_loop().time), []
    n_in = 0

    async def one() -> None:
        nonlocal n_in
        async with gate.permit(1):
            n_in += 1
            await asyncio.sleep(1)

    gate.record_answer(0.01)
    tasks = [asyncio.create_task(one()) for _ in range(6)]
    for _ in range(4):
        await asyncio.sleep(0.01)
        seen.append((gate.limit, n_in))
        gate.record_answer(0.01)
    await asyncio.gather(*tasks)
    assert seen == [(4, 4), (5, 5), (6, 6), (6, 6)]


@in_virtual_time
async def test_gate_does_not_open_for_one_that_has_given_up() -> None:
    """A source that was cancelled while it waited does not wait any more."""
    gate = Gate(RANGE, clock=asyncio.get_running_loop().time)
    first = asyncio.create_task(read_all(gate, 4))
    await asyncio.sleep(0.01)
    other = asyncio.create_task(read_all(gate, 1))
    await asyncio.sleep(0.01)
    other.cancel()
    await asyncio.sleep(0.01)
    gate.record_answer(0.01)
    limit = gate.limit
    await first
    assert (limit, gate.limit) == (4, 4)


@in_virtual_time
async def test_gate_frees_what_was_admitted_and_cancelled_at_once() -> None:
    """The next one is admitted in its place."""
    gate = gate_of(1)
    async with gate.permit(1):
        admitted = asyncio.create_task(gate.permit(1).__aenter__())
        waits = asyncio.create_task(gate.permit(1).__aenter__())
        await asyncio.sleep(0)
    admitted.cancel()
    async with asyncio.timeout(1):
        await waits
    assert admitted.cancelled()


@in_virtual_time
async def test_gate_closes_at_a_503() -> None:
    """The limit falls by 30 %."""
    gate = Gate(Bounds(start=40, lowest=1, highest=64), clock=asyncio.get_running_loop().time)
    gate.record_throttle()
    assert gate.limit == 28


def test_gate_does_not_measure_the_time_between_two_shards() -> None:
    """A sample that began before the pause would have almost no throughput, so a step up would be lost."""

    async def run(pause_s: float) -> int:
        bounds = Bounds(start=32, lowest=4, highest=128, climbs_at_once=False)
        gate = Gate(bounds, clock=asyncio.get_running_loop().time)
        await read_all(gate, 180, took_s=0.2)
        assert gate.limit == 40
        await asyncio.sleep(pause_s)
        await read_all(gate, 300, took_s=0.2)
        return gate.limit

    assert run_virtually(run(0.0)) == run_virtually(run(600.0)) == 50


@in_virtual_time
async def test_gate_sends_requests_at_the_rate() -> None:
    """One after the other, without waiting longer than that."""
    gate = gate_of(8)
    gate.record_throttle()
    gate._rate._stopped_until_s = None
    gate._rate.per_s, gate._rate._credit = 50.0, 0.0
    began_s = asyncio.get_running_loop().time()
    await asyncio.gather(*(gate.turn() for _ in range(20)))
    assert 0.38 <= asyncio.get_running_loop().time() - began_s <= 0.42


@in_virtual_time
async def test_gate_notices_soon_that_the_rate_has_risen() -> None:
    """A request that waits for a slow rate does not wait for all of the pause."""
    gate = gate_of(8)
    gate.record_throttle()
    gate._rate._stopped_until_s = None
    gate._rate.per_s, gate._rate._credit = 0.1, 0.0
    turn = asyncio.create_task(gate.turn())
    await asyncio.sleep(0.05)
    gate._rate.per_s = 1000.0
    await turn
    assert asyncio.get_running_loop().time() <= 0.101


@in_virtual_time
async def test_gate_learns_the_round_trip_from_answers() -> None:
    """Whether somebody waits or not."""
    gate = gate_of(8)
    gate.record_answer(1.0)
    assert gate._rate.round_trip_s > 0.2


@pytest.mark.parametrize("end", ["fails", "is cancelled"])
@in_virtual_time
async def test_gate_begins_a_sample_anew_after_the_last_source(end: str) -> None:
    """Whatever became of that source: the pause after it is no time of the back end."""
    bounds = Bounds(start=1, lowest=1, highest=2, climbs_at_once=False)
    gate = Gate(bounds, clock=asyncio.get_running_loop().time)
    last = gate.permit(1)
    async with gate.permit(1) as held:
        waits = asyncio.create_task(last.__aenter__())
        await asyncio.sleep(1)
        held.record_read(n_requests=2)
    assert gate._climb._sample._began_s == 1
    if end == "fails":
        await waits
        await last.__aexit__()
    else:
        waits.cancel()
        await asyncio.sleep(1)
        await gate.permit(1).__aenter__()
    assert gate._climb._sample._began_s is None
