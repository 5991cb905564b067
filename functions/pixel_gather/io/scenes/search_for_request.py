"""Runs the search of a request: in a catalog, by a STAC API, by CMR, in a file, or over a program's items."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.shown import shown_href
from pixel_gather.core.model.source import SearchCost
from pixel_gather.core.request.href_policy import HrefPolicy, checked_href
from pixel_gather.core.request.sources import CatalogSources, StacSources
from pixel_gather.core.request.web_address import CMR, CheckUrl
from pixel_gather.core.scenes.scene_sources import AssetChoice, slim_item
from pixel_gather.core.scenes.search_criteria import SearchCriteria, wanted_items
from pixel_gather.core.scenes.skipped_items import SkippedItems
from pixel_gather.core.scenes.whole_hrefs import with_whole_hrefs
from pixel_gather.io.event_loop import run
from pixel_gather.io.scenes.found_scenes import FoundScenes, Item, catalog_scenes, with_latest
from pixel_gather.io.scenes.item_files import items_of_file
from pixel_gather.io.scenes.search_cmr import cmr_items
from pixel_gather.io.scenes.search_own_catalog import MissingCatalogError
from pixel_gather.io.scenes.search_stac_api import search_items
from pixel_gather.io.store.json_http import JsonClient
from pixel_gather.io.store.object_store import (
    Objects,
    Store,
    folder_and_key,
    open_store,
    open_to_read,
    split_href,
)
from pixel_gather.io.store.open_list_file import Check
from pixel_gather.io.store.store_settings import StoreSettings

type Searched = StacSources | CatalogSources


class SceneSearcher(Struct, frozen=True, kw_only=True):
    """Searches wherever a request says."""

    objects: Objects
    policy: HrefPolicy
    """Where catalogs and files of items may lie."""

    check_api: Callable[[str], CheckUrl]
    """Makes the check that every address of an API has to pass."""

    check: Check

    def found(
        self, asked: Searched, wanted: SearchCriteria, choices: tuple[AssetChoice, ...], cost: SearchCost
    ) -> FoundScenes:
        """Return the scenes that are wanted, with what is needed of each.

        The search's requests are added to the cost.

        Raises:
            RequestError: Something that is asked, or an item, is wrong.
            NoSceneError: Nothing is found, and a condition names a property that no scene has.
            BudgetError: More scenes are found than wanted at most.
            StoreError: The catalog or the API cannot be read.
        """

        def take(item: Item) -> Item:
            self.check()
            return slim_item(item, choices, properties=asked.duplicates_by)

        if isinstance(asked, StacSources):
            skipped = SkippedItems()
            items = tuple(map(take, self._items(asked, wanted, cost, skipped)))
            found = FoundScenes(items=items, n_skipped=skipped.n, skipped=tuple(skipped.first))
        else:
            href = checked_href(asked.file, "file", policy=self.policy)
            store, key = opened_folder(href, self.objects.settings_of(href))
            try:
                found = run(catalog_scenes(wanted, store, key, place=shown_href(href), take=take))
            except MissingCatalogError as error:  # no other try helps
                raise RequestError(str(error), field="file") from error
            cost.n_gets = found.n_gets
        return with_latest(found, asked.duplicates, by=asked.duplicates_by)

    def _items(
        self, asked: StacSources, wanted: SearchCriteria, cost: SearchCost, skipped: SkippedItems
    ) -> Iterator[Item]:
        """Yield the items of an API, of CMR, of a file or of the request itself."""
        if asked.api is not None or asked.cmr is not None:
            client = JsonClient(self.check_api(asked.api or CMR))
            yield from self._asked_items(asked, wanted, client, skipped)
            cost.n_pages = client.n_requests
        elif isinstance(asked.items, tuple):
            yield from wanted_items(with_whole_hrefs(asked.items, None), wanted, name="item", skipped=skipped)
        else:
            found = items_of_file(
                checked_href(asked.items or "", "items", policy=self.policy),
                objects=self.objects,
                check_linked=lambda linked: checked_href(linked, "items", policy=self.policy),
                check=self.check,
                skipped=skipped,
            )
            yield from wanted_items(found, wanted, name="item", skipped=skipped)

    def _asked_items(
        self, asked: StacSources, wanted: SearchCriteria, client: JsonClient, skipped: SkippedItems
    ) -> Iterator[Item]:
        if asked.api is not None:
            return search_items(wanted, asked.api, client, skipped=skipped)
        assert asked.cmr is not None  # noqa: S101 # it is one of the two
        return cmr_items(wanted, client, collection=asked.cmr.model_dump(), skipped=skipped, root=CMR)


def opened_folder(href: str, settings: StoreSettings) -> tuple[Store, str]:
    """Open the store of a catalog that is to be read; no folder is made.

    Returns:
        The store, and the catalog's key in it.
    """
    root, path = split_href(href)
    if root == "file://":
        return open_store(root, settings), path
    folder, name = folder_and_key(href)
    return open_to_read(folder, settings), name
