"""What the API takes and answers, as an OpenAPI 3.1 document, and the request's schema for API Gateway.

Both are made from `pixel_gather.core.request.request.request_schema`. Not for a function: this needs
pydantic, and ``handlers/api/openapi.json`` is what the API serves.
"""

import json
from pathlib import Path
from typing import Any, Final

from handlers.api.problems import INTERNAL_ERROR, KINDS, MEDIA_TYPE, NO_SUCH_ADDRESS, TYPE_PREFIX
from handlers.openapi.gather_answers import ANSWERS
from handlers.openapi.rank_paths import SCHEMAS as RANK_SCHEMAS
from handlers.openapi.rank_paths import rank_paths
from handlers.openapi.search_paths import SCHEMAS as SEARCH_SCHEMAS
from handlers.openapi.search_paths import search_paths
from pixel_gather.core.request.request import request_schema
from pixel_gather.version import __version__

OPENAPI_FILE: Final = Path(__file__).parents[1] / "api" / "openapi.json"
_SCHEMAS: Final = "#/components/schemas/"

type _Schema = dict[str, Any]

_QUERY: Final[dict[str, tuple[str, _Schema]]] = {
    "force": ("Gather anew, into another cube.", {"type": "boolean", "default": False}),
    "limit": ("Gathers in one answer.", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50}),
    "token": ("Token of the next page, from the answer before.", {"type": "string"}),
    "state": ("Only those in one state.", {"$ref": f"{_SCHEMAS}State"}),
}
_ID: Final[_Schema] = {
    "name": "id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$"},
}


def openapi_text() -> str:
    """Return ``openapi.json``, which a test holds to be true."""
    return json.dumps(openapi_document(), indent=2) + "\n"


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document without its server, which the function that serves it adds."""
    request = request_schema()
    parts = request.pop("$defs")
    del request["$schema"]
    schemas = {"GatherRequest": request, **parts, **ANSWERS, "Problem": _problem()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Pixel Gather",
            "version": __version__,
            "summary": "One small window out of every one of thousands of Cloud Optimized GeoTIFFs, as one "
            "Zarr array.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"sigv4": []}],
        "paths": _paths() | rank_paths() | search_paths(),
        "components": {
            "schemas": _renamed(schemas) | RANK_SCHEMAS | SEARCH_SCHEMAS,
            "responses": {
                "Problem": {
                    "description": "Why it was refused, and what to do instead.",
                    "content": {MEDIA_TYPE: {"schema": {"$ref": f"{_SCHEMAS}Problem"}}},
                }
            },
            "securitySchemes": {
                "sigv4": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "Signed with AWS credentials, Signature Version 4, for execute-api.",
                    "x-amazon-apigateway-authtype": "awsSigv4",
                }
            },
        },
    }


def request_model_schema() -> dict[str, Any]:
    """Return the schema that API Gateway checks requests by: an object with all required fields.

    It checks no more. API Gateway supports a part of JSON Schema, draft 4, and does not document which. A
    schema that it refuses would end a deployment. A schema that it understands differently would refuse
    right requests. And its refusals do not name the wrong field, as those of the functions do.
    """
    return {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "title": "GatherRequest",
        "type": "object",
        "required": request_schema()["required"],
    }


def _renamed(value: Any) -> Any:
    """Return schemas with their references pointing to the document's components."""
    if isinstance(value, dict):
        return {
            name: each.replace("#/$defs/", _SCHEMAS) if name == "$ref" else _renamed(each)
            for name, each in value.items()
        }
    return [_renamed(each) for each in value] if isinstance(value, list) else value


def _problem() -> _Schema:
    codes = sorted({*(kind.code for kind in KINDS), NO_SUCH_ADDRESS, INTERNAL_ERROR})
    return {
        "type": "object",
        "description": "Problem details (RFC 9457).",
        "required": ["type", "title", "detail"],
        "properties": {
            "type": {"type": "string", "examples": [TYPE_PREFIX + code for code in codes]},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "field": {"type": "string", "description": "What is wrong in the request."},
        },
    }


def _paths() -> _Schema:
    request, gather = "GatherRequest", "Gather"
    return {
        "/gathers": {
            "post": _operation(
                "submitGather",
                "Start a gather, or find the one that the same request has started.",
                {202: ("Started.", "Submitted"), 200: ("Started before.", "Submitted")},
                body=request,
                query=("force",),
                problems=(400, 422, 429),
            ),
            "get": _operation(
                "listGathers",
                "List gathers, the latest first.",
                {200: ("One page.", "Gathers")},
                query=("limit", "token", "state"),
                problems=(422, 429),
            ),
        },
        "/gathers/{id}": {
            "parameters": [_ID],
            "get": _operation(
                "getGather",
                "Describe a gather: state, progress, dollars, links to cube and report.",
                {200: ("As it is now.", "Status")},
                problems=(404, 429),
            ),
            "delete": _operation(
                "stopGather",
                "Stop a gather; what it has committed is kept.",
                {200: ("It has ended.", gather)},
                problems=(404, 429),
            ),
        },
        "/gathers/{id}/redrive": {
            "parameters": [_ID],
            "post": _operation(
                "redriveGather",
                "Run again the parts that failed in a gather that has ended.",
                {202: ("Running.", gather)},
                problems=(404, 409, 429),
            ),
        },
        "/plans": {
            "post": _operation(
                "planGather",
                "Price a gather, reading a few headers and no pixel.",
                {200: ("The plan.", "Plan")},
                body=request,
                problems=(400, 422, 503, 504),
            )
        },
        "/lists": {
            "post": _operation(
                "keepList",
                "Ask where to upload a list of sources. The list is named by its content.",
                {200: ("The list's href, and where to PUT the list if it is not there yet.", "ListPlace")},
                body="List",
                problems=(400, 422),
            )
        },
        "/openapi.json": {
            "get": _operation("getOpenapi", "This document.", {200: ("OpenAPI 3.1.", "Document")})
        },
    }


def _operation(
    name: str,
    summary: str,
    answers: dict[int, tuple[str, str]],
    *,
    body: str | None = None,
    query: tuple[str, ...] = (),
    problems: tuple[int, ...] = (),
) -> _Schema:
    operation: _Schema = {"operationId": name, "summary": summary}
    if query:
        operation["parameters"] = [
            {"name": each, "in": "query", "description": _QUERY[each][0], "schema": _QUERY[each][1]}
            for each in query
        ]
    if body is not None:
        operation["requestBody"] = {"required": True, "content": _json(body)}
    operation["responses"] = {
        str(status): {"description": description, "content": _json(schema)}
        for status, (description, schema) in answers.items()
    } | {str(status): {"$ref": "#/components/responses/Problem"} for status in (*problems, 403, 500)}
    return operation


def _json(schema: str) -> _Schema:
    return {"application/json": {"schema": {"$ref": _SCHEMAS + schema}}}
