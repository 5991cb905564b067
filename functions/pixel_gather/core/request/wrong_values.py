"""Messages for wrong values in a request. Pure."""

from collections.abc import Callable, Mapping, Sequence
from reprlib import Repr
from typing import Any, Final

HALF_A_CHARACTER: Final = "it holds half of a character; write whole characters, in UTF-8"

_LONGEST_SHOWN: Final = 60
_repr: Final = Repr(maxstring=_LONGEST_SHOWN, maxother=_LONGEST_SHOWN)

type _Context = Mapping[str, Any]
type _Sentence = Callable[[_Context], str]


def _least_items(context: _Context) -> str:
    least = context["min_length"]
    return (
        "it is empty; give at least one" if context["actual_length"] == 0 else f"give at least {least} values"
    )


def _most_items(context: _Context) -> str:
    return f"give {context['max_length']} values"


def _pattern(context: _Context) -> str:
    if "://" in context["pattern"]:
        return "write a bucket or host, such as s3://bucket or https://host"
    return "write letters, digits, hyphens or underscores, at most 60, the first a letter or a digit"


_SENTENCES: Final[Mapping[str, _Sentence]] = {
    "missing": lambda _: "is needed",
    "too_short": _least_items,
    "too_long": _most_items,
    "string_too_short": lambda _: "it is empty",
    "string_too_long": lambda context: f"it is longer than {context['max_length']:,} characters",
    "string_unicode": lambda _: HALF_A_CHARACTER,
    "string_pattern_mismatch": _pattern,
    "literal_error": lambda context: f"write {context['expected']}",
    "finite_number": lambda _: "write a finite number",
    "greater_than": lambda context: f"write more than {context['gt']:,.15g}",
    "greater_than_equal": lambda context: f"the least is {context['ge']:,.15g}",
    "less_than_equal": lambda context: f"the most is {context['le']:,.15g}",
}
_KINDS: Final = (
    ("int_", "write a whole number"),
    ("float_", "write a number"),
    ("bool_", "write true or false"),
    ("string_type", "write text"),
    ("tuple_type", "write a list, such as [1, 2]"),
    ("model_", "write an object with fields of its own"),
    ("dict_", "write an object with fields of its own"),
)
_AFTER_NUMBERS: Final = ("literal_", "model_", "dict_")
_SAY_THEMSELVES: Final = (
    "missing",
    "too_short",
    "too_long",
    "string_too_short",
    "string_too_long",
    "string_unicode",
)
"""Mistakes whose message does not show the value."""


def either_in_words(problems: Sequence[Mapping[str, Any]]) -> str:
    """Return the first mistake's message. It also says what the field's other types would take.

    Args:
        problems: Mistakes of one value.
    """
    first = in_words(problems[0])
    start, write, _ = first.partition("; write ")
    if not write:
        return first
    numbers_first = sorted(problems, key=lambda each: each["type"].startswith(_AFTER_NUMBERS))
    said = [each for each in map(in_words, numbers_first) if each.startswith(f"{start}{write}")]
    return f"{start}{write}" + ", or ".join(
        dict.fromkeys(each.removeprefix(f"{start}{write}") for each in said)
    )


def in_words(problem: Mapping[str, Any]) -> str:
    """Return a message: what is wrong and what to write instead.

    Args:
        problem: One of pydantic's errors, as a dictionary.
    """
    kind = problem["type"]
    sentence = _SENTENCES.get(kind)
    if sentence is None:
        found = [words for start, words in _KINDS if kind.startswith(start)]
        if not found:  # messages of our own validators
            return str(problem["msg"]).removeprefix("Value error, ")
        said = found[0]
    else:
        said = sentence(problem.get("ctx", {}))
    if kind in _SAY_THEMSELVES:
        return said
    return f"it is {show_value(problem['input'])}; {said}"


def show_value(value: object) -> str:
    """Return a wrong value as text, cut if it is long."""
    text = _repr.repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
