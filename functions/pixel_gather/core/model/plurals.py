"""Write a number with its noun, 1 source, 2 sources, or its unit, and names in a sentence. Pure."""

from collections.abc import Iterable
from typing import Final

_STEP: Final = 1000
"""Between decimal units."""


def counted(n: int, thing: str) -> str:
    """Return the number and the noun. The noun is plural unless the number is 1.

    Args:
        n: The number.
        thing: The singular noun, such as ``source``.
    """
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def size(nbytes: float) -> str:
    """Return a size in decimal units, whole bytes or with one decimal."""
    if round(nbytes) < _STEP:
        return f"{nbytes:,.0f} B"
    for unit in ("kB", "MB", "GB"):
        nbytes /= _STEP
        if round(nbytes, 1) < _STEP:
            return f"{nbytes:,.1f} {unit}"
    return f"{nbytes / _STEP:,.1f} TB"


def in_degrees(width: float) -> str:
    """Return a width in degrees, such as ``1 degree`` or ``0.25 degrees``."""
    return f"{width:.8g} degree{'' if width == 1 else 's'}"


def none_of(names: Iterable[str]) -> str:
    """Return what is not there: ``no nir``, or ``no nir, no red and no scl``. A name counts once."""
    *first, last = [f"no {name}" for name in dict.fromkeys(names)]
    return f"{', '.join(first)} and {last}" if first else last
