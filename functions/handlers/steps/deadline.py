"""Ends reading in time for what was read to be stored, before Lambda ends the worker; and late first tries.

Without it one source that dawdles would cost its whole shard, at every try.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pixel_gather.errors import GatherError, SourceError
from pixel_gather.model.source import Cost, Header
from pixel_gather.model.status import Status
from pixel_gather.model.window import Window
from pixel_gather.ports import OpenedSource, SourceReader

_LONGEST_TO_STORE_S: Final = 60.0
"""512 MiB take some 10 s to compress and to put, at 100 MB/s and 78 MB/s."""


_OF_THE_LIMIT: Final = 0.75
"""So long the first try of a shard itself takes of its time: it has ended, be it after a cold start, before
the state machine ends waiting for it, so that two workers never fill one shard at the same time."""


class ShardLateError(GatherError):
    """The first try of a shard took too long: a fresh worker is to fill it."""

    code = "shard_late"


async def in_time[T](work: Coroutine[Any, Any, T], *, limit_s: float | None) -> T:
    """Wait for the work of a first try, and leave nothing of it under way.

    Args:
        work: May be cancelled anywhere.
        limit_s: How long the state machine waits for it; None for a second try, which may take its time.

    Raises:
        ShardLateError: It takes too long.
    """
    limit = asyncio.timeout(None if limit_s is None else limit_s * _OF_THE_LIMIT)
    try:
        async with limit:
            return await work
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise ShardLateError(f"not filled within {limit_s:g} s, less what its start may take") from error


def reading_s(left_s: float) -> float:
    """Return how long a worker may read that has so long to live; storing takes a minute or a quarter."""
    return left_s - min(_LONGEST_TO_STORE_S, left_s / 4)


@dataclass(frozen=True, slots=True)
class DeadlineReader:
    """A ``SourceReader`` by which sources time out together, at one moment of the event loop's clock."""

    reader: SourceReader
    at_s: float

    async def open_(
        self, href: str, *, overview: int | None, cost: Cost, known: bytes | None = None
    ) -> OpenedSource:
        """Read a source's header, unless it is too late."""
        async with _until(self.at_s, href):
            opened = await self.reader.open_(href, overview=overview, cost=cost, known=known)
        return _DeadlineSource(opened, self.at_s)


@dataclass(frozen=True, slots=True)
class _DeadlineSource:
    opened: OpenedSource
    at_s: float

    @property
    def header(self) -> Header:
        return self.opened.header

    @property
    def known(self) -> bytes | None:
        return self.opened.known

    @property
    def was_known(self) -> bool:
        return self.opened.was_known

    async def read_into(
        self,
        out: np.ndarray[Any, Any],
        window: Window,
        bands: Sequence[int],
        *,
        masked: bool,
        part_nbytes: int | None = None,
    ) -> None:
        """Fill ``out``, unless it is too late."""
        async with _until(self.at_s, self.header.href):
            await self.opened.read_into(out, window, bands, masked=masked, part_nbytes=part_nbytes)


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
