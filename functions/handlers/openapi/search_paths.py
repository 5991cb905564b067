"""The paths of the search function in the OpenAPI document, and the schemas of their answers."""

from typing import Any, Final

from handlers.search.scene_answers import GEOJSON, JSON
from handlers.search.search_parameters import MOST_SCENES

type _Schema = dict[str, Any]

_TEXT: Final[_Schema] = {"type": "string"}
_NUMBER: Final[_Schema] = {"type": "number"}
_OBJECT: Final[_Schema] = {"type": "object"}
_NAMES: Final[_Schema] = {"type": "array", "items": _TEXT}
_BOX: Final[_Schema] = {"type": "array", "items": _NUMBER, "minItems": 4, "maxItems": 6}
_LINKS: Final[_Schema] = {"type": "array", "items": {"$ref": "#/components/schemas/StacLink"}}

SCHEMAS: Final[dict[str, _Schema]] = {
    "Hrefs": _NAMES | {"description": "Links of images."},
    "Scenes": {
        "type": "object",
        "required": ["scenes", "next"],
        "properties": {
            "scenes": {"type": "array", "items": {"$ref": "#/components/schemas/Scene"}},
            "next": {"type": ["string", "null"], "description": "Token of the next page."},
        },
    },
    "Scene": {
        "type": "object",
        "required": ["id", "collection", "datetime", "bbox", "cloud_cover", "links"],
        "properties": {
            "id": _TEXT,
            "collection": {"type": ["string", "null"]},
            "datetime": {"type": "string", "format": "date-time"},
            "bbox": _BOX,
            "cloud_cover": {"type": ["number", "null"], "description": "Percent."},
            "links": {"type": "object", "additionalProperties": _TEXT, "description": "By asset."},
            "not_listed": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/UnlistedFolder"},
                "description": "Folders of the scene that could not be listed.",
            },
        },
    },
    "UnlistedFolder": {
        "type": "object",
        "required": ["asset", "href", "status", "reason"],
        "properties": {"asset": _TEXT, "href": _TEXT, "status": _TEXT, "reason": _TEXT},
    },
    "StacLink": {
        "type": "object",
        "required": ["rel", "href"],
        "properties": {"rel": _TEXT, "href": _TEXT, "type": _TEXT, "method": _TEXT, "body": _OBJECT},
    },
    "StacCatalog": {
        "type": "object",
        "description": "STAC API's landing page.",
        "required": ["type", "id", "conformsTo", "links"],
        "properties": {"type": _TEXT, "id": _TEXT, "conformsTo": _NAMES, "links": _LINKS},
    },
    "StacConformance": {"type": "object", "required": ["conformsTo"], "properties": {"conformsTo": _NAMES}},
    "StacCollection": {
        "type": "object",
        "required": ["type", "id", "extent", "links"],
        "properties": {"type": _TEXT, "id": _TEXT, "extent": _OBJECT, "links": _LINKS},
    },
    "StacCollections": {
        "type": "object",
        "required": ["collections", "links"],
        "properties": {
            "collections": {"type": "array", "items": {"$ref": "#/components/schemas/StacCollection"}},
            "links": _LINKS,
        },
    },
    "StacItem": {
        "type": "object",
        "required": ["type", "id", "collection", "properties", "assets", "links"],
        "properties": {
            "type": {"const": "Feature"},
            "id": _TEXT,
            "collection": _TEXT,
            "bbox": _BOX,
            "geometry": {"type": ["object", "null"]},
            "properties": _OBJECT,
            "assets": _OBJECT,
            "links": _LINKS,
        },
    },
    "StacItems": {
        "type": "object",
        "required": ["type", "features", "links"],
        "properties": {
            "type": {"const": "FeatureCollection"},
            "features": {"type": "array", "items": {"$ref": "#/components/schemas/StacItem"}},
            "links": _LINKS,
        },
    },
    "StacSearch": {
        "type": "object",
        "properties": {
            "bbox": _BOX,
            "intersects": _OBJECT | {"description": "GeoJSON geometry."},
            "datetime": _TEXT,
            "ids": _NAMES,
            "collections": _NAMES,
            "query": _OBJECT,
            "limit": {"type": "integer", "minimum": 1},
            "token": _TEXT,
        },
    },
}

