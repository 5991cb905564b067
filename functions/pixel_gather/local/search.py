"""Search your own catalog or a STAC API from this process."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pixel_gather.adapters.catalog.catalog_search import open_catalog
from pixel_gather.adapters.catalog.json_http import JsonClient, same_host_only
from pixel_gather.adapters.catalog.stac_api import StacSearch, search_items
from pixel_gather.adapters.event_loop import run
from pixel_gather.adapters.object_store.object_store import StoreSettings, open_place
from pixel_gather.catalog.area import Area, check_box
from pixel_gather.catalog.duplicates import without_duplicates
from pixel_gather.catalog.query import SceneQuery
from pixel_gather.catalog.scene_sources import Address, SceneSource, asset_choices, sources_of
from pixel_gather.catalog.time_range import ALL_TIMES, TimeRange, parse_time_range
from pixel_gather.catalog.where import Where, parse_where
from pixel_gather.errors import BudgetError, RequestError
from pixel_gather.local.gather import check_place

type Item = Mapping[str, Any]
type Duplicates = Literal["latest", "all", "fail"]

_MOST: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneSearch:
    """Checked conditions of a search."""

    area: Area | None = None
    times: TimeRange = ALL_TIMES
    where: Where = ()
    collections: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    most: int = _MOST

    @classmethod
    def of(
        cls,
        *,
        bbox: Sequence[float] | None = None,
        point: Sequence[float] | None = None,
        geojson: Mapping[str, Any] | None = None,
        datetime: str | None = None,
        where: str | Mapping[str, Any] | None = None,
        collections: Sequence[str] = (),
        ids: Sequence[str] = (),
        most: int = _MOST,
    ) -> "SceneSearch":
        """Check the conditions of a search.

        Raises:
            RequestError: A condition is wrong. The message names it.
        """
        if sum(each is not None for each in (bbox, point, geojson)) > 1:
            raise RequestError("give one of bbox, point and geojson", field="area")
        area = None
        if bbox is not None:
            area = Area(check_box(bbox, field="bbox"))
        elif point is not None:
            if len(point) != 2:  # noqa: PLR2004 # longitude and latitude
                raise RequestError("write two numbers: longitude, latitude", field="point")
            area = Area.of_point(*point)
        elif geojson is not None:
            area = Area.of_geojson(geojson, field="geojson")
        return cls(
            area=area,
            times=ALL_TIMES if datetime is None else parse_time_range(datetime),
            where=parse_where(where),
            collections=tuple(collections),
            ids=tuple(ids),
            most=most,
        )

    def query(self) -> SceneQuery:
        """Return the conditions as a query to a catalog."""
        return SceneQuery(
            area=self.area,
            times=self.times,
            where=self.where,
            collections=frozenset(self.collections),
            ids=frozenset(self.ids),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundScenes:
    """Scenes that a search found. From a catalog the newest come first; a STAC API sets its own order."""

    items: tuple[Item, ...]
    """STAC items."""

    dropped: tuple[tuple[Item, Item], ...] = ()
    """Earlier processings that were left out, each with the later one that was kept."""

    etag: str | None = None
    """Version of the catalog; None for a STAC API."""

    def sources(
        self, assets: Mapping[str, str] | Sequence[str], *, address: Address = "asset"
    ) -> Iterator[SceneSource]:
        """Yield one source for each wanted asset of each scene. A gather can read them."""
        choices = asset_choices(assets if isinstance(assets, Mapping) else tuple(assets))
        for item in self.items:
            yield from sources_of(item, choices, address=address)


def search(
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
    most: int = _MOST,
    stores: StoreSettings | None = None,
) -> FoundScenes:
    """Find scenes in your own catalog or in a STAC API.

    Args:
        catalog: A catalog that `make_catalog` wrote: a path, or ``s3://bucket/key``. Exactly one of
            ``catalog`` and ``stac`` is needed.
        stac: Address of a STAC API's landing page.
        bbox: [west, south, east, north] in degrees. If west > east, it crosses the antimeridian.
        point: [longitude, latitude].
        geojson: A geometry, feature or feature collection.
        datetime: Such as ``2024``, ``2024-06/2024-08`` or ``2024-06-01T00:00:00Z/..``.
        where: Conditions on properties: ``eo:cloud_cover<40 and platform=sentinel-2a``, or an object.
        collections: Ids of collections; all collections if none are given.
        ids: Ids of scenes.
        duplicates: Keep the latest processing of each scene, keep all, or refuse.
        most: Most scenes that may be found; more raise a BudgetError.
        stores: How to access S3.

    Raises:
        RequestError: A field is wrong. The message names it.
        BudgetError: More scenes than ``most`` are found.
        StoreError: The catalog or the API cannot be read.
    """
    wanted = SceneSearch.of(
        bbox=bbox,
        point=point,
        geojson=geojson,
        datetime=datetime,
        where=where,
        collections=collections,
        ids=ids,
        most=most,
    )
    return found_scenes(wanted, catalog=catalog, stac=stac, duplicates=duplicates, stores=stores)


def found_scenes(
    wanted: SceneSearch,
    *,
    catalog: str | os.PathLike[str] | None,
    stac: str | None,
    duplicates: Duplicates = "latest",
    stores: StoreSettings | None = None,
) -> FoundScenes:
    """Return the result of a search. Arguments and errors are those of `search`."""
    if (catalog is None) == (stac is None):
        raise RequestError("give either a catalog or the address of a STAC API", field="catalog")
    if stac is not None:
        found = FoundScenes(items=tuple(stac_items(wanted, stac)))
    else:
        assert catalog is not None  # noqa: S101 # checked above
        found = run(catalog_scenes(wanted, os.fspath(catalog), stores or StoreSettings()))
    return _without_duplicates(found, duplicates)


def stac_items(wanted: SceneSearch, api: str) -> Iterator[dict[str, Any]]:
    """Yield the items that a STAC API finds. Only the API's own host is contacted."""
    client = JsonClient(same_host_only(api, field="stac"))
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


async def catalog_scenes(wanted: SceneSearch, place: str, stores: StoreSettings) -> FoundScenes:
    """Return the scenes that a catalog finds."""
    folder, _, key = check_place(place).rpartition("/")
    opened = await open_catalog(await asyncio.to_thread(open_place, folder, stores), key)
    items: list[Item] = []
    async for _, item in opened.scenes(wanted.query()):
        if len(items) == wanted.most:
            raise BudgetError(
                f"more than {wanted.most:,} scenes are found; narrow the area or the time, or raise `most`"
            )
        items.append(item)
    return FoundScenes(items=tuple(items), etag=opened.etag)


def _without_duplicates(found: FoundScenes, duplicates: Duplicates) -> FoundScenes:
    if duplicates == "all":
        return found
    kept = without_duplicates(found.items)
    if kept.dropped and duplicates == "fail":
        one, other = kept.dropped[0]
        raise RequestError(
            f"{one['id']} and {other['id']} are the same scene, processed twice; keep the latest, or all",
            field="duplicates",
        )
    return FoundScenes(items=kept.items, dropped=kept.dropped, etag=found.etag)
