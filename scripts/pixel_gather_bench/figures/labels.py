"""Formats names and numbers for figures, and chooses units. Names become short and safe. Pure."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import numpy as np

from pixel_gather.features.report.findings import plain_number

LONGEST: Final = 28
"""Most characters of a name in a legend."""

type Numbers = np.ndarray[Any, np.dtype[Any]]

_SECONDS_FROM_S: Final = 10.0
"""From this median on, times are shown in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureUnit:
    """A unit, and how many of it make one second or one byte."""

    name: str
    per_one: float


MILLISECONDS: Final = FigureUnit(name="ms", per_one=1e3)
SECONDS: Final = FigureUnit(name="s", per_one=1.0)


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


def label_with_number(name: str, concurrency: int) -> str:
    """Return a run's label with its concurrency, unless the name contains it: ``fast, 12``."""
    if re.search(rf"(?<![\d(]){concurrency}(?!\d)", name):
        return name
    return f"{name} · {concurrency:,} at a time"


def count_with_noun(n: int, noun: str) -> str:
    """Return a count with its noun: ``1 source``, ``1,278 sources``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def plain_time(time_s: float) -> str:
    """Return a short time with its unit."""
    return f"{plain_number(1000 * time_s)} ms" if time_s < 1 else f"{plain_number(time_s)} s"


def unit_of_times(times_s: Numbers) -> FigureUnit:
    """Return the unit of times: seconds for a median of 10 s or more, else milliseconds."""
    return SECONDS if len(times_s) and np.median(times_s) >= _SECONDS_FROM_S else MILLISECONDS


def unit_of_sizes(nbytes: Numbers) -> FigureUnit:
    """Return the unit of sizes, chosen by their median."""
    typical = float(np.median(nbytes)) if len(nbytes) else 0.0
    for name, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if typical >= size:
            return FigureUnit(name=name, per_one=1 / size)
    return FigureUnit(name="bytes", per_one=1.0)
