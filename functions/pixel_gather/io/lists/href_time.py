"""Finds the time of observation in a source's href, for lists without a ``time`` column.

A pattern is a regular expression in which ``%Y %m %d %j %H %M %S`` stand for parts of the time, as in
``strftime``. Built-in patterns cover the names of Landsat, Sentinel-1, Sentinel-2, HLS, MODIS, VIIRS, OPERA,
ECOSTRESS, EMIT, Planet and NAIP products.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from pixel_gather.core.errors import RequestError
from pixel_gather.io.lists.list_prefix import compile_pattern, search

type FindTime = Callable[[str], int | None]
"""Returns the time in a href as microseconds since 1970-01-01 UTC, or None if it has none."""

AUTO: Final = "auto"
"""Selects the built-in patterns."""

_PARTS: Final = {
    "Y": r"(?P<Y>\d{4})",
    "m": r"(?P<m>0[1-9]|1[0-2])",
    "d": r"(?P<d>0[1-9]|[12]\d|3[01])",
    "j": r"(?P<j>[0-3]\d\d)",
    "H": r"(?P<H>[01]\d|2[0-3])",
    "M": r"(?P<M>[0-5]\d)",
    "S": r"(?P<S>[0-5]\d)",
    "%": "%",
}
_NEEDS: Final = {"m": "Y", "d": "m", "j": "Y", "H": "Y", "M": "H", "S": "M"}
_PRODUCTS: Final = (
    r"L[CEMOT]0\d_(?:L[12]\w\w|CU|AK|HI)_\d{6}_%Y%m%d_",  # Landsat, collections 1 and 2, and tiles of the US
    r"L[CEMOT][1-9]\d{6}%Y%j[A-Z]{3}\d\d",  # Landsat before collections
    r"S2[A-D]_MSI\w{3}_%Y%m%dT%H%M%S_",  # Sentinel-2, products
    r"T\d\d[A-Z]{3}_%Y%m%dT%H%M%S_",  # Sentinel-2, images
    r"S2[A-D]_\d{1,2}[A-Z]{3}_%Y%m%d_\d+_L\d",  # Sentinel-2 on AWS, COGs
    r"S2[A-D]_T\d\d[A-Z]{3}_%Y%m%dT%H%M%S_L\d",  # its COGs of collection 1
    r"/tiles/\d{1,2}/[A-Z]/[A-Z]{2}/%Y/(?P<m>1[0-2]|[1-9])/(?P<d>[12]\d|3[01]|[1-9])/",  # its tiles
    r"S1[A-D]_\w\w_\w{4}_\w{4}_%Y%m%dT%H%M%S_",  # Sentinel-1
    r"HLS\.[LS]30\.T\w{5}\.%Y%jT%H%M%S\.",
    r"(?:M[OYC]D|V(?:NP|J1|J2))\w+\.A%Y%j(?:\.%H%M)?\.",  # MODIS and VIIRS
    r"(?:OPERA_L\d|ECO(?:v\d{3}|STRESS)_L\d|EMIT_L\d)[\w-]+?_%Y%m%dT%H%M%SZ?_",
    r"/%Y%m%d_%H%M%S_(?:\d\d_)?\w{4}_",  # Planet
    r"/m_\d{7}_[ns][ew]_\d\d_\w{1,3}_%Y%m%d",  # NAIP
)
_USUAL: Final = ("%Y%m%dT%H%M%S", "%Y%m%d_%H%M%S", "%Y%m%d", "%Y-%m-%d", "%Y_%m_%d", "%Y-%m", "%Y_%m")
"""How dates are often written, the most exact first."""


def time_finder(pattern: str, *, field: str = "sources.time") -> FindTime:
    """Return a function that finds the time in a href.

    Args:
        pattern: Searched for in the whole href; or ``auto`` for the built-in patterns.
        field: Field of the request that errors name.

    Raises:
        RequestError: The pattern is wrong.
    """
    patterns = [
        compile_pattern(_as_regex(each, field), field)
        for each in (_PRODUCTS if pattern == AUTO else (pattern,))
    ]

    def find(href: str) -> int | None:
        matches = (search(each, href, field) for each in patterns)
        return next((_time_us(match.groupdict()) for match in matches if match is not None), None)

    return find


def guess_pattern(hrefs: Sequence[str]) -> str | None:
    r"""Return a pattern that finds a time in the file names of all these hrefs, or None if none is obvious.

    The pattern includes the characters around the date in the first name, such as ``_%Y%m%d\.``.
    """
    for usual in _USUAL:
        date = _as_regex(usual, "time")
        found = re.search(rf"(\D?)(?<!\d)(?=1[89]|20){date}(?!\d)([^/]?)[^/]*$", hrefs[0])
        if found is None:
            continue
        before, after = (re.escape(found[n]).replace("%", "%%") for n in (1, found.re.groups))
        for pattern in (f"{before}{usual}{after}", f"{before}{usual}", f"{usual}{after}"):
            find = time_finder(pattern)
            if all(find(href) is not None for href in hrefs):
                return pattern
    return None


def _as_regex(pattern: str, field: str) -> str:
    codes = re.findall("%(.?)", pattern)
    parts = [code for code in codes if code != "%"]
    unknown = next((code for code in codes if code not in _PARTS), None)
    twice = next((code for code in parts if parts.count(code) > 1), None)
    there = {*parts, *re.findall(r"\(\?P<(\w)>", pattern)}
    if unknown is not None:
        raise RequestError(
            f"it has %{unknown}; write %Y, %m, %d, %j, %H, %M or %S, and %% for %", field=field
        )
    if twice is not None:
        raise RequestError(f"it has %{twice} twice; write . for each digit of the other one", field=field)
    if "Y" not in there:
        raise RequestError("it has no %Y; write where the year stands, such as _%Y%m%d_", field=field)
    for code, needed in _NEEDS.items():
        if code in there and needed not in there:
            raise RequestError(f"it has %{code} but no %{needed}", field=field)
    if "j" in there and "m" in there:
        raise RequestError("it has both %j, a day of the year, and %m; write one of them", field=field)
    return re.sub("%(.)", lambda match: _PARTS[match[1]], pattern)


def _time_us(parts: Mapping[str, str | None]) -> int | None:
    """Return the time of these parts, or None if the calendar has no such day."""
    numbers = {name: int(text) for name, text in parts.items() if text is not None}
    year = numbers["Y"]
    hour, minute, second = (numbers.get(name, 0) for name in ("H", "M", "S"))
    try:
        moment = datetime(year, numbers.get("m", 1), numbers.get("d", 1), hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    moment += timedelta(days=numbers.get("j", 1) - 1)
    if moment.year != year:
        return None
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
