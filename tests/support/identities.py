"""Identities: digests and names by which two requests, lists or files count as the same."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import replace
from typing import Annotated, Any, Literal, NamedTuple, TypeAliasType, get_args, get_origin

from pydantic import BaseModel


class Change(NamedTuple):
    """One field with two values, and whether these make different results."""

    decides: bool
    one: Any
    """What the identity is of."""

    other: Any
    """The same with another value of this field alone."""


def another(one: Any, **other: Any) -> Change:
    """Return the change of a struct that makes another result."""
    return Change(decides=True, one=one, other=replace(one, **other))


def alike(one: Any, **other: Any) -> Change:
    """Return the change of a struct that makes the same result."""
    return Change(decides=False, one=one, other=replace(one, **other))


def check_identity(
    identity: Callable[[Any], object], changes: Mapping[str, Change], *, fields: Iterable[str]
) -> None:
    """Check that an identity differs for another value of each field that decides the result, and only then.

    Args:
        identity: The digest or name.
        changes: By field. One without another valid value is left out of ``fields``.
        fields: All of them: whoever adds one has to say whether it decides the result.
    """
    assert set(changes) == set(fields), "say of each field whether it decides the result"
    wrong = {
        name: "decides, and is left out" if each.decides else "decides nothing, and is in it"
        for name, each in changes.items()
        if (identity(each.one) != identity(each.other)) != each.decides
    }
    assert wrong == {}


def leaf_fields(model: type[BaseModel]) -> Iterator[str]:
    """Yield the names of all fields of a request, those of its parts with a dot."""
    for name, field in model.model_fields.items():
        kinds = set(_kinds_in(field.annotation))
        parts = {each for each in kinds if issubclass(each, BaseModel)}
        if kinds - parts - {type(None)}:
            yield name
        for part in parts:
            yield from (f"{name}.{leaf}" for leaf in leaf_fields(part))


def _kinds_in(annotation: Any) -> Iterator[type]:
    """Yield the classes that the values of a type may have."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, TypeAliasType):
        yield from _kinds_in(annotation.__value__)
    elif isinstance(annotation, type):
        yield annotation
    elif origin is Literal:
        yield from map(type, arguments)
    elif isinstance(origin, type) and issubclass(origin, list | tuple | dict):
        yield origin
    else:  # an Annotated has more arguments, which are no types
        for each in arguments[:1] if origin is Annotated else arguments:
            yield from _kinds_in(each)
