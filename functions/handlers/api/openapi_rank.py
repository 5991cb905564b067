"""The path of the rank function in the OpenAPI document, and schemas of what it takes and answers."""

from typing import Any, Final

type _Schema = dict[str, Any]

_TEXT: Final[_Schema] = {"type": "string"}
_NUMBER: Final[_Schema] = {"type": "number"}
_WHOLE: Final[_Schema] = {"type": "integer"}
_OBJECT: Final[_Schema] = {"type": "object"}
_JSON: Final = "application/json"


def _or_null(schema: _Schema, description: str) -> _Schema:
    return schema | {"type": [schema["type"], "null"], "description": description}


SCHEMAS: Final[dict[str, _Schema]] = {
    "RankingRequest": {
        "type": "object",
        "required": ["by"],
        "properties": {
            "scenes": _OBJECT
            | {"description": "catalog, bbox, datetime, where, cloud_below, collections. Or give sources."},
            "sources": {"description": "As in a gather."},
            "by": _TEXT
            | {
                "description": "red, green, blue, brightness, ndvi, ndwi, nbr, clear, valid, cloud, or an "
                "expression of bands."
            },
            "area": {"description": "bbox or geojson; the whole of each scene if not given."},
            "mask": _OBJECT | {"description": "band, and the values to drop or the bits."},
            "statistic": {"description": "mean, median, p90 or share_above:0.3.", "default": "mean"},
            "precision": {
                "description": "Largest standard error, or coarse, exact, every:5.",
                "default": 0.01,
            },
            "order": {"enum": ["desc", "asc"], "default": "desc"},
            "top": {"type": "integer", "minimum": 1, "description": "Places to decide."},
            "bands": _OBJECT | {"description": "Which band or asset each name is."},
            "raw": {"type": "boolean", "default": False, "description": "Leave scale and offset out."},
            "limits": _OBJECT | {"description": "usd, and seconds of at most 20."},
        },
    },
    "Ranking": {
        "type": "object",
        "required": ["by", "statistic", "order", "scenes", "totals"],
        "properties": {
            "by": _TEXT,
            "expression": _or_null(_TEXT, "Null for shares."),
            "statistic": _TEXT,
            "order": _TEXT,
            "top": _or_null(_WHOLE, "As asked."),
            "scenes": {"type": "array", "items": {"$ref": "#/components/schemas/RankedScene"}},
            "totals": _OBJECT | {"description": "scenes, failed, kept, bytes, requests, seconds, usd."},
            "notes": {"type": "array", "items": _TEXT},
        },
    },
    "RankedScene": {
        "type": "object",
        "required": ["rank", "id", "value", "error", "status"],
        "properties": {
            "rank": _or_null(_WHOLE, "Null without a value."),
            "rank_low": _or_null(_WHOLE, "Best rank that the errors allow."),
            "rank_high": _or_null(_WHOLE, "Worst rank."),
            "id": _TEXT,
            "time": _or_null(_TEXT, "UTC."),
            "value": _or_null(_NUMBER, "The statistic."),
            "error": _or_null(_NUMBER, "Standard error; null if unknown."),
            "low": _or_null(_NUMBER, "Lower end of the 95 % interval."),
            "high": _or_null(_NUMBER, "Upper end."),
            "level": _or_null(_TEXT, "What was read: full, overview 2, every 5."),
            "factor": _or_null(_NUMBER, "Pixels of full resolution along one that was read."),
            "clear": _or_null(_NUMBER, "Share of the area, 0 to 1."),
            "valid": _or_null(_NUMBER, "Share of the area with data."),
            "pixels": _or_null(_WHOLE, "Pixels that counted."),
            "bytes": _WHOLE,
            "requests": _WHOLE,
            "seconds": _NUMBER,
            "kept": {"type": "boolean"},
            "status": _TEXT,
            "reason": _or_null(_TEXT, "Why there is no value."),
            "hrefs": {"type": "array", "items": _TEXT},
        },
    },
}


def rank_paths() -> dict[str, _Schema]:
    """Return the path of the rank function."""
    problem = {"$ref": "#/components/responses/Problem"}
    answers: _Schema = {
        "200": {
            "description": "The ranking.",
            "content": {_JSON: {"schema": {"$ref": "#/components/schemas/Ranking"}}},
        }
    }
    return {
        "/rankings": {
            "post": {
                "operationId": "rankScenes",
                "summary": "Rank scenes; refused if one function cannot do it in 20 s.",
                "requestBody": {
                    "required": True,
                    "content": {_JSON: {"schema": {"$ref": "#/components/schemas/RankingRequest"}}},
                },
                "responses": answers
                | {str(status): problem for status in (400, 403, 422, 429, 500, 503, 504)},
            }
        }
    }
