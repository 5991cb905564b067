"""Several sources at a time, with results in the order of the sources."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

import pytest

from pixel_gather.core.in_order import begun, in_order
from pixel_gather.core.model.source import Source
from support.in_loop import in_loop


@pytest.mark.parametrize("most_ahead", [1, 3, 10, 20])
@in_loop
async def test_results_come_in_order_and_few_sources_are_taken_ahead(most_ahead: int) -> None:
    """The later a source, the sooner it is done. The list is only read as far as it is needed."""
    taken: list[str] = []

    def sources() -> Iterator[Source]:
        for n in range(10):
            taken.append(str(n))
            yield Source(href=str(n))

    async def work(source: Source) -> str:
        await asyncio.sleep((10 - int(source.href)) / 1000)
        return source.href

    found, ahead = [], []
    async for each in in_order(sources(), work, most_ahead=most_ahead):
        found.append(each)
        ahead.append(len(taken) - len(found) + 1)

    assert found == [str(n) for n in range(10)]
    assert max(ahead) == min(most_ahead, 10)


def test_closing_cancels_what_is_under_way() -> None:
    """On return nothing of it runs any more, also where it takes a moment to clean up."""
    ended: list[str] = []

    async def work(source: Source) -> str:
        if source.href == "0":
            return "0"
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.001)
            ended.append(source.href)
        return source.href

    async def run() -> None:
        async with aclosing(in_order((Source(href=str(n)) for n in range(9)), work, most_ahead=4)) as results:
            assert await anext(results) == "0"
            await asyncio.sleep(0)  # so that the others have begun

    asyncio.run(asyncio.wait_for(run(), timeout=30))

    assert ended == ["1", "2", "3"]


@in_loop
async def test_an_error_ends_the_others() -> None:
    """It is raised where the result would have come."""

    async def work(source: Source) -> str:
        if source.href == "1":
            raise ValueError("broken")
        return source.href

    results = in_order((Source(href=str(n)) for n in range(5)), work, most_ahead=2)
    assert await anext(results) == "0"
    with pytest.raises(ValueError, match="broken"):
        await anext(results)


def test_what_has_begun_makes_its_first_item_before_anybody_asks() -> None:
    """The others are made when they are asked for. It is closed at the end, and an error comes when asked."""
    made: list[str] = []

    async def items(n: int) -> AsyncGenerator[int]:
        try:
            for number in range(n):
                made.append(str(number))
                yield number
            raise ValueError("no more")
        finally:
            made.append("closed")

    async def run(n: int, *, asks: bool) -> list[int]:
        async with begun(items(n)) as numbers:
            await asyncio.sleep(0)
            made.append("asked")
            return [each async for each in numbers] if asks else []

    assert asyncio.run(run(2, asks=False)) == []
    assert made == ["0", "asked", "closed"]
    made.clear()
    with pytest.raises(ValueError, match="no more"):
        asyncio.run(run(2, asks=True))
    assert made == ["0", "asked", "1", "closed"]
    with pytest.raises(ValueError, match="no more"):
        asyncio.run(run(0, asks=True))
    assert asyncio.run(run(0, asks=False)) == []
