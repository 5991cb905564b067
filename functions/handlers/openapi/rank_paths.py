"""The paths of the rank function in the OpenAPI document, and schemas of what it takes and answers."""

from typing import Any, Final

type _Schema = dict[str, Any]

_TEXT: Final[_Schema] = {"type": "string"}
_NUMBER: Final[_Schema] = {"type": "number"}
_WHOLE: Final[_Schema] = {"type": "integer"}
_OBJECT: Final[_Schema] = {"type": "object"}
_TRUTH: Final[_Schema] = {"type": "boolean"}
_JSON: Final = "application/json"


_STATE: Final[_Schema] = {"$ref": "#/components/schemas/State"}
_ID: Final[_Schema] = {
    "name": "id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$"},
}


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
                "description": "Largest standard error: a number, or a share of the spread of all values, "
                "such as 2%. Or coarse, exact, every:5.",
                "default": "2%",
            },
            "order": {"enum": ["desc", "asc"], "default": "desc"},
            "top": {"type": "integer", "minimum": 1, "description": "Places to decide."},
            "bands": _OBJECT | {"description": "The band or asset that each name in by stands for."},
            "raw": {"type": "boolean", "default": False, "description": "Leave scale and offset out."},
            "limits": _OBJECT
            | {
                "description": "usd and seconds. A ranking is refused if its forecast after the first scene "
                "is higher. A later round of a large ranking is not begun if it would cost more than usd."
            },
            "check_kept": _TRUTH
            | {
                "description": "Whether to ask first if the files of kept statistics are the same. Not "
                "given: it asks, but a large ranking that is complete is not begun again. True: it is.",
            },
        },
    },
    "RankingStarted": {
        "type": "object",
        "description": "A large ranking. GET the link self until its state is no longer running.",
        "required": ["id", "state", "submitted_at", "ended_at", "seconds", "links", "is_new"],
        "properties": {
            "id": _TEXT,
            "state": _STATE,
            "submitted_at": _TEXT,
            "ended_at": _or_null(_TEXT, "UTC."),
            "seconds": _NUMBER,
            "links": _OBJECT | {"description": "self."},
            "is_new": _TRUTH | {"description": "False if the same ranking was running already."},
        },
    },
    "RankingLine": {
        "type": "object",
        "description": "A large ranking in a list, or after it was stopped or redriven.",
        "required": ["id", "state", "submitted_at", "ended_at", "seconds", "links"],
        "properties": {
            "id": _TEXT,
            "state": _STATE,
            "submitted_at": _TEXT,
            "ended_at": _or_null(_TEXT, "UTC."),
            "seconds": _NUMBER,
            "links": _OBJECT | {"description": "self."},
        },
    },
    "Rankings": {
        "type": "object",
        "required": ["rankings", "next"],
        "properties": {
            "rankings": {"type": "array", "items": {"$ref": "#/components/schemas/RankingLine"}},
            "next": _or_null(_TEXT, "token of the next page."),
        },
    },
    "RankingStatus": {
        "type": "object",
        "required": ["id", "state", "submitted_at", "ended_at", "seconds", "links", "scenes", "ranking"],
        "properties": {
            "id": _TEXT,
            "state": _STATE,
            "submitted_at": _TEXT,
            "ended_at": _or_null(_TEXT, "UTC."),
            "seconds": _NUMBER,
            "links": _OBJECT
            | {
                "description": "self. While it runs: stop. If a redrive can continue it: redrive. "
                "At the end: table and parquet, the whole table on S3."
            },
            "request": _or_null(_OBJECT, "As it was posted."),
            "round": _or_null(_WHOLE, "From 1; null before the first."),
            "scenes": _or_null(_OBJECT, "total; wanted and read: of this round; failed: at the end."),
            "usd": _or_null(
                _NUMBER, "By list prices. Until the end, a forecast up to the end of this round."
            ),
            "error": _or_null(_OBJECT, "type and detail, if it has failed."),
            "result": _or_null(_OBJECT, "Totals and places of the table."),
            "ranking": {
                "description": "The table, once it is complete; its first rows if it is over 5 MB.",
                "anyOf": [{"$ref": "#/components/schemas/Ranking"}, {"type": "null"}],
            },
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
            "table": _TEXT | {"description": "Address of the whole table as JSON, of a large ranking."},
            "parquet": _TEXT | {"description": "The same as Parquet."},
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
            "factor": _or_null(_NUMBER, "Width of a pixel that was read, in pixels of full resolution."),
            "clear": _or_null(_NUMBER, "Share of the area, 0 to 1."),
            "clear_low": _or_null(_NUMBER, "Lower end of its 95 % interval."),
            "clear_high": _or_null(_NUMBER, "Upper end."),
            "valid": _or_null(_NUMBER, "Share of the area with data."),
            "valid_low": _or_null(_NUMBER, "Lower end of its 95 % interval."),
            "valid_high": _or_null(_NUMBER, "Upper end."),
            "remarks": _or_null(_TEXT, "What the error relies on, and what was ignored of the metadata."),
            "pixels": _or_null(_WHOLE, "Pixels that counted."),
            "bytes": _WHOLE,
            "requests": _WHOLE,
            "seconds": _NUMBER,
            "kept": {"type": "boolean"},
            "status": _TEXT,
            "reason": _or_null(_TEXT, "Why there is no value, or why no finer level was read."),
            "hrefs": {"type": "array", "items": _TEXT},
        },
    },
}


