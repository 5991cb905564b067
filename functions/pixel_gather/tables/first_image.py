"""Which bands a table has if none is named: those of the first image that can be opened."""

from collections.abc import Iterable

from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.model.source import Cost, Header, Source
from pixel_gather.core.ports import LevelledSource, opening_in_time
from pixel_gather.io.reader import CogReader

_SAMPLES = 5
"""Images that are tried until one tells how many bands there are."""


class KeepsFirst:
    """Opens images, and the one that was looked at first without a second request."""

    def __init__(self, reader: CogReader, *, timeout_s: float) -> None:
        """Keep nothing yet. The first image is waited for as long as any."""
        self._reader, self._timeout_s = reader, timeout_s
        self._kept: dict[str, tuple[bytes | None, Cost]] = {}

    async def bands_of_first(self, sources: Iterable[Source]) -> list[str]:
        """Return b1, b2, ... for the bands of the first image that can be opened.

        Raises:
            SourceError: None of the first ones can.
            RequestError: There is none.
        """
        failed: SourceError | None = None
        for source, _ in zip(sources, range(_SAMPLES), strict=False):
            try:
                header = await self.look_at(source.href)
            except SourceError as error:
                failed = failed or error
                continue
            return [f"b{number}" for number in range(1, header.n_bands + 1)]
        if failed is not None:
            raise failed
        raise RequestError("the list is empty", field="sources")

    async def look_at(self, href: str) -> Header:
        """Return the header of an image. Its request is counted when the image is opened.

        Raises:
            SourceError: It cannot be opened.
        """
        cost = Cost()
        async with opening_in_time(href, self._timeout_s):
            opened = await self._reader.open_(href, overview=None, cost=cost)
        self._kept[href] = opened.packed_header, cost
        return opened.header

    async def open_(self, href: str, *, overview: int | None, cost: Cost) -> LevelledSource:
        """Open an image; see `pixel_gather.core.ports.LevelReader`."""
        packed_header, spent = self._kept.pop(href, (None, None))
        if packed_header is not None and spent is not None:
            total = Cost.of_parts([cost, spent])
            for name in Cost.__struct_fields__:
                setattr(cost, name, getattr(total, name))
        return await self._reader.open_(href, overview=overview, cost=cost, packed_header=packed_header)
