"""The catalog that a deployment's search function reads: opened once, and again when it was replaced."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import obstore

from handlers.api.problems import NoCatalogError
from handlers.api.scene_answers import LARGEST_ANSWER_NBYTES, nbytes_of
from handlers.settings import Settings
from pixel_gather.adapters.catalog.catalog_search import Catalog, open_catalog
from pixel_gather.adapters.catalog.catalog_writer import columns_key
from pixel_gather.adapters.event_loop import open_runner
from pixel_gather.adapters.object_store.object_store import Store, StoreSettings, open_place
from pixel_gather.catalog.query import Position, SceneQuery
from pixel_gather.errors import RequestError, StoreError

_LOOK_AGAIN_S: Final = 30.0
"""A warm function notices a new version of the catalog after so long."""

_LONGEST_GET_S: Final = 20.0
"""API Gateway waits 29 s for the whole answer."""

type Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one search found, as much of it as one answer holds."""

    parts: list[Any]
    """Of each scene, what the answer says of it."""

    next: Position | None
    """Where the next page begins; None where this is the last one."""

    etag: str
    """Of the catalog that was searched."""


class OpenCatalog:
    """The newest version of the deployment's catalog."""

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Read nothing yet."""
        self._settings = settings
        self._clock = clock
        self._runner = open_runner()
        self._catalog: Catalog | None = None
        self._looked_at = 0.0

    def newest(self) -> Catalog:
        """Return the catalog, opened again if it was replaced.

        Raises:
            NoCatalogError: The deployment has none.
            StoreError: It cannot be read.
        """
        return self._runner.run(self._newest())

    def search(self, query: SceneQuery, *, most: int, take: Callable[[Item], Any]) -> Found:
        """Return what is taken of each scene, until there are enough or the answer is large enough.

        Args:
            query: What is wanted.
            most: Most scenes.
            take: Returns what a scene adds to the answer. Its size as JSON is counted.

        Raises:
            NoCatalogError: The deployment has none.
            RequestError: One scene alone is larger than an answer.
            StoreError: The catalog cannot be read.
        """
        return self._runner.run(self._search(query, most, take))

    def close(self) -> None:
        """End the event loop; Lambda never does."""
        self._runner.close()

    async def _search(self, query: SceneQuery, most: int, take: Callable[[Item], Any]) -> Found:
        try:
            return await _collected(await self._newest(), query, most, take)
        except StoreError:  # its items are gone: it was replaced twice since it was opened
            self._catalog = None
            return await _collected(await self._newest(), query, most, take)

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
        bucket = folder.removeprefix("s3://").partition("/")[0]
        source = next((each for each in settings.source_buckets if each.name == bucket), None)
        reached = StoreSettings(
            endpoint=settings.endpoint,
            region=None if source is None else source.region,
            requester_pays=source is not None and source.requester_pays,
            unsigned=source is not None and source.unsigned,
            stays_on_host=True,
            write_timeout_s=_LONGEST_GET_S,
        )
        return open_place(folder, reached), key


async def _collected(catalog: Catalog, query: SceneQuery, most: int, take: Callable[[Item], Any]) -> Found:
    parts: list[Any] = []
    nbytes = 0
    last: Position | None = None
    async for position, item in catalog.scenes(query, n_expected=most + 1):
        part = take(item)
        nbytes += nbytes_of(part)
        is_large = nbytes > LARGEST_ANSWER_NBYTES
        if is_large and not parts:
            raise RequestError(
                f"the scene {item['id'][:80]} alone takes {nbytes:,} bytes, and an answer holds "
                f"{LARGEST_ANSWER_NBYTES:,}; read it from the catalog's Parquet file",
                field="limit",
            )
        if is_large or len(parts) == most:
            return Found(parts=parts, next=last, etag=_quoted(catalog.etag))
        parts.append(part)
        last = position
    return Found(parts=parts, next=None, etag=_quoted(catalog.etag))


def _quoted(etag: str | None) -> str:
    return etag or '"none"'


async def _etag(store: Store, key: str) -> str | None:
    try:
        return (await obstore.head_async(store, key))["e_tag"]
    except (obstore.exceptions.BaseError, OSError) as error:
        raise StoreError(f"{key} could not be read: {str(error).partition(chr(10))[0]}") from error
