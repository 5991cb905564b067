"""Find the rows whose coordinates meet conditions. Vectorised, runs no code of the conditions. Pure."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.status import Status
from pixel_gather.core.request.wrong_values import show_value
from pixel_gather.core.results.row_coordinates import Values, missing_in
from pixel_gather.core.scene_conditions import Condition, Value, Where, as_time, bound_us
from pixel_gather.core.time_range import TimeRange, parse_period

type Mask = np.ndarray[Any, np.dtype[np.bool_]]

_FIELD: Final = "where"
_MOST_SHOWN: Final = 4
_DATED: Final = re.compile(r"[0-9]{4}-")
_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "eq": np.equal,
    "neq": np.not_equal,
    "lt": np.less,
    "lte": np.less_equal,
    "gt": np.greater,
    "gte": np.greater_equal,
}


class NumberedTexts(Struct, frozen=True, kw_only=True, eq=False):
    """A coordinate that repeats few texts."""

    texts: Values
    """Each text once."""

    numbers: Values
    """Number of each row's text, from 0."""


def number_texts(values: Values) -> Values | NumberedTexts:
    """Return a coordinate with its texts by number, if it has one text for each row and four rows a text."""
    if values.ndim != 1 or not _is_text(values):
        return values
    rows = values.tolist()
    numbers = {text: number for number, text in enumerate(dict.fromkeys(rows))}
    if len(numbers) * 4 > len(rows):
        return values
    found = np.fromiter(map(numbers.__getitem__, rows), dtype="uint32", count=len(rows))
    return NumberedTexts(texts=np.array(list(numbers), dtype=object), numbers=found)


def select_rows(where: Where, columns: Mapping[str, Values | NumberedTexts]) -> Mask:
    """Return, for each row, whether it meets all conditions.

    A missing value (NaN, NaT, an empty text, or what stands for a missing number) meets none. A coordinate
    with one value for each measurement must meet the condition in all of them. ``status`` is a number or the
    name of one, such as ``ok``. A time, and texts that are times, are compared as times.

    Args:
        where: At least one condition.
        columns: Values of each coordinate that the conditions name. The first axis is that of the rows.

    Raises:
        RequestError: A value cannot be compared with its coordinate.
    """
    masks = [_meets(each, columns[each.name]) for each in where]
    all_of_them: Mask = np.logical_and.reduce(masks)
    return all_of_them


def _meets(condition: Condition, values: Values | NumberedTexts) -> Mask:
    if isinstance(values, NumberedTexts):
        return _meets(condition, values.texts)[values.numbers]
    if condition.name == "transform":
        raise RequestError(
            "transform is six numbers for each row, which no condition compares; name another coordinate",
            field=_FIELD,
        )
    wanted = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    if condition.name == "time":
        found = _meet_periods(condition.operator, values, [_period(each) for each in wanted])
    elif condition.names_time and _has_times(values):
        found = np.array([condition.holds_for({condition.name: each}) for each in values.ravel()], dtype=bool)
    else:
        converted = [_check_value(each, values, condition.name) for each in wanted]
        if condition.operator == "in":
            found = np.logical_or.reduce([values == each for each in converted])
        else:
            found = _COMPARE[condition.operator](values, converted[0])
    mask = np.asarray(found, dtype=bool).reshape(values.shape) & ~missing_in(condition.name, values)
    of_rows: Mask = mask.reshape(len(values), -1).all(axis=1)
    return of_rows


def _is_text(values: Values) -> bool:
    return values.dtype.kind in "OTU"


def _has_times(values: Values) -> bool:
    """Return whether a coordinate has texts that are times, such as ``created`` of scenes."""
    return _is_text(values) and any(as_time(each) is not None for each in values.ravel())


def _check_value(value: Value, values: Values, name: str) -> Value:
    if name == "status" and isinstance(value, str):
        if value.upper() not in Status.__members__:
            known = ", ".join(each.name.lower() for each in Status)
            raise RequestError(f"there is no status {value!r}; there are {known}", field=_FIELD)
        return int(Status[value.upper()])
    if isinstance(value, str) != _is_text(values):
        kind = "text" if _is_text(values) else "a number"
        there = values[~missing_in(name, values)]
        raise RequestError(f"{name} is {kind} and {value!r} is not; it has {_said_of(there)}", field=_FIELD)
    return value


def _said_of(there: Values) -> str:
    """Return which values a coordinate has; of many texts the first ones, in the order of the alphabet."""
    if not there.size:
        return "no value in any row"
    if not _is_text(there):
        return f"values from {there.min():.6g} to {there.max():.6g}"
    texts = sorted(set(there.ravel().tolist()))
    shown = ", ".join(map(show_value, texts[:_MOST_SHOWN]))
    return shown if len(texts) <= _MOST_SHOWN else f"{shown} and {len(texts) - _MOST_SHOWN:,} more"


def _meet_periods(operator: str, times: Values, periods: list[TimeRange]) -> Mask:
    if operator not in ("eq", "neq", "in"):
        (period,) = periods
        in_order: Mask = _COMPARE[operator](times, bound_us(operator, period))
        return in_order
    is_in: Mask = np.logical_or.reduce([(p.start_us <= times) & (times <= p.stop_us) for p in periods])
    return ~is_in if operator == "neq" else is_in


def _period(value: Value) -> TimeRange:
    """Return the first and last microsecond of a year, month, day or moment."""
    text = str(value)
    with suppress(RequestError):
        return as_time(value) or parse_period(text)
    no_time = RequestError(f"{value!r} is no time; write one such as 2024-05-31", field=_FIELD)
    if not _DATED.match(text):  # NumPy would take any whole number for a year
        raise no_time
    try:  # such as 2024-05-31T10
        moment_us = int(np.datetime64(text.removesuffix("Z"), "us").astype("int64"))
    except ValueError as error:
        raise no_time from error
    return TimeRange(start_us=moment_us, stop_us=moment_us)
