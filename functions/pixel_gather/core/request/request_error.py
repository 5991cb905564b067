"""Errors that name the wrong field of a request, and say what to write instead."""

from typing import Final, get_args

from pydantic import BaseModel, ValidationError

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.window_request import WINDOW_KINDS
from pixel_gather.core.request.wrong_values import in_words

_PARTS_OF_WINDOW: Final = {
    "pixels": ("column", "row", "width", "height"),
    "bbox": ("west", "south", "east", "north"),
    "size": ("width", "height"),
}
NO_WINDOW: Final = "no_window"
"""Kind of the mistake that a request says no window."""

_MOST_MISTAKES: Final = 1000
_LONGEST_NAME: Final = 100


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
    problems = error.errors(include_url=False)
    paths = [
        [*filter(None, [within]), *(_show_part(part) for part in problem["loc"] if not _is_branch_name(part))]
        for problem in problems
    ]
    of_field = [n for n, path in enumerate(paths) if path[: len(paths[0])] == paths[0]]
    deepest = max(of_field, key=lambda n: (len(paths[n]), problems[n]["type"] == "value_error"))
    first, path = problems[deepest], paths[deepest]
    message = in_words([first, *(problems[n] for n in of_field if paths[n] == path)])
    if first["type"] == "extra_forbidden":
        known = _fields_at(path[:-1], model)
        message = f"there is no such field; {'.'.join(path[:-1]) or 'a request'} takes {known}"
    if first["type"] == NO_WINDOW:
        path = ["window"]
        message += ": give one of " + ", ".join(f"{each} (--{each})" for each in WINDOW_KINDS)
        message += "; or windows (--windows)"
    if path[:1] in (["window"], ["windows"]) and (names := _PARTS_OF_WINDOW.get(".".join(path[1:-1]))):
        path, part = path[:-1], names[int(path[-1])]
        message = f"{path[-1]} is [{', '.join(names)}]: {part} {message.removeprefix('it ')}"
    elif first["type"] == "missing" and isinstance(first["loc"][-1], int):  # a list that is too short
        path = path[:-1]
        n = max(int(paths[n][-1]) for n in of_field if paths[n][:-1] == path) + 1
        message = f"give {n} values"
    others = [each for each in paths if each[: len(paths[0])] != paths[0] and each != path[: len(each)]]
    also_wrong = list(dict.fromkeys(".".join(each) for each in others))
    return RequestError(message, field=".".join(path) or "request", also_wrong=also_wrong)


def _show_part(part: object) -> str:
    text = str(part)
    return text if len(text) <= _LONGEST_NAME else text[:_LONGEST_NAME] + "…"


def _is_branch_name(part: object) -> bool:
    """Return whether pydantic added this part to a location to name a branch of a union."""
    text = str(part)
    return (
        "[" in text
        or text in ("ExplicitLayout", "GridRequest", "MaskRequest", "int", "float", "LayoutName")
        or text.startswith(("literal", "constrained-"))
    )


def _fields_at(path: list[str], model: type[BaseModel]) -> str:
    """Return the names of the fields of the object at a path."""
    for name in path:
        annotation = model.model_fields[name].annotation
        model = next(
            each
            for each in (annotation, *get_args(annotation))
            if isinstance(each, type) and issubclass(each, BaseModel)
        )
    return ", ".join(model.model_fields)
