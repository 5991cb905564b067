"""JSON Schemas of what the API takes and answers, made from the types in the ``answers`` modules.

msgspec makes them. The text below a field, which msgspec does not see, is the field's description.
"""

import ast
import inspect
from collections.abc import Iterable
from itertools import pairwise
from types import get_original_bases
from typing import Any, Final

import msgspec

from handlers.api import answers as of_api
from handlers.gather import answers as of_gathers
from handlers.rank import answers as of_rankings
from handlers.search import answers as of_searches
from handlers.tables import answers as of_tables
from pixel_gather.core.estimate import estimate_result

SCHEMAS: Final = "#/components/schemas/"
_TYPES: Final[dict[str, Any]] = {
    name: each
    for module in (estimate_result, of_api, of_gathers, of_rankings, of_searches, of_tables)
    for name, each in vars(module).items()
}

type Schema = dict[str, Any]


def type_schemas(names: Iterable[str]) -> dict[str, Schema]:
    """Return the schemas of types, and of those that they are made of, by name."""
    wanted = sorted(set(names))
    given, parts = msgspec.json.schema_components(
        [_TYPES[name] for name in wanted], ref_template=SCHEMAS + "{name}"
    )
    aliases = {name: schema for name, schema in zip(wanted, given, strict=True) if name not in parts}
    return aliases | {name: _describe_fields(schema, _TYPES[name]) for name, schema in parts.items()}


def _describe_fields(schema: Schema, type_: Any) -> Schema:
    """Return a class's schema with its fields in their order, each with its description."""
    del schema["title"]  # it repeats the name
    if "properties" not in schema:
        return schema
    texts = _field_texts(type_)
    schema["properties"] = {
        name: schema["properties"][name] | ({"description": texts[name]} if name in texts else {})
        for name in inspect.get_annotations(type_)
    }
    if issubclass(type_, msgspec.Struct):  # an answer has all fields, whatever has a default in our code
        schema["required"] = list(schema["properties"])
        for each in schema["properties"].values():
            each.pop("default", None)
    return schema


def _field_texts(type_: type) -> dict[str, str]:
    """Return the texts below the fields of a class and of those that it inherits from."""
    texts: dict[str, str] = {}
    for base in get_original_bases(type_):
        if base.__module__.startswith("handlers."):
            texts |= _field_texts(base)
    (statement,) = ast.parse(inspect.getsource(type_)).body
    assert isinstance(statement, ast.ClassDef)  # noqa: S101 # it is a class
    for field, text in pairwise(statement.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(value=str(said))):
                texts[name] = " ".join(said.replace("``", "`").split())
    return texts
