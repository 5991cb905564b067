"""What a route of the API is. Each feature has a table of its own routes.

The resolver, the OpenAPI document and API Gateway read the tables, so none of them states a route. Types of
bodies and answers are named and not imported, because most functions need no pydantic.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

JSON: Final = "application/json"

TEXT: Final[Mapping[str, Any]] = {"type": "string"}
NUMBER: Final[Mapping[str, Any]] = {"type": "number"}
FLAG: Final[Mapping[str, Any]] = {"type": "boolean", "default": False}


class Parameter(Struct, frozen=True):
    """A parameter of a query, or a header."""

    description: str
    schema: Mapping[str, Any] = msgspec.field(default_factory=lambda: TEXT)
    """As JSON Schema."""


class Answer(Struct, frozen=True):
    """What a route answers with one status."""

    description: str
    type: str
    """Name of a type in an ``answers`` module, or several with ``|`` between them."""

    media_type: str = JSON
    headers: Mapping[str, Parameter] = {}


class Route(Struct, frozen=True, kw_only=True):
    """One method of one path."""

    method: str
    path: str
    """With the names of its parameters in braces, from a slash on."""

    function: str
    """Module of ``handlers`` that answers."""

    name: str
    """Name in the OpenAPI document, by which the function finds the route."""

    summary: str
    answers: Mapping[int, Answer]
    """Answers by their status."""

    body: str | None = None
    """Name of the body's type, as that of an answer."""

    query: Mapping[str, Parameter] = {}
    headers: Mapping[str, Parameter] = {}
    problems: tuple[int, ...] = ()
    """Statuses of its refusals. Every route may also answer 403 and 500."""


LIMIT_QUERY: Final[Mapping[str, Parameter]] = {
    "workers": Parameter("Most workers.", {"type": "integer", "minimum": 1, "maximum": 10_000})
}


def list_query(what: str) -> dict[str, Parameter]:
    """Return the query of a route that lists ``what``: gathers or tables."""
    limit = {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50}
    return {
        "limit": Parameter(f"{what} in one answer.", limit),
        "token": Parameter("Token of the next page, from the answer before."),
        "state": Parameter("Only those in one state.", {"$ref": "#/components/schemas/State"}),
    }
