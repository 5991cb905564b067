"""Formats names and numbers for figures. Names become short and safe. Pure."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import count
from typing import Final

LONGEST: Final = 28
"""Most characters of a name in a legend."""


def short_label(name: str, most: int = LONGEST) -> str:
    """Return a name that is safe for matplotlib: printable, on one line, no formula, cut in the middle.

    Args:
        name: Any text.
        most: Most characters of the result, with the ellipsis.
    """
    printable = "".join(each if each.isprintable() else " " for each in name).strip()
    if len(printable) > most:
        n_last = most // 2
        printable = f"{printable[: most - 1 - n_last]}…{printable[-n_last:]}"
    # matplotlib reads $…$ as mathematics, and leaves labels with a leading _ out of legends
    return ("\u2009" if printable.startswith("_") else "") + printable.replace("$", r"\$")


def unique_labels(names: Sequence[str], most: int = LONGEST) -> tuple[str, ...]:
    """Return short, unique labels. Equal ones get numbers in their order."""
    labels = [short_label(name, most) for name in names]
    n_of = Counter(labels)
    numbers = {label: count(1) for label in labels}
    return tuple(f"{label} ({next(numbers[label])})" if n_of[label] > 1 else label for label in labels)


def named(name: str, concurrency: int) -> str:
    """Return a run's label with its concurrency, unless the name contains it: ``fast, 12``."""
    if re.search(rf"(?<![\d(]){concurrency}(?!\d)", name):
        return name
    return f"{name} · {concurrency:,} at a time"


def counted(n: int, noun: str) -> str:
    """Return a count with its noun: ``1 source``, ``1,278 sources``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def plain_time(time_s: float) -> str:
    """Return a short time with its unit."""
    return f"{plain_number(1000 * time_s)} ms" if time_s < 1 else f"{plain_number(time_s)} s"


def plain_number(value: float) -> str:
    """Return a number for an axis or a note: ``1,200``, ``0.25``, never ``1e3``."""
    if abs(value) >= 1000 or value == round(value):  # noqa: PLR2004 # as many digits as one reads
        return f"{value:,.0f}"
    return f"{value:.3g}"
