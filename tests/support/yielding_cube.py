"""A cube for appends that lets others run at each of its operations."""

import asyncio
from typing import override

from pixel_gather.core.stores import Content, StoredObject
from pixel_gather.io.cube.zarr_cube import ZarrCube


class YieldingCube(ZarrCube, frozen=True):
    """Waits a moment before each operation of the store."""

    @override
    async def read_object(self, key: str) -> StoredObject | None:
        """Read."""
        await asyncio.sleep(0)
        return await ZarrCube.read_object(self, key)

    @override
    async def put_object(self, key: str, content: Content, *, replaces: str | None) -> str | None:
        """Put."""
        await asyncio.sleep(0)
        return await ZarrCube.put_object(self, key, content, replaces=replaces)

    @override
    async def etag_of(self, key: str) -> str | None:
        """Look."""
        await asyncio.sleep(0)
        return await ZarrCube.etag_of(self, key)
