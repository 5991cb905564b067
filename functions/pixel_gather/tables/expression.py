"""A closed grammar for what scenes are ranked by: names of bands, numbers, ``+ - * /``, and five functions.

Nothing is evaluated by Python. A text becomes a tree of the few kinds of nodes below, or an error that names
the position of the mistake.

::

    sum     = product  { ("+" | "-") product }
    product = signed { ("*" | "/") signed }
    signed  = { "-" | "+" } value
    value   = number | name [ ":" number ] | name "(" sum { "," sum } ")" | "(" sum ")"
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import RequestError

type Pixels = np.ndarray[Any, np.dtype[np.floating[Any]]]
type Node = float | str | tuple["str | Callable[..., Pixels]", tuple["Node", ...]]

FIELD: Final = "by"
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*(?::\d+)?)|(?P<sign>[-+*/(),]))"
)
_FUNCTIONS: Final[dict[str, tuple[int | None, Callable[..., Pixels]]]] = {
    "abs": (1, np.abs),
    "sqrt": (1, np.sqrt),
    "log": (1, np.log),
    "min": (None, lambda *each: reduce(np.minimum, each)),
    "max": (None, lambda *each: reduce(np.maximum, each)),
}
"""How many values each takes (None: two or more), and how it is computed."""
_BINARY: Final[dict[str, Callable[..., Pixels]]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
}
_LONGEST: Final = 1000
_DEEPEST: Final = 50


class _Token(NamedTuple):
    kind: str
    text: str
    at: int
    """Position of its first character, from 1."""


class Expression(Struct, frozen=True):
    """What is computed of each pixel."""

    text: str
    """As it was written."""

    names: tuple[str, ...]
    """The bands that it needs, in order of first use."""

    _tree: Node

    @classmethod
    def parse(cls, text: str) -> "Expression":
        """Parse an expression of band names.

        Raises:
            RequestError: It is none. The message names the position, counted from 1.
        """
        if len(text) > _LONGEST:
            raise RequestError(f"it has {len(text):,} characters; write at most {_LONGEST:,}", field=FIELD)
        parser = _Parser(text)
        tree = parser.whole()
        if not parser.names:
            raise RequestError("it names no band; write one, such as red", field=FIELD)
        return cls(text, tuple(parser.names), tree)

    @classmethod
    def band(cls, name: str) -> "Expression":
        """Return the expression that is one band, whatever its name."""
        return cls(name, (name,), name)

    @property
    def is_linear(self) -> bool:
        """Whether it is a band alone, so that averaging pixels before or after makes no difference."""
        return isinstance(self._tree, str)

    def evaluate(self, bands: Mapping[str, Pixels]) -> Pixels:
        """Return the value of each pixel. NaN or infinite where it has none, as after a division by 0."""
        with np.errstate(all="ignore"):
            return np.asarray(_evaluate(self._tree, bands), dtype=np.float64)


def _evaluate(node: Node, bands: Mapping[str, Pixels]) -> Any:
    if isinstance(node, float):
        return node
    if isinstance(node, str):
        return bands[node]
    function, parts = node
    assert callable(function)  # noqa: S101 # the parser puts nothing else there
    return function(*(_evaluate(part, bands) for part in parts))


class _Parser:
    """Reads the grammar above from left to right."""

    def __init__(self, text: str) -> None:
        self.names: dict[str, None] = {}
        self._text = text
        self._tokens = list(_tokens(text))
        self._next = 0
        self._depth = 0

    def whole(self) -> Node:
        tree = self._sum()
        if self._token.kind != "end":
            raise self._error_of_token("an operator such as + or the end")
        return tree

    def _sum(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise RequestError(f"position {self._token.at}: too many parentheses", field=FIELD)
        node = self._chain(("+", "-"), lambda: self._chain(("*", "/"), self._factor))
        self._depth -= 1
        return node

    def _chain(self, signs: tuple[str, ...], part: Callable[[], Node]) -> Node:
        node = part()
        while self._token.text in signs:
            sign = self._take().text
            node = (_BINARY[sign], (node, part()))
        return node

    def _factor(self) -> Node:
        is_negative = False
        while self._token.text in ("-", "+"):
            is_negative ^= self._take().text == "-"
        node = self._value()
        return (np.negative, (node,)) if is_negative else node

    def _value(self) -> Node:
        token = self._token
        if token.kind == "number":
            return float(self._take().text)
        if token.kind == "name":
            self._take()
            if self._token.text == "(":
                return self._call(token)
            self.names.setdefault(token.text)
            return token.text
        if token.text == "(":
            self._take()
            node = self._sum()
            self._expect(")")
            return node
        raise self._error_of_token("a band, a number or (")

    def _call(self, name: _Token) -> Node:
        if name.text not in _FUNCTIONS:
            known = ", ".join(_FUNCTIONS)
            raise RequestError(
                f"position {name.at}: there is no function {name.text}; there are {known}", field=FIELD
            )
        n_wanted, function = _FUNCTIONS[name.text]
        self._expect("(")
        parts = [self._sum()]
        while self._token.text == ",":
            self._take()
            parts.append(self._sum())
        self._expect(")")
        if len(parts) != n_wanted if n_wanted is not None else len(parts) < 2:  # noqa: PLR2004 # min(a, b)
            wanted = "one value" if n_wanted == 1 else "two or more values"
            raise RequestError(
                f"position {name.at}: {name.text} takes {wanted}, not {len(parts)}", field=FIELD
            )
        return (function, tuple(parts))

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._token
        self._next += 1
        return token

    def _expect(self, sign: str) -> None:
        if self._token.text != sign:
            raise self._error_of_token(sign)
        self._take()

    def _error_of_token(self, wanted: str) -> RequestError:
        token = self._token
        found = "it ends" if token.kind == "end" else f"{token.text!r} stands"
        return RequestError(f"position {token.at}: {found} where {wanted} is expected", field=FIELD)


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    end = len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise RequestError(
                f"position {at + 1}: {text[at]!r} is no part of an expression; use names of bands, numbers, "
                "+ - * / ( ) and abs, sqrt, log, min, max",
                field=FIELD,
            )
        kind = found.lastgroup
        yield _Token(kind, found[kind], found.start(kind) + 1)
        at = found.end()
    yield _Token("end", "", end + 1)
