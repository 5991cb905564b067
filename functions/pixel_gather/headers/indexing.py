"""Open every source of a list for a header index, and read no pixel."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from pixel_gather.errors import SourceError
from pixel_gather.headers.in_order import in_order
from pixel_gather.model.source import Cost, Source
from pixel_gather.model.status import Status
from pixel_gather.ports import Slots


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedSource:
    """What became of one source."""

    source: Source
    status: Status
    reason: str | None = None
    """Why it failed, in a sentence."""

    known: bytes | None = None
    """What opens it again without reading its header; also None of a sound file that GDAL has to read, or of
    a store that does not tell one version from another."""

    cost: Cost


class HeaderTeller(Protocol):
    """Opens sources to have them told once and for all."""

    async def known_of(self, href: str, *, overview: int | None, cost: Cost) -> bytes | None:
        """Return what opens a source again without reading its header, wherever a window will lie.

        Args:
            href: A checked href.
            overview: The one that will be read from; None for full resolution.
            cost: Adds up what it costs.

        Raises:
            SourceError: It cannot be opened.
        """


async def index_sources(
    sources: Iterable[Source],
    *,
    overview: int | None,
    reader: HeaderTeller,
    slots: Slots,
    most_ahead: int,
    source_timeout_s: float,
) -> AsyncGenerator[IndexedSource]:
    """Yield what is to be known of every source, in the order of the sources.

    Args:
        sources: Taken as they are needed, so that a long list is never in memory.
        overview: The one that will be read from; None for full resolution.
        reader: Opens them.
        slots: Bounds how many sources are opened at one time.
        most_ahead: Sources taken before the first of them has been yielded.
        source_timeout_s: Longest that one source may take, retries included.
    """

    async def index_one(source: Source) -> IndexedSource:
        cost = Cost()
        try:
            async with slots.slot(source.href, weight=1) as place, asyncio.timeout(source_timeout_s):
                known = await reader.known_of(source.href, overview=overview, cost=cost)
                place.was_read(n_requests=cost.needed_requests)
        except SourceError as error:
            return IndexedSource(source=source, status=error.status, reason=error.reason, cost=cost)
        except TimeoutError:
            reason = f"not opened within {source_timeout_s:g} s"
            return IndexedSource(source=source, status=Status.TIMED_OUT, reason=reason, cost=cost)
        return IndexedSource(source=source, status=Status.OK, known=known, cost=cost)

    async with aclosing(in_order(sources, index_one, most_ahead=most_ahead)) as indexed:
        async for each in indexed:
            yield each
