"""A fixed number of sources at one time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FixedSlots:
    """Implements `pixel_gather.ports.Slots`; whoever waits longest is served first."""

    def __init__(self, n: int) -> None:
        self._semaphore = asyncio.Semaphore(n)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a free place and hold it."""
        async with self._semaphore:
            yield