def rank_paths() -> dict[str, _Schema]:
    """Return the paths of the rank function."""
    return {
        "/rankings": {
            "post": {
                "operationId": "rankScenes",
                "summary": "Rank scenes: at once, or as a large ranking if that would take over 20 s.",
                "parameters": [
                    {
                        "name": "Prefer",
                        "in": "header",
                        "required": False,
                        "description": "respond-async asks for a large ranking, however small it is.",
                        "schema": _TEXT,
                    }
                ],
                "requestBody": {
                    "required": True,
                    "content": {_JSON: {"schema": {"$ref": "#/components/schemas/RankingRequest"}}},
                },
                "responses": {
                    "200": _answer("The ranking.", "Ranking"),
                    "202": _answer("A large ranking has started, or is running.", "RankingStarted"),
                    **_problems(400, 403, 422, 429, 500, 503, 504),
                },
            },
            "get": {
                "operationId": "listRankings",
                "summary": "List large rankings, the latest first.",
                "parameters": [
                    {
                        "name": "limit",
                        "in": "query",
                        "description": "Rankings in one answer.",
                        "schema": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50},
                    },
                    {
                        "name": "token",
                        "in": "query",
                        "description": "Token of the next page, from the answer before.",
                        "schema": _TEXT,
                    },
                    {
                        "name": "state",
                        "in": "query",
                        "description": "Only those in one state.",
                        "schema": _STATE,
                    },
                ],
                "responses": {
                    "200": _answer("One page.", "Rankings"),
                    **_problems(403, 422, 429, 500),
                },
            },
        },
        "/rankings/{id}": {
            "parameters": [_ID],
            "get": {
                "operationId": "getRanking",
                "summary": "Progress of a large ranking; at the end its table.",
                "responses": {
                    "200": _answer("The large ranking.", "RankingStatus"),
                    **_problems(403, 404, 429, 500, 503, 504),
                },
            },
            "delete": {
                "operationId": "stopRanking",
                "summary": "Stop a large ranking; what it has read is kept.",
                "responses": {
                    "200": _answer("It has ended.", "RankingLine"),
                    **_problems(403, 404, 429, 500),
                },
            },
        },
        "/rankings/{id}/redrive": {
            "parameters": [_ID],
            "post": {
                "operationId": "redriveRanking",
                "summary": "Go on with a large ranking that failed, timed out or was stopped.",
                "responses": {
                    "202": _answer("Running.", "RankingLine"),
                    **_problems(403, 404, 409, 429, 500),
                },
            },
        },
    }


def _answer(description: str, schema: str) -> _Schema:
    content = {_JSON: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": description, "content": content}


def _problems(*statuses: int) -> _Schema:
    return {str(status): {"$ref": "#/components/responses/Problem"} for status in statuses}
