"""Work on one source after another, several at a time, and its results in the order of the sources."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

from pixel_gather.model.source import Source


async def in_order[T](
    sources: Iterable[Source], work: Callable[[Source], Awaitable[T]], *, most_ahead: int
) -> AsyncGenerator[T]:
    """Yield what ``work`` makes of every source; whatever is under way when it is closed is cancelled.

    Args:
        sources: Taken as they are needed, so that a long list is never in memory.
        work: Bounds by itself how much of it is done at one time.
        most_ahead: Sources taken before the first of them has been yielded.
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
