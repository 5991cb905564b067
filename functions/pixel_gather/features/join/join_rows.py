"""Rows of several cubes one after another, each cube's rows rounded up to whole shards. Pure."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.source import MAX_EXACT, NO_INTEGER
from pixel_gather.core.results.join_member import PRESENCE, Member
from pixel_gather.core.results.row_coordinates import (
    NO_BOOLEAN,
    NO_TIME,
    NOT_GATHERED,
    RESERVED_NAMES,
    Values,
    missing_in,
)

MEMBER: Final = "member"
SHOWN: Final = ("time", "status", "valid_fraction", "href")
"""Columns of the members' tables that every joined array has as coordinates, as far as they exist."""

_FIELD: Final = "keep"
OWN: Final = RESERVED_NAMES | {PRESENCE, MEMBER}
"""Coordinates that no list has."""

_MISSING: Final = {np.dtype("int64"): NO_INTEGER, np.dtype("uint8"): NO_BOOLEAN}
"""What stands for a missing value in a column of a list."""


def joined_rows(
    members: Sequence[Member], names: Sequence[str], *, first_member: int = 0
) -> dict[str, Values]:
    """Return the coordinates of a joined array.

    ``presence`` is 1 for each row that exists and 0 for padding. ``member`` is the number of the row's
    member. A member that lacks a column has missing values.

    Raises:
        RequestError: No member has a column, or it is text in one member and numbers in another.
    """
    found: dict[str, Values] = {
        PRESENCE: _pad_missing(members, [each.exists for each in members], fill=0),
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
    """Return the columns that become coordinates.

    They are those of `SHOWN` that exist, those that the pixels of a member need, and those that are kept.
    """
    there = {name for each in members for name in each.columns}
    needed = [name for each in members for name in each.of_pixels]
    return tuple(dict.fromkeys([*(name for name in SHOWN if name in there), *needed, *keep]))


def all_columns(members: Sequence[Member]) -> tuple[str, ...]:
    """Return the columns of all members, in their order."""
    return tuple(dict.fromkeys(name for each in members for name in each.columns))


def coordinate_dims(name: str, values: Values, dim: str) -> tuple[str, ...]:
    """Return the names of a coordinate's axes.

    A transform has six numbers for each source.
    """
    several = values.ndim == (3 if name == "transform" else 2)
    return (dim, *(("measurement",) if several else ()), *(("affine",) if name == "transform" else ()))


def padding_value(name: str, dtype: np.dtype[Any]) -> Any:
    """Return the value of a row of padding."""
    if name == "time":
        return NO_TIME
    if name == "status":
        return NOT_GATHERED
    if dtype.kind == "O":
        return ""
    return np.array(float("nan") if dtype.kind == "f" and name != "valid_fraction" else 0, dtype=dtype)[()]


def unite_values(name: str, parts: Sequence[Values | None], lengths: Sequence[int]) -> list[Values]:
    """Return the values of a coordinate in several cubes, in the one dtype that holds all of them.

    A cube that does not have it has None. ``lengths`` are the cubes' rows.

    Raises:
        RequestError: No dtype holds them: some are text or large integers, and others are fractions.
    """
    having = [each for each in parts if each is not None]
    kinds = {each.dtype == object for each in having}
    inner = {each.shape[1:] for each in having}
    if len(kinds) > 1 or len(inner) > 1:
        raise RequestError(
            f"{name} is text in one member and numbers in another, or has another shape: it cannot be joined",
            field=_FIELD,
        )
    dtype = np.dtype(object) if kinds == {True} else np.result_type(*having)
    if dtype.kind == "b" and len(having) < len(parts) and name not in OWN:
        dtype = np.dtype("uint8")
    if dtype.kind == "f" and any(holds_large(each) for each in having):
        raise RequestError(
            f"{name} has integers beyond 2^53 in one member and fractions in another: float64 does not hold "
            "them, so it cannot be joined",
            field=_FIELD,
        )
    is_of_list = name != "time" and name not in OWN
    missing = _MISSING.get(dtype) if is_of_list else None
    missing = padding_value(name, dtype) if missing is None else missing

    def converted(values: Values) -> Values:
        found = values.astype(dtype)
        if dtype not in (values.dtype, object):
            found[missing_in(name, values)] = missing
        return found

    shape = having[0].shape[1:]
    return [
        np.full((n, *shape), missing, dtype=dtype) if values is None else converted(values)
        for values, n in zip(parts, lengths, strict=True)
    ]


def holds_large(values: Values) -> bool:
    """Return whether an array has integers that float64 does not hold."""
    return bool(values.dtype == np.int64 and (np.abs(values[values != NO_INTEGER]) > MAX_EXACT).any())


def repeats_texts(values: Values) -> bool:
    """Tell whether a coordinate has one text for each row, and each text in four rows on average."""
    return values.dtype.kind == "O" and values.ndim == 1 and len(set(values.tolist())) * 4 <= len(values)


def numbered_texts(values: Values, known: Sequence[str]) -> tuple[Values, Values]:
    """Return all texts, those that are known first, and the number of each row's text among them."""
    rows = values.tolist()
    numbers = {text: number for number, text in enumerate(dict.fromkeys([*known, *rows]))}
    found = np.fromiter(map(numbers.__getitem__, rows), dtype="uint32", count=len(rows))
    return np.array(list(numbers), dtype=object), found


def check_column(members: Sequence[Member], name: str) -> None:
    """Refuse a column that no member has.

    Raises:
        RequestError: No member has the column.
    """
    if not any(name in each.columns for each in members):
        raise RequestError(f"no member's rows have a column {name!r}", field=_FIELD)


def _column(members: Sequence[Member], name: str) -> Values:
    check_column(members, name)
    parts = unite_values(
        name, [each.columns.get(name) for each in members], [each.n_rows for each in members]
    )
    return _pad_missing(members, parts, fill=padding_value(name, parts[0].dtype))


def _pad_missing(members: Sequence[Member], parts: Sequence[Values], *, fill: Any) -> Values:
    first = parts[0]
    found = np.full((sum(each.n_padded for each in members), *first.shape[1:]), fill, dtype=first.dtype)
    at = 0
    for each, values in zip(members, parts, strict=True):
        found[at : at + each.n_rows] = values
        at += each.n_padded
    return found
