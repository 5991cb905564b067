"""What the API takes and answers, as an OpenAPI 3.1 document, and the schemas of bodies for API Gateway.

Both are made from the table of routes and from types. Not for a function: this needs pydantic. Packages of
functions have the document as a file, which the API serves.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from handlers.api.problems import MEDIA_TYPE
from handlers.api.route import JSON, TEXT, Answer, Parameter, Route
from handlers.openapi.routes import ROUTES
from handlers.openapi.schemas import SCHEMAS, Schema, type_schemas
from pixel_gather.core.request.request import request_schema
from pixel_gather.version import __version__

_REQUEST: Final = "GatherRequest"
_CHECKED_BODIES: Final = (_REQUEST, "List")
_ID: Final[Schema] = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$"}
_OF_ALL: Final = (403, 500)
"""Statuses that any route may refuse with."""


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document without its server, which the function that serves it adds."""
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
        "paths": _paths(),
        "components": {
            "schemas": _request_schemas() | type_schemas(_named_types()),
            "responses": {
                "Problem": {
                    "description": "Why it was refused, and what to do instead.",
                    "content": _content("Problem", MEDIA_TYPE),
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


def body_schemas() -> dict[str, Schema]:
    """Return the schemas that API Gateway checks bodies by: an object with all required fields.

    It checks no more. API Gateway supports a part of JSON Schema, draft 4, and does not document which. A
    schema that it refuses would end a deployment. A schema that it understands differently would refuse
    right requests. And its refusals do not name the wrong field, as those of the functions do.
    """
    known = _request_schemas() | type_schemas(set(_CHECKED_BODIES) - {_REQUEST})
    return {
        name: {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "title": name,
            "type": "object",
            "required": known[name]["required"],
        }
        for name in _CHECKED_BODIES
    }


def _request_schemas() -> dict[str, Schema]:
    """Return the schema of a gather's request, and those of its parts."""
    request = request_schema()
    parts = request.pop("$defs")
    del request["$schema"]
    renamed: dict[str, Schema] = _point_to_components({_REQUEST: request, **parts})
    return renamed


def _point_to_components(value: Any) -> Any:
    """Return schemas with their references pointing to the document's components."""
    if isinstance(value, dict):
        return {
            name: each.replace("#/$defs/", SCHEMAS) if name == "$ref" else _point_to_components(each)
            for name, each in value.items()
        }
    return [_point_to_components(each) for each in value] if isinstance(value, list) else value


def _named_types() -> Iterator[str]:
    yield from ("State", "Problem")
    for route in ROUTES:
        for answer in route.answers.values():
            yield from answer.type.split(" | ")
        if route.body is not None and route.body != _REQUEST:
            yield route.body


def _paths() -> Schema:
    paths: dict[str, Schema] = {}
    for route in ROUTES:
        path = paths.setdefault(route.path, _path_parameters(route.path))
        path[route.method.lower()] = _operation(route)
    return paths


def _path_parameters(path: str) -> Schema:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _ID if name == "id" else TEXT}
        for name in re.findall(r"\{(\w+)\}", path)
    ]
    return {"parameters": parameters} if parameters else {}


def _operation(route: Route) -> Schema:
    operation: Schema = {"operationId": route.name, "summary": route.summary}
    parameters = [*_parameters(route.headers, "header"), *_parameters(route.query, "query")]
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": _content(route.body)}
    answers = {str(status): _answer(answer) for status, answer in route.answers.items()}
    of_query = () if 400 in route.problems else (422,)  # noqa: PLR2004 # a parameter that there is not
    problems = sorted({*route.problems, *_OF_ALL, *of_query})
    operation["responses"] = answers | {
        str(status): {"$ref": "#/components/responses/Problem"} for status in problems
    }
    return operation


def _parameters(parameters: Mapping[str, Parameter], place: str) -> Iterator[Schema]:
    for name, each in parameters.items():
        yield {"name": name, "in": place, "description": each.description, "schema": each.schema}


def _answer(answer: Answer) -> Schema:
    described: Schema = {
        "description": answer.description,
        "content": _content(answer.type, answer.media_type),
    }
    if answer.headers:
        described["headers"] = {
            name: {"description": each.description, "schema": each.schema}
            for name, each in answer.headers.items()
        }
    return described


def _content(type_name: str, media_type: str = JSON) -> Schema:
    either = [{"$ref": SCHEMAS + name} for name in type_name.split(" | ")]
    return {media_type: {"schema": {"anyOf": either} if len(either) > 1 else either[0]}}
