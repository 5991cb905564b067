"""Search a catalog of one's own, or a STAC API, from this process."""

import os
from collections.abc import Iterator, Mapping, Sequence
from copy import replace
from typing import Any

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.core.request.href_policy import IN_PROCESS, place_text
from pixel_gather.core.request.web_address import same_host_only
from pixel_gather.core.scenes.search_criteria import MOST_SCENES, SearchCriteria
from pixel_gather.core.scenes.skipped_items import SkippedItems
from pixel_gather.in_process.places import check_place
from pixel_gather.io.event_loop import run
from pixel_gather.io.scenes.expand_folders import N_LISTINGS, FolderPool
from pixel_gather.io.scenes.found_scenes import Duplicates, FoundScenes, Item, catalog_scenes, with_latest
from pixel_gather.io.scenes.open_folder import Folders
from pixel_gather.io.scenes.search_for_request import opened_folder
from pixel_gather.io.scenes.search_stac_api import search_items
from pixel_gather.io.store.json_http import JsonClient
from pixel_gather.io.store.store_settings import StoreSettings

__all__ = ["N_LISTINGS", "FoundScenes", "Item", "SearchCriteria", "found_scenes", "items_of_api", "search"]


@check_arguments
def search(  # noqa: PLR0913 # each option of the command has a name of its own here
    *,
    catalog: str | os.PathLike[str] | None = None,
    stac: str | None = None,
    bbox: Sequence[float] | None = None,
    point: Sequence[float] | None = None,
    geojson: Mapping[str, Any] | None = None,
    datetime: str | None = None,
    where: str | Mapping[str, Any] | None = None,
    collections: Sequence[str] = (),
    ids: Sequence[str] = (),
    duplicates: Duplicates = "latest",
    duplicates_by: Sequence[str] = (),
    most: int = MOST_SCENES,
    expand: bool = False,
    n_listings: int = N_LISTINGS,
    stores: StoreSettings | None = None,
) -> FoundScenes:
    """Find the scenes that lie in an area, of a catalog of one's own or of a STAC API.

    Args:
        catalog: What `make_catalog` wrote: a path, or ``s3://bucket/key``.
        stac: Address of a STAC API's landing page. Give either this or ``catalog``.
        bbox: [west, south, east, north] in degrees; west > east crosses the antimeridian.
        point: [longitude, latitude].
        geojson: A geometry, feature or feature collection.
        datetime: Such as ``2024``, ``2024-06/2024-08`` or ``2024-06-01T00:00:00Z/..``.
        where: Conditions on properties: ``eo:cloud_cover<40 and platform=sentinel-2a``, or an object.
        collections: Ids; all collections if none are given.
        ids: IDs of the scenes to find.
        duplicates: ``latest``: keep the latest processing of each scene. ``all``: keep all. ``fail``: refuse.
        duplicates_by: Properties by which scenes are one, such as ``("grid:code", "datetime")``. If none
            are given: platform, acquisition, time and place.
        most: A search that finds more scenes than this is refused.
        expand: List the folders of scenes that name a folder instead of images. Each image is then an asset.
            A folder that cannot be listed stays, with ``pixel_gather:status`` and ``pixel_gather:reason``.
        n_listings: Most folders that are listed at one time.
        stores: How S3 is reached.

    Raises:
        RequestError: A field is wrong, or nothing is found and a condition names a property that no scene
            has. The error names the field.
        BudgetError: More scenes are found than ``most``.
        StoreError: The catalog or the API cannot be read.
    """
    wanted = SearchCriteria.of(
        bbox=bbox,
        point=point,
        geojson=geojson,
        datetime=datetime,
        where=where,
        collections=collections,
        ids=ids,
        most=most,
    )
    return found_scenes(
        wanted,
        catalog=catalog,
        stac=stac,
        duplicates=duplicates,
        duplicates_by=duplicates_by,
        expand=expand,
        n_listings=n_listings,
        stores=stores,
    )


def found_scenes(
    wanted: SearchCriteria,
    *,
    catalog: str | os.PathLike[str] | None,
    stac: str | None,
    duplicates: Duplicates = "latest",
    duplicates_by: Sequence[str] = (),
    expand: bool = False,
    n_listings: int = N_LISTINGS,
    stores: StoreSettings | None = None,
) -> FoundScenes:
    """Return what a search finds; the arguments and errors are those of `search`."""
    if (catalog is None) == (stac is None):
        raise RequestError("give either a catalog or the address of a STAC API", field="catalog")
    if n_listings < 1:
        raise RequestError(f"it is {n_listings}; write a number above 0", field="n_listings")
    if stac is not None:
        skipped = SkippedItems()
        items = tuple(items_of_api(wanted, stac, skipped))
        found = FoundScenes(items=items, n_skipped=skipped.n, skipped=tuple(skipped.first))
    else:
        assert catalog is not None  # noqa: S101 # checked above
        place = place_text(catalog, "catalog")
        store, key = opened_folder(
            check_place(place, field="catalog", is_read=True), stores or StoreSettings()
        )
        found = run(catalog_scenes(wanted, store, key, place=place))
    found = with_latest(found, duplicates, by=duplicates_by)
    if not expand:
        return found
    folders = Folders(policy=IN_PROCESS, settings_of=lambda _: stores or StoreSettings())
    pool = FolderPool(open_=folders.open_, n_listings=n_listings)
    return replace(found, items=tuple(run(pool.with_images(found.items))))


def items_of_api(wanted: SearchCriteria, api: str, skipped: SkippedItems) -> Iterator[dict[str, Any]]:
    """Yield what a STAC API finds; other hosts than the API's own are not asked."""
    return search_items(wanted, api, JsonClient(same_host_only(api, field="stac")), skipped=skipped)
