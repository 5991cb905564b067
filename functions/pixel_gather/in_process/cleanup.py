"""Leaves nothing behind where a run fails or is cancelled before it writes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from pixel_gather.io.store.object_store import split_href


@asynccontextmanager
async def folders_removed_on_failure(place: str) -> AsyncIterator[None]:
    """Remove new local folders that are still empty if the work inside fails."""
    root, path = split_href(place)
    folder = Path(f"/{path}")
    new = [each for each in (folder, *folder.parents) if not each.exists()] if root == "file://" else []
    try:
        yield
    except BaseException:
        for each in new:
            with suppress(OSError):  # it was not made, or is no longer empty
                each.rmdir()
        raise
