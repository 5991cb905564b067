"""An object store in memory for the fall-back reader. It records calls and can be made to fail."""

from dataclasses import dataclass, field

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.io.store.fetched import Fetched


@dataclass
class MemoryObjects:
    """Objects by href."""

    contents: dict[str, bytes]
    etags: dict[str, str] = field(default_factory=dict)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    fails_after: int | None = None
    """Number of requests that succeed; None for all."""

    async def get_range(self, href: str, start: int, stop: int, *, etag: str | None, cost: Cost) -> Fetched:
        """Read bytes [start, stop) as ``object_store.Objects`` does."""
        cost.requests += 1
        if href not in self.contents:
            raise SourceError("no such object", href=href, status=Status.MISSING)
        if self.fails_after is not None and len(self.ranges) >= self.fails_after:
            raise SourceError("the store refused access (403)", href=href, status=Status.DENIED)
        now = self.etags.get(href, '"1"')
        if etag is not None and etag != now:
            raise SourceError("replaced while it was being read", href=href, status=Status.CHANGED)
        self.ranges.append((start, stop))
        content = memoryview(self.contents[href])[start:stop]
        cost.nbytes += content.nbytes
        return Fetched(content=content, etag=now, object_nbytes=len(self.contents[href]))
