"""Rows of several cubes one after another, each cube's rows rounded up to whole shards. Pure."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pixel_gather.errors import RequestError
from pixel_gather.joining.member import PRESENCE, Member
from pixel_gather.report.row_coordinates import NO_TIME, NOT_GATHERED, Values

MEMBER: Final = "member"
SHOWN: Final = ("time", "status", "valid_fraction", "href")
"""Columns of the members' tables that every joined array has as coordinates, as far as they exist."""

_FIELD: Final = "keep"


def joined_rows(
    members: Sequence[Member], names: Sequence[str], *, first_member: int = 0
) -> dict[str, Values]:
    """Return the coordinates of a joined array.

    ``presence`` is 1 for each row that exists and 0 for padding. ``member`` is the number of the row's
    member.

    Args:
        members: The cubes in their order.
        names: Columns of their tables. A member that does not have a column has missing values.
        first_member: Number of the first of them.

    Raises:
        RequestError: No member has a column, or it is text in one member and numbers in another.
    """
    found: dict[str, Values] = {
        PRESENCE: _padded(members, [each.exists for each in members], fill=0),
        MEMBER: np.repeat(
            np.arange(first_member, first_member + len(members), dtype="int32"),
            [each.n_padded for each in members],
        ),
    }
    for name in names:
        if name not in found:
            found[name] = _column(members, name)
    return found


def shown_columns(members: Sequence[Member], keep: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that become coordinates: those of `SHOWN` that exist, and those that are kept."""
    there = {name for each in members for name in each.columns}
    return tuple(dict.fromkeys([*(name for name in SHOWN if name in there), *keep]))


def all_columns(members: Sequence[Member]) -> tuple[str, ...]:
    """Return the columns of all members, in their order, without those that joining makes anew."""
    found = dict.fromkeys(name for each in members for name in each.columns)
    return tuple(name for name in found if name not in (PRESENCE, MEMBER))


def dims_of(name: str, values: Values, dim: str) -> tuple[str, ...]:
    """Return the names of a coordinate's axes.

    Args:
        name: Name of the coordinate. A transform has six numbers for each source.
        values: Its values.
        dim: Name of the rows' axis.
    """
    several = values.ndim == (3 if name == "transform" else 2)
    return (dim, *(("measurement",) if several else ()), *(("affine",) if name == "transform" else ()))


def fill_of(name: str, dtype: np.dtype[Any]) -> Any:
    """Return the value of a row without one."""
    if name == "time":
        return NO_TIME
    if name == "status":
        return NOT_GATHERED
    if dtype.kind == "O":
        return ""
    return np.array(float("nan") if dtype.kind == "f" and name != "valid_fraction" else 0, dtype=dtype)[()]


def repeats_texts(values: Values) -> bool:
    """Tell whether a coordinate has one text for each row, and each text in four rows on average."""
    return values.dtype.kind == "O" and values.ndim == 1 and len(set(values.tolist())) * 4 <= len(values)


def numbered_texts(values: Values, known: Sequence[str]) -> tuple[Values, Values]:
    """Return all texts, those that are known first, and the number of each row's text among them."""
    rows = values.tolist()
    numbers = {text: number for number, text in enumerate(dict.fromkeys([*known, *rows]))}
    found = np.fromiter(map(numbers.__getitem__, rows), dtype="uint32", count=len(rows))
    return np.array(list(numbers), dtype=object), found


def _column(members: Sequence[Member], name: str) -> Values:
    having = [each.columns[name] for each in members if name in each.columns]
    if not having:
        raise RequestError(f"no member's rows have a column {name!r}", field=_FIELD)
    kinds = {values.dtype == object for values in having}
    inner = {values.shape[1:] for values in having}
    if len(kinds) > 1 or len(inner) > 1:
        raise RequestError(
            f"{name} is text in one member and numbers in another, or has another shape: it cannot be joined",
            field=_FIELD,
        )
    dtype = np.dtype(object) if kinds == {True} else np.result_type(*having)
    fill = fill_of(name, dtype)
    parts = [
        np.asarray(each.columns[name], dtype=dtype)
        if name in each.columns
        else np.full((each.n_rows, *having[0].shape[1:]), fill, dtype=dtype)
        for each in members
    ]
    return _padded(members, parts, fill=fill)


def _padded(members: Sequence[Member], parts: Sequence[Values], *, fill: Any) -> Values:
    first = parts[0]
    found = np.full((sum(each.n_padded for each in members), *first.shape[1:]), fill, dtype=first.dtype)
    at = 0
    for each, values in zip(members, parts, strict=True):
        found[at : at + each.n_rows] = values
        at += each.n_padded
    return found
