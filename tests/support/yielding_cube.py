"""A cube for appends that lets others run at each of its operations."""

import asyncio
from dataclasses import dataclass
from typing import override

from pixel_gather.adapters.cube.growing_cube import GrowingZarrCube
from pixel_gather.stores import StoredObject


@dataclass(frozen=True, slots=True)
class YieldingCube(GrowingZarrCube):
    """Waits a moment before each operation of the store."""

    @override
    async def read_object(self, key: str) -> StoredObject | None:
        """Read."""
        await asyncio.sleep(0)
        return await GrowingZarrCube.read_object(self, key)

    @override
    async def _put(self, key: str, content: bytes, etag: str | None) -> str | None:
        await asyncio.sleep(0)
        return await GrowingZarrCube._put(self, key, content, etag)

    @override
    async def _etag(self, key: str) -> str | None:
        await asyncio.sleep(0)
        return await GrowingZarrCube._etag(self, key)
