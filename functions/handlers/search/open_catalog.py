"""The catalog that a deployment's search function reads: opened once, and again when it was replaced."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import obstore
from msgspec import Struct

from handlers.api.answer_size import MOST_ANSWER_NBYTES, answer_nbytes
from handlers.api.problems import NoCatalogError
from handlers.deployment.settings import Settings, SourceBucket
from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.request.href_policy import HrefPolicy
from pixel_gather.core.scenes.catalog_query import Position, SceneQuery
from pixel_gather.core.steady_clock import SteadyClock
from pixel_gather.io.event_loop import open_runner
from pixel_gather.io.scenes.catalog_format import columns_key
from pixel_gather.io.scenes.expand_folders import FolderPool
from pixel_gather.io.scenes.open_folder import Folders
from pixel_gather.io.scenes.search_own_catalog import Catalog, open_catalog
from pixel_gather.io.store.object_store import Store, open_place
from pixel_gather.io.store.store_settings import StoreSettings

_LOOK_AGAIN_S: Final = 30.0
"""A warm function notices a new version of the catalog after so long."""

_LONGEST_GET_S: Final = 20.0
"""API Gateway waits 29 s for the whole answer."""

_LONGEST_FIRST_S: Final = 5.0
"""A search that fails later is not tried again. S3 is slow then, and a second try would take API Gateway's
time as well."""

_LONGEST_LISTING_S: Final = 8.0
_ALL_LISTINGS_S: Final = 18.0
"""The rest of API Gateway's 29 s is for a cold start and for the answer."""

type Item = Mapping[str, Any]


class FoundScenes(Struct, frozen=True, kw_only=True):
    """What one search found, as much of it as one answer holds."""

    parts: list[Any]
    """What the answer says of each scene."""

    next: Position | None
    """Where the next page begins; None where this is the last one."""

    etag: str
    """ETag of the catalog that was searched."""


class OpenCatalog:
    """The newest version of the deployment's catalog."""

    def __init__(self, settings: Settings, *, clock: Callable[[], float] | None = None) -> None:
        self._settings = settings
        self._clock = clock or SteadyClock()
        self._runner = open_runner()
        self._catalog: Catalog | None = None
        self._looked_at = 0.0
        self._folders = Folders(
            policy=HrefPolicy(schemes=frozenset({"s3"}), buckets=_expandable(settings)),
            settings_of=self._settings_of,
        )

    def newest(self) -> Catalog:
        """Return the catalog, opened again if it was replaced.

        Raises:
            NoCatalogError: The deployment has none.
            StoreError: It cannot be read.
        """
        return self._runner.run(self._newest())

    def search(
        self, query: SceneQuery, *, most: int, take: Callable[[Item], Any], expand: bool = False
    ) -> FoundScenes:
        """Return what is taken of each scene, until there are enough or the answer is large enough.

        ``take`` returns what a scene adds to the answer. Its size as JSON is counted. If they are expanded,
        scenes have an asset for each image of their folders.

        Raises:
            NoCatalogError: The deployment has none.
            RequestError: One scene alone is larger than an answer, or the deployment lists no folders.
            StoreError: The catalog cannot be read.
        """
        if expand and not _expandable(self._settings):
            raise RequestError(
                "this deployment lists no folders; its setting source_buckets names the buckets whose "
                "folders it lists",
                field="expand",
            )
        began_s = self._clock()
        try:
            return self._runner.run(self._search(query, most, take, expand=expand))
        except StoreError:  # its items may be gone: it was replaced twice since it was opened
            self._catalog = None
            if self._clock() - began_s > _LONGEST_FIRST_S:
                raise
            return self._runner.run(self._search(query, most, take, expand=expand))

    def close(self) -> None:
        """End the event loop; Lambda never does."""
        self._runner.close()

    async def _search(
        self, query: SceneQuery, most: int, take: Callable[[Item], Any], *, expand: bool
    ) -> FoundScenes:
        catalog = await self._newest()
        scenes = catalog.scenes(query, n_expected=most + 1)
        if expand:
            scenes = self._list_images(scenes, most)
        return await _collect_page(scenes, most, take, etag=catalog.etag or '"none"')

    async def _list_images(
        self, scenes: AsyncIterator[tuple[Position, dict[str, Any]]], most: int
    ) -> AsyncIterator[tuple[Position, dict[str, Any]]]:
        """Yield the scenes of a page with their images listed, and then the next page's first scene."""
        some = []
        async for each in scenes:
            some.append(each)
            if len(some) > most:
                break
        pool = FolderPool(open_=self._folders.open_, longest_s=_LONGEST_LISTING_S, limit_s=_ALL_LISTINGS_S)
        items = await pool.with_images([item for _, item in some[:most]])
        for (position, _), item in zip(some, items, strict=False):
            yield position, dict(item)
        for each in some[most:]:
            yield each

    async def _newest(self) -> Catalog:
        store, key = self._place()
        now = self._clock()
        if self._catalog is None:
            self._catalog = await open_catalog(store, key)
            self._looked_at = now
        elif now - self._looked_at > _LOOK_AGAIN_S:
            if await _etag(store, columns_key(key)) != self._catalog.etag:
                self._catalog = await open_catalog(store, key)
            self._looked_at = now
        return self._catalog

    def _place(self) -> tuple[Store, str]:
        settings = self._settings
        if settings.catalog is None:
            raise NoCatalogError("this deployment has no catalog; its setting `catalog` names one")
        folder, _, key = settings.catalog.rpartition("/")
        return open_place(folder, self._settings_of(folder)), key

    def _settings_of(self, place: str) -> StoreSettings:
        """Return how a bucket is reached."""
        bucket = place.removeprefix("s3://").partition("/")[0]
        named = (each for each in self._settings.source_buckets if each.name == bucket)
        source = next(named, SourceBucket(name=bucket))
        return StoreSettings(
            endpoint=self._settings.endpoint,
            region=source.region,
            requester_pays=source.requester_pays,
            unsigned=source.unsigned,
            stays_on_host=True,
            write_timeout_s=_LONGEST_GET_S,
        )


def _expandable(settings: Settings) -> frozenset[str]:
    """Return the buckets whose folders may be listed."""
    return frozenset(each.name for each in settings.source_buckets if each.expand)


async def _collect_page(
    scenes: AsyncIterator[tuple[Position, Item]], most: int, take: Callable[[Item], Any], *, etag: str
) -> FoundScenes:
    parts: list[Any] = []
    nbytes = 0
    last: Position | None = None
    async for position, item in scenes:
        part = take(item)
        nbytes += answer_nbytes(part)
        is_large = nbytes > MOST_ANSWER_NBYTES
        if is_large and not parts:
            raise RequestError(
                f"the scene {item['id'][:80]} alone takes {nbytes:,} bytes, and an answer holds "
                f"{MOST_ANSWER_NBYTES:,}; read it from the catalog's Parquet file",
                field="limit",
            )
        if is_large or len(parts) == most:
            return FoundScenes(parts=parts, next=last, etag=etag)
        parts.append(part)
        last = position
    return FoundScenes(parts=parts, next=None, etag=etag)


async def _etag(store: Store, key: str) -> str | None:
    try:
        return (await obstore.head_async(store, key))["e_tag"]
    except (obstore.exceptions.BaseError, OSError) as error:
        raise StoreError(f"{key} could not be read: {str(error).partition(chr(10))[0]}") from error
