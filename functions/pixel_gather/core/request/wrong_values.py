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


def _pattern(context: _Context) -> str:
    if "://" in context["pattern"]:
        return "a bucket or host, such as s3://bucket or https://host"
    return "letters, digits, hyphens or underscores, at most 60, the first a letter or a digit"


_ALONE: Final[Mapping[str, _Sentence]] = {
    "missing": lambda _: "is needed",
    "too_short": _least_items,
    "too_long": lambda context: f"give {context['max_length']} values",
    "string_too_short": lambda _: "it is empty",
    "string_too_long": lambda context: f"it is longer than {context['max_length']:,} characters",
    "string_unicode": lambda _: HALF_A_CHARACTER,
}
"""Messages that do not show the value."""

_BOUNDS: Final[Mapping[str, _Sentence]] = {
    "greater_than_equal": lambda context: f"the least is {context['ge']:,.15g}",
    "less_than_equal": lambda context: f"the most is {context['le']:,.15g}",
}
_TO_WRITE: Final[Mapping[str, _Sentence]] = {
    "string_pattern_mismatch": _pattern,
    "literal_error": lambda context: str(context["expected"]),
    "finite_number": lambda _: "a finite number",
    "greater_than": lambda context: f"more than {context['gt']:,.15g}",
}
"""What may be written instead, by the kind of the mistake."""

_KINDS: Final = (
    ("int_", "a whole number"),
    ("float_", "a number"),
    ("bool_", "true or false"),
    ("string_type", "text"),
    ("tuple_type", "a list"),
    ("model_", "an object"),
    ("dict_", "an object"),
)
"""The same, by the beginning of the kind."""

_BOX: Final = "[11.3, 46.4, 11.4, 46.5]"
LISTS: Final[Mapping[str, str]] = {
    "anchor": "[0, 0]",
    "area": _BOX,
    "assets": "[red, nir]",
    "bands": "[1, 2]",
    "bbox": _BOX,
    "bits": "[3, 4]",
    "chunk": "[12, 256, 256]",
    "collections": "[sentinel-2-l2a]",
    "drop": "[3, 8, 9]",
    "duplicates_by": "[grid:code, datetime]",
    "hrefs": "[s3://bucket/a.tif, s3://bucket/b.tif]",
    "ids": "[scene-1, scene-2]",
    "pixels": "[0, 0, 256, 256]",
    "point": "[11.35, 46.5]",
    "shape": "[256, 256]",
    "size": "[256, 256]",
    "tile": "[0, 0]",
    "transform": "[10, 0, 600000, 0, -10, 5200000]",
}
"""An example of each list of a request, by the last part of its field."""

OBJECTS: Final[Mapping[str, str]] = {
    "area": "{type: Point, coordinates: [11.35, 46.5]}",
    "assets": "{red: B04, nir: B08}",
    "bits": "{cloud: 3}",
    "catalog": "{file: catalog.parquet, assets: [red, nir]}",
    "cmr": "{short_name: HLSL30}",
    "grid": "{resolution: 10, crs: utm}",
    "layout": "{chunk: [12, 256, 256]}",
    "limits": "{usd: 5}",
    "mask": "{band: scl, drop: [3, 8, 9]}",
    "output": "{layout: slice}",
    "reduce": "{by: month, statistic: median}",
    "requests_per_s": "{s3://bucket: 100}",
    "resampling": "{red: average}",
    "stac": "{api: https://example.org/stac, assets: [red, nir]}",
    "where": "{eo:cloud_cover: {lt: 40}}",
    "window": f"{{bbox: {_BOX}}}",
    "windows": "{table: chips.csv, size: [256, 256]}",
}
"""The same for objects."""
_AFTER_NUMBERS: Final = ("literal_", "model_", "dict_")
"""Kinds of mistakes whose advice comes last: a word or an object may stand for a number."""


def in_words(problems: Sequence[Mapping[str, Any]]) -> str:
    """Return a message: what is wrong with a value, and what to write instead.

    Args:
        problems: Pydantic's errors as dictionaries, one for each type that the field takes. The first says
            what is wrong. Each other one only adds another thing that may be written.
    """
    first = problems[0]
    kind, context = first["type"], first.get("ctx", {})
    if kind in _ALONE:
        return _ALONE[kind](context)
    if kind in _BOUNDS:
        said = _BOUNDS[kind](context)
    elif _to_write(first) is None:  # messages of our own validators
        return str(first["msg"]).removeprefix("Value error, ")
    else:
        numbers_first = sorted(problems, key=lambda each: each["type"].startswith(_AFTER_NUMBERS))
        said = f"write {', or '.join(dict.fromkeys(filter(None, map(_to_write, numbers_first))))}"
    return f"it is {show_value(first['input'])}; {said}"


def _to_write(problem: Mapping[str, Any]) -> str | None:
    """Return what may be written instead of a wrong value; None if its kind does not say so."""
    kind = problem["type"]
    if sentence := _TO_WRITE.get(kind):
        return sentence(problem.get("ctx", {}))
    words = next((words for start, words in _KINDS if kind.startswith(start)), None)
    examples = {"a list": LISTS, "an object": OBJECTS}.get(words or "", {})
    # the last part may be a branch of the type
    field = next((part for part in reversed(problem["loc"][-2:]) if part in examples), None)
    return words if field is None else f"{words}, such as {examples[field]}"


def show_value(value: object) -> str:
    """Return a wrong value as text, cut if it is long."""
    text = _repr.repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
