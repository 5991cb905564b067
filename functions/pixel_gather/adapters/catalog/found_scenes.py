"""The scenes that a search found, and which processing of each counts."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pixel_gather.adapters.catalog.json_http import JsonClient
from pixel_gather.adapters.catalog.search_own_catalog import open_catalog
from pixel_gather.adapters.catalog.search_stac_api import StacSearch, search_items
from pixel_gather.adapters.object_store.object_store import Store
from pixel_gather.catalog.duplicates import without_duplicates
from pixel_gather.catalog.item import scene_key
from pixel_gather.catalog.scene_sources import Address, SceneSource, asset_choices, sources_of
from pixel_gather.catalog.search_criteria import SearchCriteria, is_wanted
from pixel_gather.errors import BudgetError, RequestError

type Item = Mapping[str, Any]
type Duplicates = Literal["latest", "all", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundScenes:
    """What a search found: newest first from a catalog, in the server's order from a STAC API."""

    items: tuple[Item, ...]
    """STAC items."""

    dropped: tuple[tuple[Item, Item], ...] = ()
    """Earlier processings of a scene, each with the one that counts."""

    etag: str | None = None
    """Version of the catalog; None of a STAC API."""

    n_gets: int = 0
    """Requests for the catalog's files."""

    def to_dict(self) -> dict[str, Any]:
        """Return the scenes as a FeatureCollection, which a gather takes as ``sources.stac.items``."""
        return {"type": "FeatureCollection", "features": list(self.items)}

    def sources(
        self, assets: Mapping[str, str] | Sequence[str], *, address: Address = "asset"
    ) -> Iterator[SceneSource]:
        """Yield one source for each wanted asset of each scene, as a gather reads them."""
        choices = asset_choices(assets if isinstance(assets, Mapping) else tuple(assets))
        for item in self.items:
            yield from sources_of(item, choices, address=address)


def stac_items(wanted: SearchCriteria, api: str, client: JsonClient) -> Iterator[dict[str, Any]]:
    """Yield what a STAC API finds; the errors are those of `search_items`."""
    asked = StacSearch(
        api=api,
        area=wanted.area,
        times=wanted.times,
        collections=wanted.collections,
        ids=wanted.ids,
        where=wanted.where,
        most=wanted.most,
    )
    return search_items(asked, client)


def wanted_items(
    items: Iterable[Mapping[str, Any]], wanted: SearchCriteria, *, name: str
) -> Iterator[Mapping[str, Any]]:
    """Yield those items that are wanted, each collection and id once.

    Args:
        items: STAC items from anywhere.
        wanted: The search.
        name: What errors call an item.

    Raises:
        RequestError: One of them is no item.
        BudgetError: More of them are wanted than ``wanted.most``.
    """
    seen: set[int] = set()
    for item in items:
        key = scene_key(item, name=name)
        if key.hash in seen or not is_wanted(item, key, wanted):
            continue
        seen.add(key.hash)
        if len(seen) > wanted.most:
            raise too_many(wanted)
        yield item


def too_many(wanted: SearchCriteria) -> BudgetError:
    """Return the error of a search that finds more than was allowed."""
    return BudgetError(
        f"more than {wanted.most:,} scenes are found: narrow the area or the time, or raise most"
    )


async def catalog_scenes(
    wanted: SearchCriteria,
    store: Store,
    key: str,
    *,
    place: str,
    take: Callable[[Item], Item] = lambda item: item,
) -> FoundScenes:
    """Return what a catalog finds.

    Args:
        wanted: The search.
        store: Where the catalog lies.
        key: Key of its Parquet file.
        place: What errors call that file.
        take: What is kept of each item.

    Raises:
        BudgetError: More scenes are found than wanted at most.
        StoreError: There is no catalog, or it cannot be read.
    """
    opened = await open_catalog(store, key, place=place)
    items: list[Item] = []
    async for _, item in opened.scenes(wanted.query()):
        if len(items) == wanted.most:
            raise too_many(wanted)
        items.append(take(item))
    return FoundScenes(items=tuple(items), etag=opened.etag, n_gets=opened.n_gets)


def with_latest(found: FoundScenes, duplicates: Duplicates) -> FoundScenes:
    """Return what was found with one processing of each scene, or all of them.

    Raises:
        RequestError: There are duplicates, and ``duplicates`` is ``fail``.
    """
    if duplicates == "all":
        return found
    kept = without_duplicates(found.items)
    if kept.dropped and duplicates == "fail":
        one, other = kept.dropped[0]
        raise RequestError(
            f"{one['id']} and {other['id']} are the same scene, processed twice; keep the latest, or all",
            field="duplicates",
        )
    return replace(found, items=kept.items, dropped=kept.dropped)
