"""The routes of searches: ``/area``, ``/scenes``, and a STAC API."""

from collections.abc import Mapping
from typing import Final

from handlers.api.route import FLAG, JSON, NUMBER, Answer, Parameter, Route
from handlers.search.scene_answers import GEOJSON
from handlers.search.search_parameters import MOST_SCENES

_LIMIT: Final = {"type": "integer", "minimum": 1, "maximum": MOST_SCENES, "default": 100}
_CORNERS: Final = {
    "lat1": Parameter("Latitude of one corner, in degrees.", NUMBER),
    "lng1": Parameter("Longitude of the same corner.", NUMBER),
    "lat2": Parameter("Latitude of the opposite corner.", NUMBER),
    "lng2": Parameter(
        "Longitude of the opposite corner. Corners over 180 degrees apart: a box across the antimeridian.",
        NUMBER,
    ),
    "lat": Parameter("Latitude of a point, instead of two corners.", NUMBER),
    "lng": Parameter("Longitude of the point.", NUMBER),
}
_PLACE: Final = {
    "bbox": Parameter("West, south, east, north in degrees. West > east crosses the antimeridian."),
    "intersects": Parameter("GeoJSON geometry."),
}
_NAMES: Final = {"ids": Parameter("Ids of scenes, with commas between them.")}
_COLLECTIONS: Final = {"collections": Parameter("Collections, with commas between them.")}
_TIME: Final = {"datetime": Parameter("A time, or two with a slash between them; .. for an open end.")}
_PAGE: Final = {"token": Parameter("Token of the next page, from the page before.")}
_SIZE: Final = {"limit": Parameter("Scenes on one page.", _LIMIT)}
_FILTERS: Final = {
    **_TIME,
    "assets": Parameter("Asset keys or common names of bands, with commas between them."),
    "cloud_below": Parameter("Only scenes with less cloud cover, in percent.", NUMBER),
    "where": Parameter("Conditions on properties: eo:cloud_cover<20 and platform=sentinel-2a."),
    "duplicates": Parameter(
        "Of scenes that were processed several times: only the latest, or all.",
        {"type": "string", "enum": ["latest", "all"], "default": "latest"},
    ),
    "expand": Parameter(
        "List the folders of scenes that name no images, in buckets that the deployment allows.", FLAG
    ),
    **_PAGE,
}
_POINT: Final = {"point": Parameter("Longitude and latitude.")}
_QUERY: Final = {"query": Parameter("Conditions on properties, by STAC API's query extension, as JSON.")}
ITEM_SEARCH: Final = {
    **_PLACE,
    **_POINT,
    **_TIME,
    **_NAMES,
    **_COLLECTIONS,
    **_QUERY,
    **{name: _FILTERS[name] for name in ("where", "cloud_below")},
    **_SIZE,
    **_PAGE,
    "sortby": Parameter("Only -properties.datetime: the newest scenes always come first."),
    "fields": Parameter("Not heeded: items come whole."),
}
"""What a search by a query or a body takes."""

_SCENES: Final = _PLACE | _POINT | _NAMES | _COLLECTIONS | _QUERY | _SIZE | _FILTERS
_OF_AREA: Final = {
    "Link": Parameter('Address of the next page, as <ADDRESS>; rel="next". It is missing on the last page.'),
    "Pixel-Gather-Not-Listed": Parameter(
        "With expand: how many folders could not be listed.", {"type": "integer"}
    ),
}
"""Headers of the answer of ``/area``, which is an array of links and so says nothing else."""


def _route(
    path: str,
    name: str,
    summary: str,
    answer: str,
    *,
    media_type: str = JSON,
    body: str | None = None,
    query: Mapping[str, Parameter] | None = None,
    headers: Mapping[str, Parameter] | None = None,
) -> Route:
    etag = {"ETag": Parameter("Changes with the catalog.")}
    return Route(
        method="GET" if body is None else "POST",
        path=path,
        function="search.answer_searches",
        name=name,
        summary=summary,
        body=body,
        query=query or {},
        answers={200: Answer(summary, answer, media_type=media_type, headers=etag | dict(headers or {}))},
        problems=(400, 404, 429, 503),
    )


_ITEM_SEARCH: Final = "STAC API's item search."

ROUTES: Final = (
    _route("/", "getLandingPage", "STAC API's landing page.", "StacCatalog"),
    _route(
        "/area",
        "getArea",
        "Links of the images of an area.",
        "Hrefs",
        query=_CORNERS | _NAMES | _COLLECTIONS | _QUERY | _FILTERS,
        headers=_OF_AREA,
    ),
    _route("/scenes", "getScenes", "Scenes with their time, box, clouds and links.", "Scenes", query=_SCENES),
    _route(
        "/search",
        "getItemSearch",
        _ITEM_SEARCH,
        "StacItems",
        media_type=GEOJSON,
        query=ITEM_SEARCH,
    ),
    _route(
        "/search",
        "postItemSearch",
        _ITEM_SEARCH,
        "StacItems",
        media_type=GEOJSON,
        body="StacSearch",
    ),
    _route("/conformance", "getConformance", "What the STAC API conforms to.", "StacConformance"),
    _route(
        "/collections",
        "getCollections",
        "The catalog's collections.",
        "StacCollections",
        query={
            "limit": Parameter("Not heeded: all collections come at once.", {"type": "integer"}),
            **{
                name: Parameter("Not heeded: clients choose among the collections themselves.")
                for name in ("bbox", "datetime", "q")
            },
        },
    ),
    _route("/collections/{name}", "getCollection", "One collection.", "StacCollection"),
    _route(
        "/collections/{name}/items",
        "getItems",
        "Scenes of one collection.",
        "StacItems",
        media_type=GEOJSON,
        query=ITEM_SEARCH,
    ),
    _route("/collections/{name}/items/{item}", "getItem", "One scene.", "StacItem", media_type=GEOJSON),
)
