"""The loop in virtual time calls everything in the order in which asyncio's own loop does."""

import asyncio
import random
from contextlib import suppress
from typing import Any, override

import pytest

from support.virtual_time import run_virtually


class _AsynciosLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, whose selector never waits: time passes instead."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._clock_resolution = 1e-9
        selector: Any = self._selector  # type: ignore[attr-defined] # where the loop waits
        select = selector.select

        def select_at_once(timeout: float | None = None) -> Any:
            self._now_s += timeout or 0.0
            return select(0)

        selector.select = select_at_once

    @override
    def time(self) -> float:
        return self._now_s


async def _traced(seed: int) -> list[tuple[int, str, float]]:
    """Return the order of the steps of some tasks that sleep, time out, wait and cancel one another."""
    chance, trace = random.Random(seed), list[tuple[int, str, float]]()  # noqa: S311 # no secret
    loop = asyncio.get_running_loop()
    tasks: list[asyncio.Task[None]] = []

    def step(number: int, name: str) -> None:
        trace.append((number, name, round(loop.time(), 6)))

    async def work(number: int) -> None:
        for _ in range(12):
            kind, pause_s = chance.randrange(6), chance.random()
            step(number, f"begins {kind}")
            if kind == 0:
                await asyncio.sleep(0)
            elif kind == 1:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s - 0.2):
                        await asyncio.sleep(0.5)
            elif kind == 2:
                loop.call_soon(step, number, "soon")
                loop.call_soon(step, number, "never").cancel()
                loop.call_later(pause_s, step, number, "later")
                loop.call_later(pause_s, step, number, "never").cancel()
            elif kind == 3:
                await asyncio.gather(*(asyncio.sleep(pause_s / n) for n in range(1, 4)))
            elif kind == 4:
                await asyncio.shield(asyncio.sleep(pause_s))
            else:
                tasks[chance.randrange(len(tasks))].cancel()
                await asyncio.sleep(pause_s)

    tasks += [asyncio.create_task(work(number)) for number in range(20)]
    await asyncio.gather(*tasks, return_exceptions=True)
    return trace


@pytest.mark.parametrize("seed", range(3))
def test_order_is_that_of_asyncio(seed: int) -> None:
    """Else the simulated interleavings would not be those of the product."""
    with asyncio.Runner(loop_factory=_AsynciosLoop) as runner:
        expected = runner.run(_traced(seed))

    assert run_virtually(_traced(seed)) == expected
    assert len(expected) > 100


def test_tasks_that_wait_for_one_another_are_an_error() -> None:
    """Otherwise a gather that never ends would end no test."""

    async def wait_for_nothing() -> None:
        with suppress(RuntimeError):
            await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="all tasks wait"):
        run_virtually(wait_for_nothing())
