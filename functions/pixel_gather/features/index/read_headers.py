"""Open every source of a list for a header index. No pixel is read."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Protocol

from msgspec import Struct

from pixel_gather.core.errors import SourceError
from pixel_gather.core.in_order import in_order
from pixel_gather.core.model.source import Cost, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.ports import SourceLimiter


class IndexedSource(Struct, frozen=True, kw_only=True):
    """Result of one source."""

    source: Source
    status: Status
    reason: str | None = None
    """Why it failed: one sentence."""

    packed_header: bytes | None = None
    """Its packed header.

    Also None for valid files that only GDAL can read, and for stores without object versions.
    """

    cost: Cost


class HeaderTeller(Protocol):
    """Opens sources and packs their headers."""

    async def packed_header_of(self, href: str, *, overview: int | None, cost: Cost) -> bytes | None:
        """Return the packed header of a source. It serves any window. None if there is none.

        Raises:
            SourceError: It cannot be opened.
        """


def index_sources(
    sources: Iterable[Source],
    *,
    overview: int | None,
    reader: HeaderTeller,
    limiter: SourceLimiter,
    most_ahead: int,
    source_timeout_s: float,
) -> AsyncGenerator[IndexedSource]:
    """Yield the result of every source, in the order of the sources.

    Sources are consumed when needed, so a long list is never in memory. A source's time-out includes its
    retries.
    """

    async def index_one(source: Source) -> IndexedSource:
        cost = Cost()
        try:
            async with limiter.permit(source.href, weight=1) as permit, asyncio.timeout(source_timeout_s):
                packed_header = await reader.packed_header_of(source.href, overview=overview, cost=cost)
                permit.record_read(n_requests=cost.needed_requests)
        except SourceError as error:
            return IndexedSource(source=source, status=error.status, reason=error.reason, cost=cost)
        except TimeoutError:
            reason = f"not opened within {source_timeout_s:g} s"
            return IndexedSource(source=source, status=Status.TIMED_OUT, reason=reason, cost=cost)
        return IndexedSource(source=source, status=Status.OK, packed_header=packed_header, cost=cost)

    return in_order(sources, index_one, most_ahead=most_ahead)
