"""One version of one object, and the parts of its header that have been fetched."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.io.geotiff.geotiff_settings import GeoTiffSettings
from pixel_gather.io.geotiff.header_bytes import HeaderBytes, NeedBytes
from pixel_gather.io.geotiff.shared_tiles import SharedTiles
from pixel_gather.io.geotiff.unsupported import UnsupportedError
from pixel_gather.io.store.fetched import Ranges

_BEFORE_NBYTES: Final = 4096
"""Bytes to read before a directory: many writers put its values there."""


@dataclass(slots=True, kw_only=True)
class TiffFile:
    """Fetches ranges of the version that the header came from."""

    href: str
    etag: str | None
    objects: Ranges
    settings: GeoTiffSettings
    cost: Cost
    header_bytes: HeaderBytes
    is_seen: bool
    """Whether any byte of this version came from the store. An index alone does not show that it exists."""

    tiles: SharedTiles | None = None
    """Where decoded tiles are shared with other reads of this version. None: they are not kept."""

    @property
    def is_pinned(self) -> bool:
        """Whether several reads are sure to return one version: there is an etag, and it is no local file."""
        return self.etag is not None and not self.href.startswith("file://")

    async def get(self, start: int, stop: int) -> memoryview:
        """Fetch bytes [start, stop), which lie inside the object. Fewer are an error."""
        fetched = await self.objects.get_range(self.href, start, stop, etag=self.etag, cost=self.cost)
        self.is_seen = True
        if fetched.object_nbytes != self.header_bytes.object_nbytes:
            raise SourceError("replaced by a file of another size", href=self.href, status=Status.CHANGED)
        if fetched.content.nbytes != stop - start:
            raise UnsupportedError("fewer bytes than asked for")
        return fetched.content

    async def parse[T](self, parse: Callable[[], T]) -> T:
        """Call a pure parser until it succeeds, and fetch the bytes that it asks for by `NeedBytes`."""
        for _ in range(self.settings.max_header_reads):
            try:
                return parse()
            except NeedBytes as need:
                start, stop = self._widen_range(need)
            self.header_bytes.add(start, await self.get(start, stop))
        try:
            return parse()
        except NeedBytes as need:
            raise UnsupportedError("a header in too many places") from need

    def _widen_range(self, need: NeedBytes) -> tuple[int, int]:
        """Return a wider range, which most likely holds what the parser needs next."""
        if need.stop - need.start > self.settings.max_header_nbytes:
            raise UnsupportedError("a header over the size limit") from need
        start = max(need.start - _BEFORE_NBYTES, 0)
        stop = max(need.stop, start + self.settings.head_nbytes)
        return start, min(stop, self.header_bytes.object_nbytes)
