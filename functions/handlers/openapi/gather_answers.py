"""Schemas of the API's answers, and of the body of POST /lists. Times in seconds."""

from typing import Any, Final

type _Schema = dict[str, Any]

_TEXT: Final[_Schema] = {"type": "string"}
_HREF: Final[_Schema] = {"type": ["string", "null"], "examples": ["s3://bucket/name.zarr"]}
_COUNT: Final[_Schema] = {"type": "integer", "minimum": 0}
_NUMBER: Final[_Schema] = {"type": "number", "minimum": 0}
_SHAPE: Final[_Schema] = {"type": "array", "items": _COUNT, "minItems": 3, "maxItems": 3}
_LINKS: Final[_Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
_WARNINGS: Final[_Schema] = {"type": "array", "items": _TEXT}
_TIME: Final[_Schema] = {"type": "string", "format": "date-time"}


def _object(properties: dict[str, _Schema], **more: Any) -> _Schema:
    return {"type": "object", "properties": properties, "required": list(properties), **more}


def _or_null(schema: _Schema) -> _Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _schema(name: str) -> _Schema:
    return {"$ref": f"#/$defs/{name}"}


_GATHER: Final[dict[str, _Schema]] = {
    "id": _TEXT,
    "state": _schema("State"),
    "submitted_at": _TIME,
    "ended_at": _or_null(_TIME),
    "seconds": _NUMBER,
    "links": _LINKS,
}

_RESULT: Final = _object(
    {
        "gather": {"type": "string", "description": "The cube's name."},
        "cube": _TEXT,
        "report": _or_null(_TEXT) | {"description": "For programs; null where it could not be written."},
        "report_page": _or_null(_TEXT) | {"description": "For a browser; null where it could not be drawn."},
        "digest": {"type": "string", "description": "Digest of all pixels. Equal digests mean equal pixels."},
        "n_sources": _COUNT,
        "n_failed": _COUNT,
        "status": {"type": "object", "additionalProperties": _COUNT},
        "shape": _SHAPE,
        "n_appended": _or_null(_COUNT)
        | {"description": "Rows that an append added: 0 if the cube had all sources; null for a new cube."},
        "wall_s": _NUMBER,
        "fetched_nbytes": _COUNT,
        "requests": _COUNT,
        "retries": _COUNT,
        "stored_nbytes": _COUNT,
        "n_shards": _COUNT,
        "n_lost_shards": _COUNT,
        "usd": _NUMBER,
    }
)

_STATUS: Final = _object(
    _GATHER
    | {
        "request": {"type": ["object", "null"], "description": "As it was submitted."},
        "cube": _HREF,
        "shards": _or_null(
            _object(dict.fromkeys(("total", "pending", "running", "succeeded", "failed"), _COUNT))
        ),
        "sources": _or_null(_object({"total": _COUNT, "done": _COUNT, "failed": _or_null(_COUNT)})),
        "usd": _object({"planned": _or_null(_NUMBER), "so_far": _or_null(_NUMBER), "basis": _TEXT}),
        "error": _or_null(_object({"type": _TEXT, "detail": _TEXT})),
        "result": _or_null(_schema("Result")),
        "warnings": _WARNINGS,
    }
)

_PLAN: Final = _object(
    {
        "digest": _TEXT,
        "sources": _COUNT,
        "dims": {"type": "array", "items": _TEXT},
        "shape": _SHAPE,
        "measurements": {
            "type": "array",
            "items": _object(
                {
                    "name": _TEXT,
                    "dtype": _TEXT,
                    "nodata": _or_null(_TEXT),
                    "scale": {"type": "number"},
                    "offset": {"type": "number"},
                }
            ),
        },
        "crs": _or_null(_TEXT),
        "transform": _or_null({"type": "array", "items": {"type": "number"}}),
        "layout": _object({"chunk": _SHAPE, "shard": _SHAPE, "codec": _TEXT}),
        "shards": _COUNT,
        "part_bytes": _or_null(_COUNT)
        | {"description": "Longer ranges are fetched in parallel parts; null where they are not."},
        "estimate": _object(
            {
                "n_gets": _COUNT,
                "n_puts": _COUNT,
                "fetched_nbytes": _COUNT,
                "decoded_nbytes": _COUNT,
                "n_workers": _COUNT,
                "most_workers": _COUNT,
                "seconds": _NUMBER,
                "seconds_by_part": {"type": "object", "additionalProperties": _NUMBER},
                "bound_by": {
                    "type": "string",
                    "description": "The binding limit: without it, the gather would end soonest.",
                },
                "enough_workers": _COUNT,
                "worker_memory_mib": _COUNT,
                "tasks_per_child": _COUNT,
                "n_children": _COUNT,
                "transfer_nbytes": _COUNT,
                "usd": _NUMBER,
                "usd_by_service": {"type": "object", "additionalProperties": _NUMBER},
                "usd_at_most": _or_null(_NUMBER)
                | {
                    "description": "Dollars if all workers are late at both tries, "
                    "and are throttled for days."
                },
                "figures": {
                    "type": "array",
                    "items": _object(
                        {"what": _TEXT, "how_much": _TEXT, "rests_on": {"type": "array", "items": _TEXT}}
                    ),
                    "description": "What each number above rests on.",
                },
            }
        ),
        "warnings": _WARNINGS,
    }
)

ANSWERS: Final[dict[str, _Schema]] = {
    "State": {"enum": ["running", "succeeded", "failed", "stopped", "timed_out"]},
    "Gather": _object(_GATHER),
    "Submitted": _object(_GATHER | {"is_new": {"type": "boolean"}}),
    "Gathers": _object(
        {"gathers": {"type": "array", "items": _schema("Gather")}, "next": _or_null(_TEXT)},
    ),
    "Result": _RESULT,
    "Status": _STATUS,
    "Plan": _PLAN,
    "List": _object(
        {
            "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "suffix": {"type": "string", "description": "The list's format.", "examples": ["csv"]},
            "nbytes": {"type": "integer", "minimum": 1},
        },
        additionalProperties=False,
    ),
    "ListPlace": _object(
        {
            "href": {"type": "string", "description": "For sources.list."},
            "upload": {
                "type": ["string", "null"],
                "description": "PUT the list here within 15 minutes; null where it is there already.",
            },
            "headers": {
                "type": "object",
                "additionalProperties": _TEXT,
                "description": "To be sent with it.",
            },
        }
    ),
    "Document": {"type": "object"},
}
"""Schemas by name. Their references are relative to this mapping, as in the request's schema."""
