"""The bound on pixels in memory."""

import asyncio

import pytest

from pixel_gather.tables.pixel_gate import PixelGate
from support.in_loop import in_loop


@pytest.mark.parametrize(("sizes", "most_at_once"), [((4, 4, 4), 2), ((100, 4), 1), ((1,) * 20, 10)])
@in_loop
async def test_gate_holds_no_more_pixels_than_it_may(sizes: tuple[int, ...], most_at_once: int) -> None:
    """Work that is too large runs alone; all of it runs."""
    gate = PixelGate(10)
    held: list[int] = []
    most = done = 0

    async def work(n: int) -> None:
        nonlocal most, done
        async with gate.hold(n):
            held.append(n)
            most = max(most, len(held))
            await asyncio.sleep(0.001)
            held.remove(n)
            done += 1

    await asyncio.gather(*(work(n) for n in sizes))

    assert done == len(sizes)
    assert most == most_at_once
