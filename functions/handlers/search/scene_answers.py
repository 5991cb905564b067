"""What the search function answers: links, scenes, and the documents of a STAC API. Pure.

Links of items and pages start from the API's own address. A page ends before it is larger than Lambda can
answer.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from handlers.api.answer_size import answer_nbytes
from handlers.api.route import JSON
from pixel_gather.core.scenes.catalog_query import Position
from pixel_gather.core.scenes.folders import unlisted_folders
from pixel_gather.core.scenes.item import asset_hrefs, scene_key
from pixel_gather.core.time_range import LAST_US, format_moment

if TYPE_CHECKING:  # for the description, which needs msgspec
    from handlers.search.answers import Scene, StacCatalog, StacCollection, StacCollections, StacLink

type Item = Mapping[str, Any]

GEOJSON: Final = "application/geo+json"

NO_COLLECTION: Final = "none"
"""What the API calls the collection of scenes that name none, as STAC asks for a name."""

CONFORMANCE: Final = (
    "https://api.stacspec.org/v1.0.0/core",
    "https://api.stacspec.org/v1.0.0/collections",
    "https://api.stacspec.org/v1.0.0/item-search",
    "https://api.stacspec.org/v1.0.0/item-search#query",
    "http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/core",
    "http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/geojson",
    "http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/oas30",
)
_VERSION: Final = "1.0.0"
_WHOLE_TURN: Final = 360.0
_LARGEST_REPEATED_NBYTES: Final = 100_000
"""A larger body is not repeated in the link to the next page; the caller merges the token into its own."""


def query_text(asked: Mapping[str, Any]) -> str:
    """Return parameters as a query. A space is ``%20``, as AWS refuses signatures of ``+``."""
    return urlencode(asked, quote_via=quote)


def landing_page(root: str, *, collections: Iterable[str]) -> "StacCatalog":
    """Return the catalog's first document."""
    children = [_link("child", f"{root}/collections/{quote(name, safe='')}", JSON) for name in collections]
    return {
        "type": "Catalog",
        "stac_version": _VERSION,
        "id": "pixel-gather",
        "title": "Pixel Gather",
        "description": "Scenes that Pixel Gather can find and gather.",
        "conformsTo": list(CONFORMANCE),
        "links": [
            _link("self", f"{root}/", JSON),
            _link("root", f"{root}/", JSON),
            _link("conformance", f"{root}/conformance", JSON),
            _link("data", f"{root}/collections", JSON),
            _link("service-desc", f"{root}/openapi.json", JSON),
            {**_link("search", f"{root}/search", GEOJSON), "method": "GET"},
            {**_link("search", f"{root}/search", GEOJSON), "method": "POST"},
            *children,
        ],
    }


def collection(
    root: str, *, name: str, box: tuple[float, float, float, float], start_us: int, stop_us: int
) -> "StacCollection":
    """Return the document of one collection.

    The box is unwrapped. Times are in microseconds since 1970; the last one is LAST_US where there is no end
    yet.
    """
    address = f"{root}/collections/{quote(name, safe='')}"
    stop = None if stop_us == LAST_US else format_moment(stop_us)
    return {
        "type": "Collection",
        "stac_version": _VERSION,
        "id": name,
        "description": f"Scenes of {name}",
        "license": "other",
        "extent": {
            "spatial": {"bbox": [_wrap_box(box)]},
            "temporal": {"interval": [[format_moment(start_us), stop]]},
        },
        "links": [
            _link("self", address, JSON),
            _link("root", f"{root}/", JSON),
            _link("parent", f"{root}/", JSON),
            _link("items", f"{address}/items", GEOJSON),
        ],
    }


def collections_document(root: str, collections: Iterable["StacCollection"]) -> "StacCollections":
    """Return all collections."""
    return {
        "collections": list(collections),
        "links": [_link("self", f"{root}/collections", JSON), _link("root", f"{root}/", JSON)],
    }


def item_document(root: str, item: Item) -> dict[str, Any]:
    """Return a scene as the API answers it, with links of its own."""
    name = item.get("collection") or NO_COLLECTION
    above = f"{root}/collections/{quote(name, safe='')}"
    links = [
        _link("self", f"{above}/items/{quote(item['id'], safe='')}", GEOJSON),
        _link("parent", above, JSON),
        _link("collection", above, JSON),
        _link("root", f"{root}/", JSON),
    ]
    return {"geometry": _box_geometry(item)} | dict(item) | {"collection": name, "links": links}


def item_page(
    root: str,
    items: Iterable[Item],
    *,
    after: Position | None,
    method: str,
    path: str,
    asked: Mapping[str, Any],
) -> dict[str, Any]:
    """Return one page of a search.

    The next page begins ``after``; None if this is the last. ``asked`` are the parameters or the body, for
    the link to it.
    """
    documents = list(items)
    parameters = f"?{query_text(asked)}" if method == "GET" and asked else ""
    links = [_link("root", f"{root}/", JSON), _link("self", f"{root}{path}{parameters}", GEOJSON)]
    if after is not None:
        links.append(_next_link(f"{root}{path}", method, asked, after.to_token()))
    return {
        "type": "FeatureCollection",
        "features": documents,
        "links": links,
        "numberReturned": len(documents),
    }


def scene_summary(item: Item, assets: tuple[str, ...] = ()) -> "Scene":
    """Return the few fields of a scene that most callers want, and its links by asset.

    ``not_listed`` is there where a folder of the scene could not be listed.
    """
    key = scene_key(item, name="item")
    unlisted = unlisted_folders(item)
    summary: Scene = {
        "id": key.id,
        "collection": key.collection or None,
        "datetime": format_moment(key.start_us),
        "bbox": list(key.box),
        "cloud_cover": item["properties"].get("eo:cloud_cover"),
        "links": dict(asset_hrefs(item, assets)),
    }
    if unlisted:
        summary["not_listed"] = unlisted
    return summary


def _wrap_box(box: tuple[float, float, float, float]) -> list[float]:
    west, south, east, north = box
    if east - west >= _WHOLE_TURN:
        return [-180.0, south, 180.0, north]
    return [west, south, east - _WHOLE_TURN if east > _WHOLE_TURN / 2 else east, north]


def _next_link(href: str, method: str, asked: Mapping[str, Any], token: str) -> "StacLink":
    if method == "GET":
        address = f"{href}?{query_text({**asked, 'token': token})}"
        return {**_link("next", address, GEOJSON), "method": "GET"}
    link: StacLink = {**_link("next", href, GEOJSON), "method": "POST"}
    if answer_nbytes(asked) > _LARGEST_REPEATED_NBYTES:
        return {**link, "body": {"token": token}, "merge": True}
    return {**link, "body": {**asked, "token": token}}


def _link(rel: str, href: str, type_: str) -> "StacLink":
    return {"rel": rel, "href": href, "type": type_}


def _box_geometry(item: Item) -> dict[str, Any]:
    west, south, east, north = scene_key(item, name="item").box
    if west <= east:
        return {"type": "Polygon", "coordinates": [_ring(west, south, east, north)]}
    halves = [[_ring(west, south, 180.0, north)], [_ring(-180.0, south, east, north)]]
    return {"type": "MultiPolygon", "coordinates": halves}


def _ring(west: float, south: float, east: float, north: float) -> list[list[float]]:
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]
