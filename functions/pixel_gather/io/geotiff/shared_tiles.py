"""Decoded tiles that the reads of one process share, so that windows of one tile decode it once."""

import asyncio
from collections.abc import Iterable
from typing import Any

import numpy as np

from pixel_gather.core.kept_values import KeptValues

type Block = np.ndarray[Any, Any]
type TileKey = tuple[str, str | None, int | None, int, int, int]
"""A tile: href and etag of its file, overview, first byte, byte after the last, and number of rows."""


class SharedTiles:
    """Keeps the tiles that were used last, and tells which ones are being read. Belongs to one event loop.

    Who finds a tile missing claims it, and then puts it or gives it up. Others wait for that meanwhile. Two
    reads may wait for each other's tiles, so a read waits for none before all of its own are on their way.
    """

    def __init__(self, most_nbytes: int) -> None:
        """Hold no tile.

        Tiles that somebody still copies from come on top of ``most_nbytes``.
        """
        self._blocks = KeptValues[TileKey, Block](most_nbytes)
        self._coming: dict[TileKey, asyncio.Future[Block | None]] = {}

    def find(self, key: TileKey) -> Block | None:
        """Return a tile if it is there."""
        return self._blocks.get(key)

    def claim(self, key: TileKey) -> bool:
        """Claim a tile that is not there. Return False if somebody else has claimed it."""
        if key in self._coming:
            return False
        self._coming[key] = asyncio.get_running_loop().create_future()
        return True

    async def wait(self, key: TileKey) -> Block | None:
        """Wait until a claimed tile is put. Return None if it was given up."""
        coming = self._coming.get(key)
        return self.find(key) if coming is None else await asyncio.shield(coming)

    def put(self, key: TileKey, block: Block) -> None:
        """Hand a claimed tile to all who wait, and keep it. Nobody writes to it any more."""
        self._coming.pop(key).set_result(block)
        self._blocks.put(key, block, block.nbytes)

    def give_up(self, keys: Iterable[TileKey]) -> None:
        """Let others try the tiles that were claimed and not put."""
        for key in keys:
            if key in self._coming:
                self._coming.pop(key).set_result(None)
