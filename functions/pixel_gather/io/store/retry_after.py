"""Reads the header Retry-After, by which a busy server says how long to wait."""

import time
from email.utils import parsedate_to_datetime
from typing import Final

_DAY_S: Final = 86_400.0


def retry_after_s(text: str) -> float | None:
    """Return the seconds to wait, from 0 to a day, or None if the text says nothing.

    Args:
        text: The header's value: a number of seconds, or a date (RFC 9110, section 10.2.3).
    """
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except ValueError:
            return None
    return min(max(seconds, 0.0), _DAY_S) if seconds == seconds else None  # noqa: PLR0124 # NaN
