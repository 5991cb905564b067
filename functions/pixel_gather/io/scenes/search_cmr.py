"""Granules of NASA's Common Metadata Repository as items, by its own search, which pages by a header.

https://cmr.earthdata.nasa.gov/search/site/docs/search/api.html, "Search After".
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from msgspec import Struct

from pixel_gather.core.area import Area
from pixel_gather.core.errors import BudgetError, RequestError, StoreError
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.request.web_address import CMR
from pixel_gather.core.scenes.skipped_items import SkippedItems
from pixel_gather.core.time_range import ALL_TIMES, TimeRange, format_moment
from pixel_gather.io.store.json_http import JsonClient

_PAGE: Final = 2000
_SEARCH_AFTER: Final = "cmr-search-after"


class CmrSearch(Struct, frozen=True, kw_only=True):
    """What is asked of CMR; a concept id, or a short name and where needed its provider."""

    concept_id: str | None = None
    short_name: str | None = None
    provider: str | None = None
    area: Area | None = None
    times: TimeRange = ALL_TIMES
    most: int = 100_000
    root: str = CMR


def cmr_items(search: CmrSearch, client: JsonClient, *, skipped: SkippedItems) -> Iterator[dict[str, Any]]:
    """Yield the granules that CMR finds, as STAC items.

    ``skipped`` gets granules without a place, a time or data.

    Raises:
        RequestError: No collection is named, or CMR refuses the search.
        BudgetError: It finds more granules than ``search.most``.
        StoreError: An answer is no page of granules.
    """
    url = f"{search.root}/granules.umm_json?{urlencode(_parameters(search))}"
    after: str | None = None
    seen: set[str] = set()
    n = 0
    while True:
        answer = client.get(url, headers={} if after is None else {_SEARCH_AFTER: after})
        found = answer.body.get("items") if isinstance(answer.body, Mapping) else None
        if not isinstance(found, list):
            raise StoreError("CMR does not answer with a page of granules")
        for granule in found:
            item = _item(granule)
            if item is None:
                its = _identity(granule)
                said = RequestError("it names no place, no time or no data", field=f"granule {its['id']}")
                skipped.add(said, its)
                continue
            n += 1
            if n > search.most:
                raise BudgetError(
                    f"CMR finds more than {counted(search.most, 'granule')}; narrow the search or raise most"
                )
            yield item
        after = answer.headers.get(_SEARCH_AFTER)
        if after is None or not found:
            return
        if after in seen:
            raise StoreError("CMR repeats its pages; the search cannot be completed")
        seen.add(after)


def _parameters(search: CmrSearch) -> list[tuple[str, str]]:
    if search.concept_id is None and search.short_name is None:
        raise RequestError("name a collection by concept_id or short_name", field="cmr")
    given = [
        ("collection_concept_id", search.concept_id),
        ("short_name", search.short_name),
        ("provider", search.provider),
        (
            "bounding_box",
            None if search.area is None else ",".join(f"{side:.9g}" for side in search.area.box),
        ),
        ("temporal", None if search.times == ALL_TIMES else _temporal(search.times)),
        ("page_size", str(min(_PAGE, search.most + 1))),
    ]
    return [(name, value) for name, value in given if value is not None]


def _temporal(times: TimeRange) -> str:
    start = "" if times.start_us == ALL_TIMES.start_us else format_moment(times.start_us)
    stop = "" if times.stop_us == ALL_TIMES.stop_us else format_moment(times.stop_us)
    return f"{start},{stop}"


def _item(granule: Any) -> dict[str, Any] | None:
    """Return a granule as an item; None where it names no place, no time or no data."""
    umm = granule.get("umm") if isinstance(granule, Mapping) else None
    if not isinstance(umm, Mapping) or not isinstance(umm.get("GranuleUR"), str):
        return None
    times, box, assets = _times(umm), _box(umm), _assets(umm)
    if times is None or box is None or not assets:
        return None
    properties: dict[str, Any] = {"datetime": times[0], "start_datetime": times[0], "end_datetime": times[1]}
    if isinstance(umm.get("CloudCover"), int | float):
        properties["eo:cloud_cover"] = umm["CloudCover"]
    return {
        "type": "Feature",
        "stac_version": "1.0.0",
        **_identity(granule),
        "bbox": box,
        "geometry": None,
        "properties": properties,
        "assets": assets,
    }


def _identity(granule: Any) -> dict[str, Any]:
    """Return the id and collection of a granule, as its item has them."""
    umm = _mapping(_mapping(granule).get("umm"))
    reference = _mapping(umm.get("CollectionReference"))
    collection = reference.get("ShortName") or reference.get("EntryTitle")
    return {"id": umm.get("GranuleUR"), "collection": collection}


def _times(umm: Mapping[str, Any]) -> tuple[str, str] | None:
    extent = _mapping(umm.get("TemporalExtent"))
    period = _mapping(extent.get("RangeDateTime"))
    start = period.get("BeginningDateTime") or extent.get("SingleDateTime")
    return None if not isinstance(start, str) else (start, period.get("EndingDateTime") or start)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _box(umm: Mapping[str, Any]) -> list[float] | None:
    try:
        geometry = umm["SpatialExtent"]["HorizontalSpatialDomain"]["Geometry"]
        if boxes := geometry.get("BoundingRectangles"):
            box = boxes[0]
            sides = ("West", "South", "East", "North")
            return [float(box[f"{side}BoundingCoordinate"]) for side in sides]
        points = [p for polygon in geometry["GPolygons"] for p in polygon["Boundary"]["Points"]]
        longitudes, latitudes = (
            [float(p["Longitude"]) for p in points],
            [float(p["Latitude"]) for p in points],
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError):
        return None
    if not points:
        return None
    if max(longitudes) - min(longitudes) > 180:  # noqa: PLR2004 # over the antimeridian
        west, east = min(x for x in longitudes if x > 0), max(x for x in longitudes if x <= 0)
        return [west, min(latitudes), east, max(latitudes)]
    return [min(longitudes), min(latitudes), max(longitudes), max(latitudes)]


def _assets(umm: Mapping[str, Any]) -> dict[str, Any]:
    """Return the granule's files by name; S3 goes before https where both are named."""
    found: dict[str, Any] = {}
    kinds = {"GET DATA": "https", "GET DATA VIA DIRECT ACCESS": "s3"}
    urls = umm.get("RelatedUrls")
    for url in urls if isinstance(urls, list) else ():
        if (
            not isinstance(url, Mapping)
            or url.get("Type") not in kinds
            or not isinstance(url.get("URL"), str)
        ):
            continue
        name = url["URL"].rpartition("/")[2]
        name = name.removeprefix(f"{umm['GranuleUR']}.").removesuffix(".tif") or name
        if name not in found or url["URL"].startswith("s3://"):
            found[name] = {"href": url["URL"], "roles": ["data"]}
    return found
