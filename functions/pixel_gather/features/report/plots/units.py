"""Chooses the unit of a figure's numbers. Pure."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

type Numbers = np.ndarray[Any, np.dtype[Any]]

_SECONDS_FROM_S: Final = 10.0
"""From this median on, times are shown in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A unit, and how many of it make one second or one byte."""

    name: str
    per_one: float


MILLISECONDS: Final = Unit(name="ms", per_one=1e3)
SECONDS: Final = Unit(name="s", per_one=1.0)


def unit_of_times(times_s: Numbers) -> Unit:
    """Return the unit of times: seconds for a median of 10 s or more, else milliseconds."""
    return SECONDS if len(times_s) and np.median(times_s) >= _SECONDS_FROM_S else MILLISECONDS


def unit_of_sizes(nbytes: Numbers) -> Unit:
    """Return the unit of sizes, chosen by their median."""
    typical = float(np.median(nbytes)) if len(nbytes) else 0.0
    for name, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if typical >= size:
            return Unit(name=name, per_one=1 / size)
    return Unit(name="bytes", per_one=1.0)
