"""Errors that name the wrong field of a request, and say what to write instead."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.wrong_values import in_words

_PARTS_OF_WINDOW: Final = {
    "pixels": ("column", "row", "width", "height"),
    "bbox": ("west", "south", "east", "north"),
    "size": ("width", "height"),
}
_OF_FIELD: Final = "of_field"
_MISSING: Final = ("missing", "field_missing")
"""Kinds of mistakes: pydantic's and ours."""

_MOST_MISTAKES: Final = 1000
_MOST_EXPLAINED: Final = 20
_LONGEST_NAME: Final = 100
_NO_FIELD: Final = "there is no such field"
_LIKE: Final = 0.75
"""Likeness by difflib: a letter or two are wrong, such as sise for size."""


def mistake_in(field: str, message: str) -> PydanticCustomError:
    """Return the mistake that a validator of a whole object finds in one of its fields."""
    return PydanticCustomError(_OF_FIELD, "{message}", {"field": field, "message": message})


def missing(field: str, instead: str) -> PydanticCustomError:
    """Return the mistake that a field is needed, because nothing else was given instead of it."""
    return PydanticCustomError(_MISSING[1], "is needed: {instead}", {"field": field, "instead": instead})


def request_error(error: ValidationError, *, model: type[BaseModel], within: str = "") -> RequestError:
    """Return an error that names the wrong field, without the names of the model's branches.

    If a field accepts several types, the branch with the deepest mistake was probably meant, and then the one
    that says in words of its own what is wrong.
    """
    if error.error_count() > _MOST_MISTAKES:  # each takes 1 KB of memory
        n, known = error.error_count(), _fields_at([], model)
        return RequestError(
            f"it has {n:,} mistakes, too many to name; a request takes {known}", field="request"
        )
    mistakes = _Mistakes(error, within)
    path, message, first = mistakes.take()
    also_wrong: dict[str, str] = {}
    while mistakes.paths and len(also_wrong) < _MOST_EXPLAINED:
        other, what, problem = mistakes.take()
        if problem["type"] == "extra_forbidden":
            what = _NO_FIELD + _likely(other, model)
        also_wrong.setdefault(".".join(other), what)
    also_wrong |= {name: "" for each in mistakes.paths if (name := ".".join(each)) not in also_wrong}
    field = ".".join(path) or "request"
    also_wrong.pop(field, None)
    if first["type"] == "extra_forbidden":
        takes = f"; {'.'.join(path[:-1]) or 'a request'} takes {_fields_at(path[:-1], model)}"
        message = _NO_FIELD + (_likely(path, model) or takes)
    return RequestError(message, field=field, also_wrong=also_wrong, is_missing=first["type"] in _MISSING)


class _Mistakes:
    """The mistakes of a request that are not told yet, as pydantic names them."""

    def __init__(self, error: ValidationError, within: str) -> None:
        self.problems = error.errors(include_url=False)
        self.paths = [
            [
                *filter(None, [within]),
                *(_show_part(part) for part in each["loc"] if not _is_branch_name(part)),
            ]
            for each in self.problems
        ]

    def take(self) -> tuple[list[str], str, Mapping[str, Any]]:
        """Remove the first mistake. Return its field, what is wrong there, and what pydantic says of it."""
        problems, paths = self.problems, self.paths
        of_field = [n for n, path in enumerate(paths) if path[: len(paths[0])] == paths[0]]
        deepest = max(of_field, key=lambda n: (len(paths[n]), problems[n]["type"] == "value_error"))
        first, path = problems[deepest], paths[deepest]
        message = in_words([first, *(problems[n] for n in of_field if paths[n] == path)])
        others = [n for n, each in enumerate(paths) if n not in of_field and each != path[: len(each)]]
        self.problems, self.paths = [problems[n] for n in others], [paths[n] for n in others]
        if first["type"] in (_OF_FIELD, _MISSING[1]):
            path = [*path, first["ctx"]["field"]]
        if path[:1] in (["window"], ["windows"]) and (names := _PARTS_OF_WINDOW.get(".".join(path[1:-1]))):
            path, part = path[:-1], names[int(path[-1])]
            message = f"{path[-1]} is [{', '.join(names)}]: {part} {message.removeprefix('it ')}"
        elif first["type"] == "missing" and isinstance(first["loc"][-1], int):  # a list that is too short
            path = path[:-1]
            n = max(int(paths[n][-1]) for n in of_field if paths[n][:-1] == path) + 1
            message = f"give {n} values"
        return path, message, first


def _show_part(part: object) -> str:
    text = str(part)
    return text if len(text) <= _LONGEST_NAME else text[:_LONGEST_NAME] + "…"


def _is_branch_name(part: object) -> bool:
    """Return whether pydantic added this part to a location to name a branch of a union."""
    text = str(part)
    return (
        "[" in text
        or text in ("ExplicitLayout", "GridRequest", "MaskRequest", "int", "float", "str", "LayoutName")
        or text.startswith(("literal", "constrained-"))
    )


def _likely(path: list[str], model: type[BaseModel]) -> str:
    """Return a guess at the field that a wrong name stands for; empty if none is like it.

    A field of the request may belong into one of its objects, such as codec into output.
    """
    from difflib import get_close_matches  # noqa: PLC0415 # takes 20 ms, for a mistake alone

    near = get_close_matches(path[-1], _fields_at(path[:-1], model).split(", "), n=1, cutoff=_LIKE)
    inside = [] if len(path) > 1 else [f"{each}.{path[-1]}" for each in _objects_with(path[-1], model)]
    *others, last = [*inside, *near] or [""]
    return f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?" if last else ""


def _objects_with(name: str, model: type[BaseModel]) -> list[str]:
    """Return the fields of a model that may be an object with a field of this name."""
    return [
        field
        for field, info in model.model_fields.items()
        if any(name in each.model_fields for each in _models_in(info.annotation))
    ]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the models among the types of a field."""
    types = (annotation, *get_args(annotation))
    return [each for each in types if isinstance(each, type) and issubclass(each, BaseModel)]


def _fields_at(path: list[str], model: type[BaseModel]) -> str:
    """Return the names of the fields of the object at a path."""
    for name in path:
        model = _models_in(model.model_fields[name].annotation)[0]
    return ", ".join(model.model_fields)