_LIMIT: Final = {"type": "integer", "minimum": 1, "maximum": MOST_SCENES, "default": 100}
_PARAMETERS: Final[dict[str, tuple[str, _Schema]]] = {
    "lat1": ("Latitude of one corner, in degrees.", _NUMBER),
    "lng1": ("Longitude of the same corner.", _NUMBER),
    "lat2": ("Latitude of the opposite corner.", _NUMBER),
    "lng2": (
        "Longitude of the opposite corner. Corners over 180 degrees apart: a box across the antimeridian.",
        _NUMBER,
    ),
    "lat": ("Latitude of a point, instead of two corners.", _NUMBER),
    "lng": ("Longitude of the point.", _NUMBER),
    "bbox": ("West, south, east, north in degrees. West > east crosses the antimeridian.", _TEXT),
    "point": ("Longitude and latitude.", _TEXT),
    "intersects": ("GeoJSON geometry.", _TEXT),
    "datetime": ("A time, or two with a slash between them; .. for an open end.", _TEXT),
    "ids": ("Ids of scenes, with commas between them.", _TEXT),
    "collections": ("Collections, with commas between them.", _TEXT),
    "assets": ("Asset keys or common names of bands, with commas between them.", _TEXT),
    "cloud_below": ("Only scenes with less cloud cover, in percent.", _NUMBER),
    "where": ("Conditions on properties: eo:cloud_cover<20 and platform=sentinel-2a.", _TEXT),
    "query": ("Conditions on properties, by STAC API's query extension, as JSON.", _TEXT),
    "duplicates": (
        "Of scenes that were processed several times: only the latest, or all.",
        {"type": "string", "enum": ["latest", "all"], "default": "latest"},
    ),
    "expand": (
        "List the folders of scenes that name no images, in buckets that the deployment allows.",
        {"type": "boolean", "default": False},
    ),
    "limit": ("Scenes on one page.", _LIMIT),
    "token": ("Token of the next page, from the page before.", _TEXT),
}
_OF_AREA: Final[dict[str, _Schema]] = {
    "Link": {
        "description": 'Address of the next page, as <ADDRESS>; rel="next". It is missing on the last page.',
        "schema": _TEXT,
    },
    "Pixel-Gather-Not-Listed": {
        "description": "With expand: how many folders could not be listed.",
        "schema": {"type": "integer"},
    },
}
"""Headers of the answer of ``/area``, which is an array of links and so says nothing else."""

_FILTERS: Final = ("datetime", "assets", "cloud_below", "where", "duplicates", "expand", "token")
_STAC: Final = ("bbox", "intersects", "datetime", "ids", "query", "limit", "token")

QUERIES: Final[dict[str, tuple[str, ...]]] = {
    "/area": ("lat1", "lng1", "lat2", "lng2", "lat", "lng", *_FILTERS),
    "/scenes": ("bbox", "point", "intersects", "ids", "collections", "limit", *_FILTERS),
    "/search": (*_STAC, "collections"),
    "/collections/{name}/items": _STAC,
}
"""Query parameters by path."""


def search_paths() -> dict[str, _Schema]:
    """Return the paths of the search function."""
    found = {
        "/": ("getLandingPage", "STAC API's landing page.", "StacCatalog"),
        "/area": ("getArea", "Links of the images of an area.", "Hrefs"),
        "/scenes": ("getScenes", "Scenes with their time, box, clouds and links.", "Scenes"),
        "/search": ("getItemSearch", "STAC API's item search.", "StacItems"),
        "/conformance": ("getConformance", "What the STAC API conforms to.", "StacConformance"),
        "/collections": ("getCollections", "The catalog's collections.", "StacCollections"),
        "/collections/{name}": ("getCollection", "One collection.", "StacCollection"),
        "/collections/{name}/items": ("getItems", "Scenes of one collection.", "StacItems"),
        "/collections/{name}/items/{item}": ("getItem", "One scene.", "StacItem"),
    }
    paths = {path: _path(path, *words) for path, words in found.items()}
    paths["/area"]["get"]["responses"]["200"]["headers"] |= _OF_AREA
    by_post = _operation("postItemSearch", "STAC API's item search.", "StacItems")
    body = {"required": True, "content": {JSON: {"schema": {"$ref": "#/components/schemas/StacSearch"}}}}
    paths["/search"]["post"] = by_post | {"requestBody": body}
    return paths


def _path(path: str, name: str, summary: str, schema: str) -> _Schema:
    parameters = [
        {"name": each, "in": "query", "description": _PARAMETERS[each][0], "schema": _PARAMETERS[each][1]}
        for each in QUERIES.get(path, ())
    ]
    of_path = [
        {"name": each, "in": "path", "required": True, "schema": _TEXT}
        for each in ("name", "item")
        if f"{{{each}}}" in path
    ]
    operation = _operation(name, summary, schema)
    described: _Schema = {"parameters": of_path} if of_path else {}
    return described | {"get": operation | ({"parameters": parameters} if parameters else {})}


def _operation(name: str, summary: str, schema: str) -> _Schema:
    media_type = GEOJSON if schema in ("StacItem", "StacItems") else JSON
    etag = {"description": "Changes with the catalog.", "schema": _TEXT}
    problem = {"$ref": "#/components/responses/Problem"}
    return {
        "operationId": name,
        "summary": summary,
        "responses": {
            "200": {
                "description": summary,
                "headers": {"ETag": etag},
                "content": {media_type: {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
            }
        }
        | {str(status): problem for status in (400, 403, 404, 429, 500, 503)},
    }
