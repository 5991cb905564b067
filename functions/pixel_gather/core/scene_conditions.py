"""Conditions on the properties of a scene: a closed grammar that runs no code. Pure.

As an object, conditions are written as in the STAC API's query extension: ``{"eo:cloud_cover": {"lt": 40}}``.
As text, a condition is ``eo:cloud_cover<40``. Several are joined by ``and``. Text with spaces or
signs stands in quotes. A year, month or day means all of it: ``created=2024-06`` is any time of that month,
and ``created>2024`` any time after that year. Of dates without dashes, days are known: ``created>20240601``.
"""

import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any, Final

from msgspec import Struct

from pixel_gather.core.area import finite
from pixel_gather.core.errors import RequestError
from pixel_gather.core.time_range import TimeRange, parse_period

type Value = str | int | float | bool

CLOUD_COVER: Final = "eo:cloud_cover"
_MOST_CONDITIONS: Final = 50
_LONGEST_LIST: Final = 10_000
_YEARS: Final = range(1800, 2200)
"""Whole numbers that are years where a property is a time."""

_DAYS: Final = range(_YEARS.start * 10_000, _YEARS.stop * 10_000)
"""Whole numbers that are days where a property is a time, such as 20240601, if there is such a day."""


def bound_us(operator: str, period: TimeRange) -> int:
    """Return the moment of a period that ``lt``, ``lte``, ``gt`` or ``gte`` compares a time with."""
    return period.stop_us if operator in ("lte", "gt") else period.start_us


