"""Ends reading in time for what was read to be stored, before Lambda ends the worker.

Without it one source that dawdles would cost its whole shard, at every try.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pixel_gather.errors import SourceError
from pixel_gather.ports import OpenedSource, SourceReader
from pixel_gather.source import Cost, Header
from pixel_gather.status import Status
from pixel_gather.window import Window

_LONGEST_TO_STORE_S: Final = 60.0
"""512 MiB take some 10 s to compress and to put, at 100 MB/s and 78 MB/s."""


def reading_s(left_s: float) -> float:
    """Return how long a worker may read that has so long to live; storing takes a minute or a quarter."""
    return left_s - min(_LONGEST_TO_STORE_S, left_s / 4)


@dataclass(frozen=True, slots=True)
class DeadlineReader:
    """A ``SourceReader`` by which sources time out together, at one moment of the event loop's clock."""

    reader: SourceReader
    at_s: float

    async def open_(self, href: str, *, overview: int | None, cost: Cost) -> OpenedSource:
        """Read a source's header, unless it is too late."""
        async with _until(self.at_s, href):
            opened = await self.reader.open_(href, overview=overview, cost=cost)
        return _DeadlineSource(opened, self.at_s)


@dataclass(frozen=True, slots=True)
class _DeadlineSource:
    opened: OpenedSource
    at_s: float

    @property
    def header(self) -> Header:
        return self.opened.header

    async def read_into(
        self, out: np.ndarray[Any, Any], window: Window, bands: Sequence[int], *, masked: bool
    ) -> None:
        """Fill ``out``, unless it is too late."""
        async with _until(self.at_s, self.header.href):
            await self.opened.read_into(out, window, bands, masked=masked)


@asynccontextmanager
async def _until(at_s: float, href: str) -> AsyncIterator[None]:
    too_late = SourceError("not read before the worker's time was up", href=href, status=Status.TIMED_OUT)
    if asyncio.get_running_loop().time() >= at_s:
        raise too_late
    limit = asyncio.timeout_at(at_s)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise too_late from error
