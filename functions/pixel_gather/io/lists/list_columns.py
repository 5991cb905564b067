"""Checks the names of a source list's columns and reads their values."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from pixel_gather.core.results.row_coordinates import RESERVED_NAMES

type Scalar = str | int | float | bool | None

MEANINGFUL: Final = frozenset({"href", "time", "band", "scene"})
RESERVED: Final = RESERVED_NAMES - MEANINGFUL
"""Names of arrays and dimensions that every cube has."""

N_MAX_COLUMNS: Final = 200
_LONGEST_NAME: Final = 100
_LONGEST_TEXT: Final = 10_000

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_YEAR_AND_MONTH = re.compile(r"(\d{4})(?:-?(\d{2}))?", re.ASCII)
_MEASUREMENT = re.compile(r"band_\d+", re.ASCII)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_UNNAMEABLE = re.compile(r"[/\\\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def check_name(name: str, *, what: str) -> None:
    """Refuse a name that cannot be the name of an array, or that an array of every cube has already.

    ``what`` is ``column`` or ``band``.

    Raises:
        ValueError: The name cannot be used. The message says to rename it.
    """
    is_taken = name in MEANINGFUL if what == "band" else _MEASUREMENT.fullmatch(name)
    if name in RESERVED or is_taken:
        raise ValueError(f"the {what} {name!r} would collide with what every cube stores; rename it")
    is_odd = _UNNAMEABLE.search(name) is not None or name.startswith("__") or not name.strip(". ")
    if is_odd or name == "zarr.json" or len(name) > _LONGEST_NAME:
        raise ValueError(f"the {what} {name[:_LONGEST_NAME]!r} cannot be the name of an array; rename it")


def check_names(names: Sequence[str]) -> None:
    """Refuse columns that cannot all become arrays of one cube.

    Raises:
        ValueError: The message names the column and says what to do.
    """
    if "href" not in names and "assets" in names:
        raise ValueError(
            "it holds scenes and no hrefs: a catalog that pixel-gather catalog wrote is given by --catalog, "
            "and any other STAC items by --items, both with --assets"
        )
    if "href" not in names:
        raise ValueError(
            f"there is no column href; the columns are {', '.join(names)[:500]}. Rename the one with the "
            "addresses of the files to href"
        )
    if twice := next((name for name, n in Counter(names).items() if n > 1), None):
        raise ValueError(f"there are two columns {twice!r}; rename one")
    if len(names) > N_MAX_COLUMNS:
        raise ValueError(f"there are more than {N_MAX_COLUMNS} columns; leave some out")
    for name in names:
        if name not in MEANINGFUL:
            check_name(name, what="column")


@lru_cache(maxsize=4096)
def parse_time(text: str) -> int:
    """Return the microseconds since 1970-01-01 UTC of an ISO 8601 date or date and time.

    ``YYYY``, ``YYYY-MM`` and ``YYYYMM`` are read as their first day. A time without a zone is UTC.

    Raises:
        ValueError: The text has none of these forms.
    """
    if match := _YEAR_AND_MONTH.fullmatch(text):
        moment = datetime(int(match[1]), int(match[2] or 1), 1, tzinfo=UTC)
    else:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MICROSECOND


def check_value(name: str, value: object) -> Scalar:
    """Return a column's value as it is stored. Empty text and NaN become None.

    Raises:
        ValueError: The value is not a scalar, or is text that cannot be stored.
    """
    if value is None or value == "" or value != value:  # noqa: PLR0124 # only NaN differs from itself
        return None
    if isinstance(value, str):
        if len(value) > _LONGEST_TEXT:
            raise ValueError(f"column {name} has {len(value)} characters; shorten it or leave it out")
        if _SURROGATE.search(value):
            raise ValueError(
                f"column {name} has half a character (a lone surrogate): {value[:80]!r}; mend it"
            )
        return value
    if isinstance(value, float) and math.isinf(value):
        raise ValueError(f"column {name} is infinite; leave it empty")  # the list's fault
    if isinstance(value, (bool, int, float)):
        return value
    raise ValueError(
        f"column {name} holds a {type(value).__name__}; only text, numbers and true/false can become "
        "coordinates: leave it out"
    )
