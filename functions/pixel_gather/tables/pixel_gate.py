"""Bounds how many pixels a ranking holds in memory, as scenes are read at the same time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

MOST_PIXELS: Final = 16_000_000
"""Each takes 8 bytes for every band, mask and value: some 50 to 100 bytes."""


class PixelGate:
    """Lets work wait until its pixels fit. Work that is larger than the gate runs alone."""

    def __init__(self, most: int = MOST_PIXELS) -> None:
        """Start empty."""
        self._most = most
        self._held = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def hold(self, n_pixels: int) -> AsyncIterator[None]:
        """Wait until so many pixels fit, and hold them."""
        n = min(n_pixels, self._most)
        async with self._changed:
            await self._changed.wait_for(lambda: self._held + n <= self._most)
            self._held += n
        try:
            yield
        finally:
            async with self._changed:
                self._held -= n
                self._changed.notify_all()
