"""Process several things at a time, such as sources, and yield the results in their order."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager


async def in_order[S, T](
    sources: Iterable[S], work: Callable[[S], Awaitable[T]], *, most_ahead: int
) -> AsyncGenerator[T]:
    """Yield the result of ``work`` for every source. Closing the generator cancels unfinished work.

    Args:
        sources: Consumed when needed, so a long list is never in memory.
        work: Limits its own concurrency.
        most_ahead: Most sources started before the first of them has been yielded.
    """
    under_way: deque[asyncio.Future[T]] = deque()
    try:
        for source in sources:
            under_way.append(asyncio.ensure_future(work(source)))
            if len(under_way) >= most_ahead:
                yield await under_way.popleft()
        while under_way:
            yield await under_way.popleft()
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


@asynccontextmanager
async def begun[T](items: AsyncGenerator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """Let a generator make its first item now, before anybody asks for it. Close it at the end."""
    first = asyncio.ensure_future(anext(items))

    async def all_items() -> AsyncGenerator[T]:
        try:
            yield await first
        except StopAsyncIteration:
            return
        async for item in items:
            yield item

    try:
        yield all_items()
    finally:
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await items.aclose()