def _compare_in_order(operator: str, compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return what compares numbers, texts or times."""

    def holds(found: Any, wanted: Any) -> bool:
        if (times := _as_times(found, wanted)) is not None:
            time, period = times
            return compare(time.start_us, bound_us(operator, period))
        is_text = isinstance(found, str), isinstance(wanted, str)
        is_truth = isinstance(found, bool) or isinstance(wanted, bool)
        is_known = isinstance(found, str | int | float)
        return is_known and is_text[0] == is_text[1] and not is_truth and compare(found, wanted)

    return holds


def _as_times(found: Any, wanted: Any) -> tuple[TimeRange, TimeRange] | None:
    """Return a text and what it is compared with as times; None if one is no time."""
    if not isinstance(found, str):
        return None
    one, other = as_time(found), as_time(wanted)
    return None if one is None or other is None else (one, other)


@lru_cache(maxsize=2 * _LONGEST_LIST, typed=True)  # a condition is compared with every scene
def as_time(value: Value) -> TimeRange | None:
    """Return the period of a text, or of a whole number that is a year or a day."""
    text = value
    if isinstance(value, int) and value in _YEARS:
        text = str(value)
    elif isinstance(value, int) and value in _DAYS:
        text = f"{value // 10_000}-{value // 100 % 100:02}-{value % 100:02}"
    if not (isinstance(text, str) and _DATE.match(text)):
        return None
    try:
        return parse_period(text)
    except RequestError:
        return None


def _equal(found: Any, wanted: Any) -> bool:
    if (times := _as_times(found, wanted)) is not None:
        time, period = times
        return period.start_us <= time.start_us and time.stop_us <= period.stop_us
    return isinstance(found, bool) == isinstance(wanted, bool) and bool(found == wanted)


_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "eq": _equal,
    "neq": lambda found, wanted: not _equal(found, wanted),
    "lt": _compare_in_order("lt", lt),
    "lte": _compare_in_order("lte", le),
    "gt": _compare_in_order("gt", gt),
    "gte": _compare_in_order("gte", ge),
    "startsWith": lambda found, wanted: isinstance(found, str) and found.startswith(wanted),
    "endsWith": lambda found, wanted: isinstance(found, str) and found.endswith(wanted),
    "contains": lambda found, wanted: isinstance(found, str) and wanted in found,
    "in": lambda found, wanted: any(_equal(found, each) for each in wanted),
}
_OF_PARTS: Final = frozenset({"startsWith", "endsWith", "contains"})
_OF_ORDER: Final = frozenset({"lt", "lte", "gt", "gte"})
_SYMBOLS: Final = {
    "<": "lt",
    "<=": "lte",
    ">": "gt",
    ">=": "gte",
    "=": "eq",
    "==": "eq",
    "!=": "neq",
    "<>": "neq",
}
_VALUE: Final = r"""(?:'[^']*'|"[^"]*"|[\w:./+\-]+)"""
_CONDITION: Final = re.compile(
    r"\s*(?P<name>[A-Za-z_][A-Za-z0-9_:.\-]*)"
    rf"(?:\s*(?P<symbol><=|>=|<>|!=|==|=|<|>)\s*(?P<value>{_VALUE})"
    rf"|\s+in\s*[(\[]\s*(?P<values>{_VALUE}(?:\s*,\s*{_VALUE})*)\s*[)\]])"
    r"\s*(?P<more>(?<=[\s'\")\]])and\s|$)",
    re.IGNORECASE,
)
_DATE: Final = re.compile(r"\d{4}(?:-\d{2}|$)", re.ASCII)


class Condition(Struct, frozen=True, kw_only=True):
    """One comparison of one property."""

    name: str
    operator: str
    """One of the query extension's: eq, neq, lt, lte, gt, gte, startsWith, endsWith, contains, in."""

    value: Value | tuple[Value, ...]

    @property
    def names_time(self) -> bool:
        """Whether texts that are times are compared with it as times."""
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        return self.operator not in _OF_PARTS and any(as_time(each) is not None for each in values)

    @property
    def needs_times(self) -> bool:
        """Whether a server may find too little, as it compares texts and numbers and knows no periods."""
        if self.operator in _OF_PARTS:
            return False
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        periods = [each for each in values if (time := as_time(each)) and time.start_us < time.stop_us]
        has_year = any(not isinstance(each, str) for each in periods)
        return has_year or (bool(periods) and self.operator in ("eq", "in", "lte"))

    def holds_for(self, properties: Mapping[str, Any]) -> bool:
        """Tell whether a scene meets it; a scene without the property does not."""
        found = properties.get(self.name)
        return found is not None and _OPERATORS[self.operator](found, self.value)


type Where = tuple[Condition, ...]
"""Conditions that must all hold."""


def parse_where(
    given: str | Mapping[str, Any] | None, *, field: str = "where", example: str = "eo:cloud_cover<40"
) -> Where:
    """Return the conditions of a text, or of an object in the query extension's form.

    ``example`` is the condition that an error shows.

    Raises:
        RequestError: It has an unknown operator or a value that cannot be compared.
    """
    if given is None:
        return ()
    found = tuple(
        _parse_text(given, field, example) if isinstance(given, str) else _parse_object(given, field)
    )
    if len(found) > _MOST_CONDITIONS:
        raise RequestError(f"it has more than {_MOST_CONDITIONS} conditions", field=field)
    return found


def to_query(where: Where) -> dict[str, dict[str, Any]]:
    """Return conditions as the STAC API's query extension takes them.

    Conditions that need times are left out. The caller checks them on what the server finds.
    """
    query: dict[str, dict[str, Any]] = {}
    for each in where:
        if each.needs_times:
            continue
        query.setdefault(each.name, {})[each.operator] = (
            list(each.value) if isinstance(each.value, tuple) else each.value
        )
    return query


def most_cloud(where: Where) -> float | None:
    """Return the cloud cover in percent above which no scene can meet the conditions; None where any can."""
    bounds = [
        bound
        for each in where
        if each.name == CLOUD_COVER
        and each.operator in ("lt", "lte", "eq")
        and (bound := finite(each.value)) is not None
    ]
    return min(bounds, default=None)


def _parse_object(given: object, field: str) -> list[Condition]:
    if not isinstance(given, Mapping):
        raise RequestError('write an object such as {"eo:cloud_cover": {"lt": 20}}', field=field)
    found = []
    for name, operators in given.items():
        if not isinstance(operators, Mapping):
            operators = {"eq": operators}  # noqa: PLW2901 # {"platform": "sentinel-2a"} says the same
        for operator, value in operators.items():
            if operator not in _OPERATORS:
                raise RequestError(
                    f"there is no operator {operator!r}; there are {', '.join(_OPERATORS)}",
                    field=f"{field}.{name}",
                )
            found.append(
                Condition(
                    name=name, operator=operator, value=_check_value(value, operator, f"{field}.{name}")
                )
            )
    return found


def _check_value(value: Any, operator: str, field: str) -> Value | tuple[Value, ...]:
    if operator == "in":
        if not isinstance(value, list | tuple) or not 0 < len(value) <= _LONGEST_LIST:
            raise RequestError(f"write an array of 1 to {_LONGEST_LIST:,} values after in", field=field)
        return tuple(_scalar(each, field) for each in value)
    scalar = _scalar(value, field)
    if operator in _OF_PARTS and not isinstance(scalar, str):
        raise RequestError(f"write text after {operator}", field=field)
    return scalar


def _scalar(value: Any, field: str) -> Value:
    if not isinstance(value, str | int | float | bool) or value != value:  # noqa: PLR0124 # NaN
        raise RequestError(f"write text, a number, true or false, and not {value!r}", field=field)
    return value


def _parse_text(text: str, field: str, example: str) -> list[Condition]:
    found = []
    position, more = 0, bool(text.strip())
    while more:
        match = _CONDITION.match(text, position)
        if match is None:
            raise RequestError(
                f"{text[position:].strip()!r} is no condition; write one such as {example}, or several "
                "joined by and (there is no or). Put text with spaces or signs in quotes",
                field=field,
            )
        found.append(_condition(match, field))
        position, more = match.end(), bool(match["more"])
    return found


def _condition(match: re.Match[str], field: str) -> Condition:
    if match["values"]:
        values = tuple(_literal(each) for each in re.findall(_VALUE, match["values"]))
        return Condition(name=match["name"], operator="in", value=values)
    operator, written = _SYMBOLS[match["symbol"]], match["value"]
    value = _literal(written)
    if operator in _OF_ORDER and isinstance(value, str) and not (_is_quoted(written) or _is_time(written)):
        raise RequestError(
            f"{written!r} is neither a number nor a time such as 2024-06-01 or 2024-06-01T10:30:00Z; "
            "if text is to be compared, write it in quotes",
            field=field,
        )
    return Condition(name=match["name"], operator=operator, value=value)


def _literal(text: str) -> Value:
    if _is_quoted(text):
        return text[1:-1]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            value = kind(text)
            if math.isfinite(value):
                return value
        except (ValueError, OverflowError):  # an integer may be too large for a float
            continue
    return text


def _is_time(text: str) -> bool:
    """Return whether a text is a time that also sorts as text: with dashes, without a week."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return as_time(text) is not None
    return _DATE.match(text) is not None


def _is_quoted(text: str) -> bool:
    return text[0] in "'\""
