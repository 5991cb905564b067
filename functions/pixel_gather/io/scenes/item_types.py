"""The types of a Parquet file's columns, found from the items that it will hold.

Items of several collections seldom agree on everything. What they do not agree on becomes a column of JSON
text. Items of one collection differ in their texts and numbers, and seldom in anything else. So the types are
found only once for each structure.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from arro3.core import DataType

type Kind = str | tuple[str, "Kind"] | dict[str, "Kind"]
"""``null``, ``bool``, ``int``, ``float``, ``text``, ``json``; ("list", kind); or an object's fields."""

_MOST_FIELDS: Final = 1000
_SCALARS: Final = {bool: "bool", int: "int", float: "float", str: "text"}
_LARGEST_INT: Final = 2**63
_JSON_STARTS: Final = ("[", "{", '"')


def from_json_text(text: str) -> Any:
    """Return the value of a column of kind ``json``, as `conform_value` wrote it."""
    if text[:1] not in _JSON_STARTS:
        return text
    try:
        return json.loads(text)
    except ValueError:  # text of somebody else's file
        return text


def kind_of(value: Any) -> Kind:
    """Return the kind of a value that came from JSON."""
    if value is None:
        return "null"
    if isinstance(value, list):
        return ("list", _common([kind_of(each) for each in value]))
    if isinstance(value, Mapping):
        return {str(name): kind_of(each) for name, each in value.items()}
    if type(value) is int and not -_LARGEST_INT <= value < _LARGEST_INT:
        return "float"
    return _SCALARS.get(type(value), "json")


def merge_kinds(one: Kind, other: Kind) -> Kind:
    """Return the kind that holds values of both."""
    if one in (other, "null"):
        return other
    if other == "null":
        return one
    if isinstance(one, tuple) and isinstance(other, tuple):
        return ("list", merge_kinds(one[1], other[1]))
    if isinstance(one, dict) and isinstance(other, dict):
        return _merged_fields(one, other)
    return "float" if one in ("int", "float") and other in ("int", "float") else "json"


def _common(kinds: Sequence[Kind]) -> Kind:
    found: Kind = "null"
    for kind in kinds:
        found = merge_kinds(found, kind)
    return found


def _merged_fields(one: dict[str, Kind], other: dict[str, Kind]) -> Kind:
    names = dict.fromkeys((*one, *other))
    if len(names) > _MOST_FIELDS:
        return "json"
    return {name: merge_kinds(one.get(name, "null"), other.get(name, "null")) for name in names}


def settle_kind(kind: Kind) -> Kind:
    """Return a kind that Parquet can store: without empty objects, and text where nothing was ever said."""
    if kind == "null":
        return "text"
    if isinstance(kind, tuple):
        return ("list", settle_kind(kind[1]))
    if isinstance(kind, dict):
        return {name: settle_kind(each) for name, each in kind.items()} or "json"
    return kind


def has_json(kind: Kind) -> bool:
    """Tell whether `conform_value` changes anything in values of a settled kind."""
    if isinstance(kind, tuple):
        return has_json(kind[1])
    if isinstance(kind, dict):
        return any(map(has_json, kind.values()))
    return kind == "json"


def conform_value(value: Any, kind: Kind) -> Any:
    """Return a value as a column of this kind takes it."""
    if value is None:
        return None
    if kind == "json":
        is_plain = isinstance(value, str) and value[:1] not in _JSON_STARTS
        return value if is_plain else json.dumps(value, separators=(",", ":"))
    if isinstance(kind, tuple):
        return [conform_value(each, kind[1]) for each in value]
    if isinstance(kind, dict):
        return {name: conform_value(value.get(name), each) for name, each in kind.items()}
    return value


def arrow_type(kind: Kind) -> "DataType":
    """Return the Arrow type of a settled kind."""
    from arro3.core import DataType, Field  # noqa: PLC0415 # only writing a catalog needs it

    if isinstance(kind, tuple):
        return DataType.list(Field("element", arrow_type(kind[1]), nullable=True))
    if isinstance(kind, dict):
        return DataType.struct([Field(name, arrow_type(each), nullable=True) for name, each in kind.items()])
    simple = {"bool": DataType.bool, "int": DataType.int64, "float": DataType.float64}
    return simple.get(kind, DataType.string)()


_ESCAPED_BACKSLASH: Final = b"\\\\", b"\0"
_ESCAPED_QUOTE: Final = b'\\"', b"\1"
_EMPTY_LIST: Final = b"[]", b"~"
_OF_WHOLE_NUMBERS: Final = b"-0123456789"
_LARGE: Final = re.compile(rb"\d{19}")
"""A whole number that may be too large for an integer."""


def hash_structure(content: bytes) -> bytes:
    """Return 16 bytes that are the same for JSON with the same names, and kinds of values in the same order.

    Quotes separate the texts from the rest. Of the texts, only names are kept. Of the rest, all but digits is
    kept. So a float leaves its point or its exponent, and a whole number leaves nothing. The JSON has no
    spaces between its parts, as msgspec writes it.
    """
    whole = content
    if b"\\" in content:
        content = content.replace(*_ESCAPED_BACKSLASH).replace(*_ESCAPED_QUOTE)
    parts = content.split(b'"')
    texts, between = parts[1::2], parts[::2]
    names = [text for text, behind in zip(texts, between[1:], strict=True) if behind[:1] == b":"]
    rest = b'"'.join(between).replace(*_EMPTY_LIST)
    if _LARGE.search(rest):
        return _digest(whole)
    return _digest(rest.translate(None, _OF_WHOLE_NUMBERS) + b'"' + b'"'.join(names))


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
