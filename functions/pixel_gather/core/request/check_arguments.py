"""Refuses arguments of public functions that are of a wrong type, by what the signatures say. Pure."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, wraps
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.wrong_values import show_value

_SAY_MORE: Final = (("by", str), ("crs", str | None))
"""Name and annotation of arguments that are checked where they are used. There the message has an example."""

type _Kind = tuple[Callable[[Any], bool], str]
"""A test of a value, and words for what the user should write, such as ``a number``."""


def check_arguments[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a check of its arguments before its body runs.

    Annotations say which types are checked: numbers, texts, booleans, literals, lists, callables, settings.
    Other arguments, such as a place or a box, are checked where they are used: the message there says more.
    """

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        kinds = _kinds_of(function)
        by_place: Any = [
            _check_kind(each, kinds[name], name) for name, each in zip(kinds, args, strict=False)
        ]
        by_name: Any = {name: _check_kind(each, kinds.get(name), name) for name, each in kwargs.items()}
        too_many: Any = args[len(kinds) :]  # Python refuses them
        return function(*by_place, *too_many, **by_name)

    return inspect.markcoroutinefunction(checked) if inspect.iscoroutinefunction(function) else checked


def _check_kind(value: Any, kind: _Kind | None, field: str) -> Any:
    """Return an argument if its kind is right. A NumPy scalar becomes a Python value, as JSON needs it.

    Raises:
        RequestError: It is of another kind.
    """
    if kind is None:
        return value
    if getattr(value, "shape", None) == ():
        value = value.item()
    if not kind[0](value):
        is_short = isinstance(value, str | int | float | list | tuple)
        given = show_value(value) if is_short else f"of type {type(value).__name__}"
        raise RequestError(f"it is {given}; write {kind[1]}", field=field)
    if isinstance(value, Struct):  # settings
        for name, kind_of_field in _kinds_of(type(value)).items():
            _check_kind(getattr(value, name), kind_of_field, f"{field}.{name}")
    return value


@cache
def _kinds_of(described: Any) -> Mapping[str, _Kind | None]:
    """Return the kinds of a function's arguments, or of a class's fields, in order; None for any other."""
    if isinstance(described, type):
        return {name: _kind_of(each) for name, each in get_type_hints(described).items()}
    parameters = inspect.signature(described).parameters.values()
    return {
        each.name: None if (each.name, each.annotation) in _SAY_MORE else _kind_of(each.annotation)
        for each in parameters
    }


def _kind_of(annotation: Any) -> _Kind | None:
    annotation = getattr(annotation, "__value__", annotation)
    members = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    if {int, str} <= {*members}:  # a version or a time: dates count as well
        return None
    kinds = [_kind_of_member(each) for each in members if each is not NoneType]
    known = [each for each in kinds if each is not None]
    if len(known) < len(kinds):
        return None
    may_be_none = NoneType in members
    return (
        lambda value: (may_be_none and value is None) or any(is_it(value) for is_it, _ in known),
        " or ".join(what for _, what in known),
    )


def _kind_of_member(member: Any) -> _Kind | None:
    if get_origin(member) is Literal:
        *others, last = get_args(member)
        return (lambda value: isinstance(value, str) and value in get_args(member)), (
            f"{', '.join(others)} or {last}"
        )
    if get_origin(member) is Callable:
        return callable, "a function"
    if get_origin(member) is Sequence:
        return _LISTS.get(get_args(member)[0])
    if isinstance(member, type) and issubclass(member, Struct):
        return (lambda value: isinstance(value, member)), f"{member.__name__}(...)"
    return _PLAIN.get(member)


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


_PLAIN: Final[Mapping[Any, _Kind]] = {
    bool: (lambda value: isinstance(value, bool), "True or False"),
    int: (lambda value: isinstance(value, Integral) and not isinstance(value, bool), "a whole number"),
    float: (lambda value: isinstance(value, Real) and not isinstance(value, bool), "a number"),
    str: (lambda value: isinstance(value, str), "text"),
}
_LISTS: Final[Mapping[Any, _Kind]] = {
    str: (
        lambda value: (
            _is_list(value)
            and not (isinstance(value, Collection) and any(not isinstance(each, str) for each in value))
        ),
        "a list of texts",
    ),
    object: (_is_list, "a list"),
}
