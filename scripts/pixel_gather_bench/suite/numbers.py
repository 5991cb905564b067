"""Reads concurrencies such as ``1,2,4``, ``1-56``, ``1-56:5`` and ``auto``. Pure."""

import re
from typing import Final

MOST: Final = 512
_RANGE: Final = re.compile(r"(\d{1,4})(?:-(\d{1,4})(?::(\d{1,4}))?)?")


def parse_concurrencies(text: str) -> tuple[int | None, ...]:
    """Return the numbers, ascending and without repeats. None comes last and stands for ``auto``.

    A range includes both ends. But its step may skip the upper end.

    Raises:
        ValueError: The message says what is wrong.
    """
    parts = [part.strip() for part in text.split(",")]
    numbers = sorted({number for part in parts if part != "auto" for number in _numbers(part)})
    return (*numbers, None) if "auto" in parts else tuple(numbers)


def _numbers(part: str) -> range:
    found = _RANGE.fullmatch(part)
    if found is None:
        raise ValueError(f"{part!r} is neither a number nor a range such as 1-56 or 1-56:5, nor auto")
    start, stop, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
    if not 1 <= start <= stop <= MOST or step < 1:
        raise ValueError(f"{part!r} does not go upwards from 1 or more to {MOST} or less")
    return range(start, stop + 1, step)
