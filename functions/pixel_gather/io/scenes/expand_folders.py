"""Lists folders of images by a pool of workers. A status tells of a folder that could not be listed."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import obstore
from msgspec import Struct

from pixel_gather.core.errors import DeniedError, MissingExtraError
from pixel_gather.core.model.status import Status
from pixel_gather.core.scenes.folders import FolderListing, Item, folders_of, is_image, with_images
from pixel_gather.core.task_group import all_of
from pixel_gather.io.scenes.open_folder import FolderRefusedError, OpenFolder
from pixel_gather.io.store.ranged_gets import STORE_ERRORS
from pixel_gather.io.store.store_error_status import classify_store_error

N_LISTINGS: Final = 32
"""At one time. 120 folders of a bucket that takes 0.45 s for each then take 1.8 s."""

_MOST_FILES: Final = 10_000


class FolderPool(Struct, frozen=True, kw_only=True):
    """Lists folders, several at one time."""

    open_: Callable[[str], OpenFolder]
    """As `Folders.open_`."""

    n_listings: int = N_LISTINGS
    """Most listings at one time."""

    longest_s: float = 30.0
    """For one folder, retries included."""

    limit_s: float = float("inf")
    """For all folders together. Those that are left then have the status TIMED_OUT."""

    async def with_images(self, items: Sequence[Item]) -> list[Item]:
        """Return items with an asset for each image instead of their folders, in order."""
        folders = dict.fromkeys(href for item in items for href in folders_of(item).values())
        listings = await self.listings(folders)
        return [with_images(item, listings) for item in items]

    async def listings(self, folders: Iterable[str]) -> Mapping[str, FolderListing]:
        """List each folder once. Returns what became of each, by href; no folder fails the others."""
        stop_s = time.monotonic() + self.limit_s
        waiting = iter(folders)
        found: dict[str, FolderListing] = {}

        async def work() -> None:
            for href in waiting:
                left_s = min(stop_s - time.monotonic(), self.longest_s)
                found[href] = await self._listing(href, left_s)

        await all_of(work() for _ in range(self.n_listings))
        return found

    async def _listing(self, href: str, left_s: float) -> FolderListing:
        if left_s <= 0:
            return FolderListing(href=href, status=Status.TIMED_OUT, reason="there was no time left for it")
        try:
            async with asyncio.timeout(left_s):
                return FolderListing(href=href, images=await _images_in(self.open_(href)))
        except FolderRefusedError as error:
            status, reason = error.status, str(error)
        except (DeniedError, MissingExtraError) as error:
            status, reason = Status.DENIED, str(error)
        except STORE_ERRORS as error:  # time that is up is one of them
            status, reason, _ = classify_store_error(error)
        return FolderListing(href=href, status=status, reason=reason)


async def _images_in(folder: OpenFolder) -> dict[str, str]:
    """Return the hrefs of all images below a folder, by their path in it, sorted."""
    below = len(folder.path) + 1 if folder.path else 0
    n_files = 0
    found: dict[str, str] = {}
    async for page in obstore.list(folder.store, prefix=folder.path or None):
        n_files += len(page)
        if n_files > _MOST_FILES:
            raise FolderRefusedError(f"it holds more than {_MOST_FILES:,} files", Status.UNSUPPORTED)
        found |= {each["path"][below:]: folder.href(each["path"]) for each in page if is_image(each["path"])}
    if not found:
        raise FolderRefusedError("there is no image in it", Status.MISSING)
    return dict(sorted(found.items()))
