"""How long a schedule pauses between two ticks, at most. Pure.

Cron expressions are not evaluated. A field that names a day, a date or a month stands for the pause that it
can cause at most, so that nobody is warned too early.
"""

import re
from typing import Final

_SECONDS: Final = {"minute": 60, "hour": 3600, "day": 86_400}
_RATE: Final = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
_ANY: Final = ("*", "?")
_DAYS_BETWEEN_MONTHS: Final = 366
_DAYS_BETWEEN_DATES: Final = 62
"""The 31st of a month comes after two months at most."""


def longest_pause_s(every: str) -> int:
    """Return the seconds between two ticks, at most.

    Args:
        every: `pixel_gather.core.schedule.Schedule.every`, which is well-formed.
    """
    if (rate := _RATE.fullmatch(every)) is not None:
        return int(rate[1]) * _SECONDS[rate[2]]
    minute, hour, date, month, weekday, _ = every.removeprefix("cron(").removesuffix(")").split()
    if month not in _ANY:
        return _DAYS_BETWEEN_MONTHS * _SECONDS["day"]
    if date not in _ANY:
        return _DAYS_BETWEEN_DATES * _SECONDS["day"]
    if weekday not in _ANY:
        return (_DAYS_BETWEEN_DATES if "#" in weekday or "L" in weekday else 7) * _SECONDS["day"]
    if hour not in _ANY:
        return _SECONDS["day"]
    return _SECONDS["minute"] if minute in _ANY else _SECONDS["hour"]
