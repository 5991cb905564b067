"""What scenes can be ranked by under a name, and under which names bands are found. Pure."""

from collections.abc import Collection, Mapping
from typing import Final

from pixel_gather.core.model.band_names import COLOURS, INDEXES, named_band

EXPRESSIONS: Final[Mapping[str, str]] = {
    "red": "red",
    "green": "green",
    "blue": "blue",
    "brightness": "(red + green + blue) / 3",
    **INDEXES,
}
"""The named ones."""

NORMALISED: Final = tuple(INDEXES)
"""Those that lie between -1 and 1 where no reflectance is below 0."""

SHARES: Final = ("clear", "valid", "cloud")
"""Shares of the area, 0 to 1, not values of bands.

``valid``: the bands hold data. ``clear``: they do, and the mask keeps the pixel. ``cloud``: of the valid
pixels, the mask drops it.
"""

_MOST_DIGITS: Final = 9
"""Longest number of a band."""

_OF_PICTURES: Final = {name: number for number, name in enumerate(COLOURS, start=1)}


def found_band(name: str, bands: Collection[str]) -> str | None:
    """Return which band of a list or scene an expression's name means; None if there is none.

    The name has no number after a colon.
    """
    lower = {each.lower(): each for each in bands}
    return lower.get(name.lower()) or named_band(name.lower(), bands)


def band_number(name: str) -> int | None:
    """Return which band of a file without named bands is meant: ``b3`` is band 3, ``red`` is band 1."""
    if name.lower() in _OF_PICTURES:
        return _OF_PICTURES[name.lower()]
    digits = name[1:]
    is_number = digits.isdecimal() and len(digits) <= _MOST_DIGITS
    return int(digits) if name[:1] in ("b", "B") and is_number and int(digits) > 0 else None
