"""Times and ranges of time, as STAC and people write them. Pure.

``2024-03-01T10:20:30Z`` is a moment; ``2024``, ``2024-03`` and ``2024-03-01`` are a year, a month and a day.
``A/B`` goes from the beginning of A to the end of B; ``..`` or nothing leaves an end open.
"""

import calendar
import re
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from pixel_gather.core.errors import RequestError

if TYPE_CHECKING:  # the command line starts without
    import numpy as np

FIRST_US: Final = -(2**62)
LAST_US: Final = 2**62

PERIODS: Final = ("day", "solar-day", "month", "year")
"""What scenes can be grouped by: days, months and years of UTC, and days of the sun."""

_LETTERS: Final = {"month": 7, "year": 4}
"""Of the ISO time of a row that stands for a period."""

_US_PER_DEGREE: Final = 86_400_000_000 // 360
"""The sun takes four minutes for a degree of longitude."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_PERIOD: Final = re.compile(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?", re.ASCII)
_MOMENT: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:[.,](\d{1,9}))?([Zz]|[+-]\d{2}:?\d{2})?", re.ASCII
)
_EXAMPLES: Final = "2024, 2024-06, 2024-06-01/2024-08-31 or 2024-06-01T00:00:00Z/.."


class TimeRange(Struct, frozen=True, kw_only=True):
    """Times from ``start_us`` to ``stop_us``, both included, in microseconds since 1970-01-01 UTC."""

    start_us: int = FIRST_US
    stop_us: int = LAST_US


ALL_TIMES: Final = TimeRange()


def cut_to_period(time: str, period: str | None) -> str:
    """Return as much of an ISO time as a row has that stands for a period, such as ``2024-06`` of a month."""
    return time[: _LETTERS.get(period or "")]


def parse_time_range(text: str, *, field: str = "datetime") -> TimeRange:
    """Return the times that a text names.

    Raises:
        RequestError: It is no time and no range, or it ends before it begins.
    """
    parts = text.strip().split("/") if isinstance(text, str) else []
    if not parts or len(parts) > 2 or all(part in ("", "..") for part in parts):  # noqa: PLR2004 # a range has two ends
        raise RequestError(f"{text!r} is no time; write {_EXAMPLES}", field=field)
    starts = parse_period(parts[0], field=field) if parts[0] not in ("", "..") else TimeRange()
    stops = parse_period(parts[-1], field=field) if parts[-1] not in ("", "..") else TimeRange()
    found = TimeRange(start_us=starts.start_us, stop_us=stops.stop_us)
    if found.start_us > found.stop_us:
        raise RequestError(f"{text!r} ends before it begins", field=field)
    return found


def parse_period(text: str, *, field: str = "datetime") -> TimeRange:
    """Return the first and last microsecond of a year, month, day or moment.

    Raises:
        RequestError: It is none of these.
    """
    try:
        if match := _PERIOD.fullmatch(text):
            return _calendar_period(match)
        if match := _MOMENT.fullmatch(text):
            return _moment(match)
    except (ValueError, OverflowError) as error:
        raise RequestError(f"{text!r} is no time: {error}", field=field) from error
    raise RequestError(f"{text[:80]!r} is no time; write {_EXAMPLES}", field=field)


def last_moment(text: str) -> datetime:
    """Return the moment of a text, in UTC if it names no zone: of ``2026-11-01`` the last one.

    Raises:
        ValueError: It is no such text.
    """
    moment = datetime.fromisoformat(text)
    if _PERIOD.fullmatch(text):
        moment = datetime.combine(moment, time.max)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _calendar_period(match: re.Match[str]) -> TimeRange:
    year, month, day = int(match[1]), match[2] and int(match[2]), match[3] and int(match[3])
    first = datetime(year, month or 1, day or 1, tzinfo=UTC)
    last_month = month or 12
    last_day = day or calendar.monthrange(year, last_month)[1]
    last = datetime(year, last_month, last_day, tzinfo=UTC)
    return TimeRange(start_us=_us(first), stop_us=_us(last) + 24 * 3600 * 1_000_000 - 1)


def _moment(match: re.Match[str]) -> TimeRange:
    moment = datetime.fromisoformat(f"{match[1]}T{match[2]}{(match[4] or 'Z').upper()}").astimezone(UTC)
    us = _us(moment) + int(((match[3] or "") + "000000")[:6])
    return TimeRange(start_us=us, stop_us=us)


def _us(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def format_moment(time_us: int) -> str:
    """Return a moment as RFC 3339 in UTC, with a fraction only where there is one."""
    return (_EPOCH + timedelta(microseconds=time_us)).replace(tzinfo=None).isoformat() + "Z"


def start_of_period(time_us: int, by: str) -> int:
    """Return the first microsecond of the day, month or year of UTC that holds a moment.

    Args:
        time_us: The moment.
        by: ``day``, ``month`` or ``year``.
    """
    moment = _EPOCH + timedelta(microseconds=time_us)
    start = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if by != "day":
        start = start.replace(day=1, month=1 if by == "year" else start.month)
    return (start - _EPOCH) // _MICROSECOND


def before_utc_us(longitude: float) -> int:
    """Return by how much a day of the sun begins before that of UTC, in whole microseconds."""
    return int(sun_before_utc_us(longitude))


def sun_before_utc_us[L: (float, "np.ndarray[Any, np.dtype[np.float64]]")](longitude: L) -> L:
    """Return the same with a fraction, of a longitude in degrees or of an array of them."""
    return ((longitude + 180) % 360 - 180) * _US_PER_DEGREE


def format_range(times: TimeRange) -> str | None:
    """Return a range as a STAC API takes it; None where it is open at both ends."""
    if times == ALL_TIMES:
        return None
    if times.start_us == times.stop_us:
        return format_moment(times.start_us)
    start = ".." if times.start_us == FIRST_US else format_moment(times.start_us)
    stop = ".." if times.stop_us == LAST_US else format_moment(times.stop_us)
    return f"{start}/{stop}"
