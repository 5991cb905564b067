"""How a version of a cube is named: by its number, or by a time."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from operator import index
from typing import Final, SupportsIndex

from pixel_gather.core.errors import RequestError
from pixel_gather.core.plan.cube_version import CubeVersion
from pixel_gather.core.stores import FoundCube
from pixel_gather.core.time_range import last_moment

_FIELD: Final = "version"
_BEFORE: Final = "before"


def number_of(found: FoundCube, version: int | str) -> int:
    """Return the number of a version that is named by its number or by a time.

    Raises:
        RequestError: There is no such version, or ``version`` is neither a number nor a time.
    """
    numbers = [each.number for each in found.versions]
    version = _as_named(version, _FIELD)
    if isinstance(version, int) or version.isdecimal():
        if int(version) not in numbers:
            there = f"versions 1 to {numbers[-1]}" if numbers[-1] > 1 else "version 1 alone"
            raise RequestError(
                f"the cube has the {there}, not {version}; write a time as 2026-11-01 or 2026-11-01T12:00",
                field=_FIELD,
            )
        return int(version)
    until = _time(version, _FIELD, last_moment)
    by_then = [each.number for each in found.versions if _time(each.committed_at, _FIELD) <= until]
    if not by_then:
        first = found.versions[0].committed_at
        raise RequestError(f"the first version is of {first}: there was none by {version}", field=_FIELD)
    return by_then[-1]


def _as_named(version: object, field: str) -> int | str:
    """Return what names a version as a text or an int. It may be a date, or an integer of another package.

    Raises:
        RequestError: It is of another type.
    """
    if isinstance(version, str):
        return version
    if isinstance(version, date):  # a datetime is one
        return version.isoformat()
    if isinstance(version, SupportsIndex) and not isinstance(version, bool):
        return index(version)
    raise RequestError(
        f"it is of type {type(version).__name__}; write a number, or a time as 2026-11-01", field=field
    )


def named_before(text: int | str) -> Callable[[CubeVersion], bool]:
    """Return a function that tells whether a version lies before a number or a time.

    Raises:
        RequestError: ``text`` is neither a number nor a time.
    """
    text = _as_named(text, _BEFORE)
    if isinstance(text, int) or text.isdecimal():
        number = int(text)
        return lambda each: each.number < number
    until = _time(text, _BEFORE)
    return lambda each: _time(each.committed_at, _BEFORE) < until


def _time(text: str, field: str, read: Callable[[str], datetime] = datetime.fromisoformat) -> datetime:
    try:
        found = read(text)
    except ValueError as error:
        raise RequestError(
            f"{text!r} is no number and no time such as 2026-11-01 or 2026-11-01T12:00", field=field
        ) from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
