"""A cube for appends that fails, or lets others run, at chosen operations."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import override

from pixel_gather.adapters.cube.growing_cube import GrowingZarrCube
from pixel_gather.stores import StoredObject


class KilledError(BaseException):
    """The process ends here."""


@dataclass(frozen=True, slots=True)
class WatchedCube(GrowingZarrCube):
    """Calls a function before and after each operation of the store."""

    before: Callable[[], None] = lambda: None
    after: Callable[[], None] = lambda: None

    @override
    async def read_object(self, key: str) -> StoredObject | None:
        """Read, watched."""
        self.before()
        await asyncio.sleep(0)
        found = await GrowingZarrCube.read_object(self, key)
        self.after()
        return found

    @override
    async def _put(self, key: str, content: bytes, etag: str | None) -> str | None:
        self.before()
        await asyncio.sleep(0)
        was_put = await GrowingZarrCube._put(self, key, content, etag)
        self.after()
        return was_put

    @override
    async def _etag(self, key: str) -> str | None:
        self.before()
        await asyncio.sleep(0)
        etag = await GrowingZarrCube._etag(self, key)
        self.after()
        return etag
