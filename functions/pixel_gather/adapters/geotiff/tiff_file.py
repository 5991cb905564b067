"""One version of one object, and what was fetched of its directories."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from pixel_gather.adapters.geotiff.header_bytes import HeaderBytes, NeedBytes
from pixel_gather.adapters.geotiff.settings import GeoTiffSettings
from pixel_gather.adapters.geotiff.unsupported import UnsupportedError
from pixel_gather.adapters.object_store.object_store import Fetched
from pixel_gather.errors import SourceError
from pixel_gather.model.source import Cost
from pixel_gather.model.status import Status

_BEFORE_NBYTES: Final = 4096
"""Many writers put a directory's values just before it."""


class Ranges(Protocol):
    """What is needed of ``object_store.Objects``."""

    async def get_range(self, href: str, start: int, stop: int, *, etag: str | None, cost: Cost) -> Fetched:
        """Read bytes [start, stop) of one version of an object."""


@dataclass(slots=True, kw_only=True)
class TiffFile:
    """Fetches ranges of the version that its header came from."""

    href: str
    etag: str | None
    objects: Ranges
    settings: GeoTiffSettings
    cost: Cost
    fragments: HeaderBytes
    is_seen: bool
    """Whether any byte of this version came from the store, and not only from an index."""

    @property
    def is_pinned(self) -> bool:
        """Whether parts are sure to be of one version: the store tells them apart, and is no local disk."""
        return self.etag is not None and not self.href.startswith("file://")

    async def get(self, start: int, stop: int) -> memoryview:
        """Fetch bytes that lie inside the object, all of them."""
        fetched = await self.objects.get_range(self.href, start, stop, etag=self.etag, cost=self.cost)
        self.is_seen = True
        if fetched.object_nbytes != self.fragments.object_nbytes:
            raise SourceError("replaced by a file of another size", href=self.href, status=Status.CHANGED)
        if fetched.content.nbytes != stop - start:
            raise UnsupportedError("fewer bytes than asked for")
        return fetched.content

    async def parsed[T](self, parse: Callable[[], T]) -> T:
        """Call a pure parser again and again, fetching what it asks for, until it is content."""
        for _ in range(self.settings.max_header_reads):
            try:
                return parse()
            except NeedBytes as need:
                start, stop = self._widened(need)
            self.fragments.add(start, await self.get(start, stop))
        try:
            return parse()
        except NeedBytes as need:
            raise UnsupportedError("a header in too many places") from need

    def _widened(self, need: NeedBytes) -> tuple[int, int]:
        """Return a range that also holds what the parser will most likely ask for next."""
        if need.stop - need.start > self.settings.max_header_nbytes:
            raise UnsupportedError("a header over the size limit") from need
        start = max(need.start - _BEFORE_NBYTES, 0)
        stop = max(need.stop, start + self.settings.head_nbytes)
        return start, min(stop, self.fragments.object_nbytes)
