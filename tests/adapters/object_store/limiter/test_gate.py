"""Waiting sources are admitted in order, and no permit is ever lost."""

import asyncio
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from pixel_gather.adapters.object_store.limiter.find_limit import Bounds
from pixel_gather.adapters.object_store.limiter.gate import Gate
from support.virtual_time import run_virtually


def gate_of(n: int) -> Gate:
    """Return a gate with a fixed limit, on the running loop's clock."""
    return Gate(Bounds(start=n, lowest=n, highest=n), clock=asyncio.get_running_loop().time)


def test_gate_lets_in_who_waits_longest() -> None:
    """Sources are admitted in order of arrival, even if one needs more permits than there are."""

    async def order() -> list[int]:
        gate, seen = gate_of(2), list[int]()

        async def one(index: int, weight: int) -> None:
            async with gate.permit(weight):
                seen.append(index)
                await asyncio.sleep(1)

        async with asyncio.TaskGroup() as group:
            for index, weight in enumerate((1, 1, 5, 1, 1)):
                group.create_task(one(index, weight))
        return seen

    assert run_virtually(order()) == [0, 1, 2, 3, 4]


@settings(max_examples=100)
@given(
    n=st.integers(1, 4),
    weights=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    cancelled=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 30)), max_size=12),
)
def test_gate_loses_no_permit(n: int, weights: Sequence[int], cancelled: Sequence[tuple[int, int]]) -> None:
    """Whatever is cancelled, the limit is kept, and all permits are free in the end."""

    async def run() -> None:
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

    run_virtually(run())


def test_gate_keeps_the_turns_when_one_that_waits_is_cancelled() -> None:
    """After a 503, requests continue in order, without the cancelled one."""

    async def run() -> list[int]:
        gate, sent = gate_of(8), list[int]()
        gate.answered(0.01)
        gate.throttled()

        async def send(index: int) -> None:
            await gate.turn()
            sent.append(index)

        tasks = [asyncio.create_task(send(index)) for index in range(4)]
        asyncio.get_running_loop().call_later(0.01, tasks[0].cancel)
        asyncio.get_running_loop().call_later(0.01, tasks[2].cancel)
        await asyncio.gather(*tasks, return_exceptions=True)
        return sent

    assert run_virtually(run()) == [1, 3]


def test_gate_tells_its_limit_and_whether_requests_are_paced() -> None:
    """A gate starts at its bounds' start. The first 503 begins the pacing."""

    async def run() -> tuple[int, bool, bool]:
        gate = Gate(Bounds(start=5, lowest=1, highest=9), clock=asyncio.get_running_loop().time)
        limit, before = gate.limit, gate.paces
        gate.throttled()
        return limit, before, gate.paces

    assert run_virtually(run()) == (5, False, True)
