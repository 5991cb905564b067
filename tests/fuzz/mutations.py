"""Changes bytes as fuzzing does, reproducibly. JSON stays JSON, so that more than its parser is reached."""

import json
import random
from collections.abc import Callable
from typing import Any, Final

_NUMBERS: Final = (0, -1, 1, 2, 255, 65536, 2**31, 2**53 + 1, 2**63, 10**400, -(10**400), 1e-300, 1.5, 1e308)
_TEXTS: Final = (
    "",
    " ",
    "\x00",
    "\ud800",
    "../..",
    "s3://",
    "NaN",
    "9" * 400,
    "é" * 40,
    "[" * 60,
    "2024-02-30",
    "9999-12-31T23:59:60Z",
)
_NESTED: Final = 1200
"""Deeper than Python's own recursion may go."""


def _deep() -> Any:
    value: Any = []
    for _ in range(_NESTED):
        value = [value]
    return value


def _deep_object() -> Any:
    value: Any = {}
    for _ in range(_NESTED):
        value = {"type": "GeometryCollection", "geometries": [value]}
    return value


_VALUES: Final[tuple[Callable[[], Any], ...]] = (
    *((lambda value=value: value) for value in (*_NUMBERS, *_TEXTS)),
    *((lambda value=value: value) for value in (None, True, False, float("nan"), float("inf"))),
    list,
    dict,
    lambda: [[]],
    lambda: [5],
    lambda: {"": None},
    _deep,
    _deep_object,
)


def mutated_bytes(content: bytes, chance: random.Random) -> bytes:
    """Return content with some bytes changed, cut out, doubled or added."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(changed) + 1)
        kind = chance.randrange(5)
        if kind == 0:
            changed[at : at + 1] = bytes([chance.randrange(256)])
        elif kind == 1:
            changed[at : at + chance.choice((1, 2, 4, 8))] = b"\xff" * chance.choice((1, 2, 4, 8))
        elif kind == 2:  # one of the kinds above
            del changed[at : at + chance.randrange(1, 16)]
        elif kind == 3:  # as above
            changed[at:at] = changed[at : at + chance.randrange(1, 32)]
        else:
            changed[at : at + 8] = chance.choice((0, 1, 1 << 31, 1 << 62)).to_bytes(8, "little")
    return bytes(changed)


def mutated_json(content: bytes, chance: random.Random) -> bytes:
    """Return JSON with some values replaced, removed, doubled or moved. What is no JSON changes by bytes."""
    try:
        tree = [json.loads(content)]
    except (ValueError, RecursionError):
        return mutated_bytes(content, chance)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = _places(tree)
        holder, key = chance.choice(places)
        kind = chance.randrange(6)
        if kind == 0 and holder is not tree:
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[chance.choice((*_TEXTS[:4], "type", "id", "href"))] = holder.pop(key)
        elif kind == 2:  # one of the kinds
            other, name = chance.choice(places)
            holder[key] = json.loads(json.dumps(other[name])) if _has(other, name) else None
        elif kind == 3:  # as above
            holder[key] = [holder[key]] * chance.choice((1, 2, 5))
        else:
            holder[key] = chance.choice(_VALUES)()
    try:
        return json.dumps(tree[0]).encode() if tree else b""
    except (RecursionError, ValueError):
        return content


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else key < len(holder)


def _places(tree: list[Any]) -> list[tuple[Any, Any]]:
    """Return where each value of a tree stands: its holder, and its key or position."""
    found: list[tuple[Any, Any]] = []
    waiting: list[Any] = [tree]
    while waiting and len(found) < 2000:  # enough to choose from
        holder = waiting.pop()
        items = holder.items() if isinstance(holder, dict) else enumerate(holder)
        for key, value in items:
            found.append((holder, key))
            if isinstance(value, dict | list):
                waiting.append(value)
    return found
