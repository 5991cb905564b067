"""What a route of the API is. Each feature has a table of its own routes.

The resolver, the OpenAPI document and API Gateway read the tables, so none of them states a route. Types of
bodies and answers are named and not imported, because most functions need neither msgspec nor pydantic.
"""

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

from pixel_gather.core.errors import RequestError

JSON: Final = "application/json"

TEXT: Final[Mapping[str, Any]] = {"type": "string"}
NUMBER: Final[Mapping[str, Any]] = {"type": "number"}
FLAG: Final[Mapping[str, Any]] = {"type": "boolean", "default": False}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a query, or a header."""

    description: str
    schema: Mapping[str, Any] = field(default_factory=lambda: TEXT)
    """As JSON Schema."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a route answers with one status."""

    description: str
    type: str
    """Name of a type in an ``answers`` module."""

    _: KW_ONLY
    media_type: str = JSON
    headers: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
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

    query: Mapping[str, Parameter] = field(default_factory=dict)
    headers: Mapping[str, Parameter] = field(default_factory=dict)
    problems: tuple[int, ...] = ()
    """Statuses of its refusals. Every route may also answer 403 and 500."""


def list_query(what: str) -> dict[str, Parameter]:
    """Return the query of a route that lists ``what``: gathers or tables."""
    limit = {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50}
    return {
        "limit": Parameter(f"{what} in one answer.", limit),
        "token": Parameter("Token of the next page, from the answer before."),
        "state": Parameter("Only those in one state.", {"$ref": "#/components/schemas/State"}),
    }


def check_names(given: Iterable[str], known: Iterable[str], *, what: str) -> None:
    """Refuse a name that would be ignored.

    Raises:
        RequestError: It names it, and those that there are.
    """
    if unknown := set(given) - set(known):
        taken = ", ".join(sorted(known)) or "none"
        raise RequestError(f"there is no such {what}; it takes {taken}", field=min(unknown) or "''")
