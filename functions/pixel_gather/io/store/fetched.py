"""Bytes of objects, as readers of files ask for them."""

from typing import Protocol

from msgspec import Struct

from pixel_gather.core.model.source import Cost


class Fetched(Struct, frozen=True, kw_only=True):
    """The bytes of one range, and the version and size of their object."""

    content: memoryview
    """Shorter than the range where the object ends earlier."""

    etag: str | None
    object_nbytes: int


class Ranges(Protocol):
    """The part of `pixel_gather.io.store.object_store.Objects` that readers of files use."""

    async def get_range(self, href: str, start: int, stop: int, *, etag: str | None, cost: Cost) -> Fetched:
        """Read bytes [start, stop) of one version of an object."""
