"""Statistics of the pixels of zones, weighted by how much of each pixel a zone covers. Pure.

Definitions are those of exactextract: https://isciences.github.io/exactextract/operations.html. All zones are
computed at once.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.tables.features import Floats, Integers
from pixel_gather.tables.read_bands import Mask

_PLAIN: Final = (
    *("count", "sum", "mean", "variance", "stdev", "cv", "min", "max", "median"),
    *("mode", "majority", "minority", "variety"),
)
_QUANTILE: Final = re.compile(r"p(\d{1,2}(?:\.\d+)?|100)")
_SHARE: Final = re.compile(r"frac[_:](-?\d+(?:\.\d+)?)")
_OF_MOMENTS: Final = frozenset({"variance", "stdev", "cv"})
_OF_OTHER_UNITS: Final = frozenset({"count", "sum", "variance", "cv", "variety", "frac"})
DEFAULT: Final = ("mean", "stdev", "count")

_WHOLE: Final = 2**60
"""Of a zone's cells together, in the units that quantiles count in."""


class ZoneStatistic(Struct, frozen=True):
    """One statistic."""

    name: str
    """Of its column: ``mean``, ``p90``, ``frac_4``."""

    at: float = 0.0
    """The quantile, 0 to 1, or the class."""

    @classmethod
    def parse(cls, text: str) -> "ZoneStatistic":
        """Parse one statistic.

        Raises:
            RequestError: There is none of this name.
        """
        text = text.strip()
        if text in _PLAIN:
            return cls(text, 0.5)
        if found := _QUANTILE.fullmatch(text):
            return cls(text, float(found[1]) / 100)
        if found := _SHARE.fullmatch(text):
            return cls(f"frac_{found[1]}", float(found[1]))
        raise RequestError(
            f"there is no {text[:40]!r}; write {', '.join(_PLAIN)}, p10 (p0 to p100) or frac_4 for class 4",
            field="statistics",
        )

    @property
    def kind(self) -> str:
        """What is computed."""
        if self.name in _PLAIN:
            return {"median": "quantile", "majority": "mode"}.get(self.name, self.name)
        return "frac" if self.name.startswith("frac") else "quantile"

    @property
    def keeps_unit(self) -> bool:
        """Whether it has the unit of the pixels."""
        return self.kind not in _OF_OTHER_UNITS


def parse_statistics(given: str | Sequence[str]) -> tuple[ZoneStatistic, ...]:
    """Parse statistics, in one text with commas or one each.

    Raises:
        RequestError: One does not exist, or is there twice, or there is none.
    """
    if not isinstance(given, Iterable):
        raise RequestError(f"it is {given!r}; write names, such as mean,p90", field="statistics")
    texts = given.split(",") if isinstance(given, str) else [str(each) for each in given]
    if not texts:
        raise RequestError("it is empty; write names, such as mean,p90", field="statistics")
    found = tuple(ZoneStatistic.parse(each) for each in texts)
    names = [each.name for each in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise RequestError(f"{twice} is there twice; name it once", field="statistics")
    return found


def zone_statistics(
    values: Floats, counts: Mask, coverage: Floats, starts: Integers, statistics: Sequence[ZoneStatistic]
) -> tuple[Floats, list[Floats]]:
    """Return the covered size of what counts, and each statistic, of each zone; NaN where there is none.

    Args:
        values: Of each cell, zone by zone.
        counts: Whether a cell counts.
        coverage: Of each cell, above 0.
        starts: The first cell of each zone. There is one.
        statistics: Which.
    """
    weights = coverage
    if not counts.all():
        weights, values = np.where(counts, coverage, 0.0), np.where(counts, values, 0.0)
    total = np.add.reduceat(weights, starts)
    kinds = {each.kind for each in statistics}
    sizes = np.diff([*starts, len(values)])
    found: dict[str, Floats] = {"count": total}
    with np.errstate(all="ignore"):
        sums = np.add.reduceat(values * weights, starts)
        known = np.where(total > 0, 1.0, np.nan)
        found["sum"] = sums * known
        found["mean"] = sums / total
        if kinds & _OF_MOMENTS:
            off = values - np.repeat(np.where(total > 0, found["mean"], 0.0), sizes)
            found["variance"] = np.add.reduceat(weights * (off * off), starts) / total
            found["stdev"] = np.sqrt(found["variance"])
            found["cv"] = found["stdev"] / found["mean"]
        if "min" in kinds:
            found["min"] = np.minimum.reduceat(np.where(counts, values, np.inf), starts) * known
        if "max" in kinds:
            found["max"] = np.maximum.reduceat(np.where(counts, values, -np.inf), starts) * known
    if kinds & {"quantile", "mode", "minority", "variety", "frac"}:
        sorted_ = _Sorted.of(
            values[counts], weights[counts], np.repeat(np.arange(len(starts)), sizes)[counts]
        )
        return total, [
            found[each.kind] if each.kind in found else sorted_.statistic(each, total) for each in statistics
        ]
    return total, [found[each.kind] for each in statistics]


class _Sorted(Struct, frozen=True, dict=True):
    """The different values of each zone, ascending, with their coverage."""

    zones: Integers
    values: Floats
    weights: Floats

    @classmethod
    def of(cls, values: Floats, weights: Floats, zones: Integers) -> "_Sorted":
        """Sort cells, and add up those of one zone and value."""
        order = np.lexsort((values, zones))
        values, weights, zones = values[order], weights[order], zones[order]
        if not len(values):
            return cls(zones, values, weights)
        is_new = np.append(True, (np.diff(values) != 0) | (np.diff(zones) != 0))
        first = np.flatnonzero(is_new)
        return cls(zones[first], values[first], np.add.reduceat(weights, first))

    def statistic(self, statistic: ZoneStatistic, total: Floats) -> Floats:
        """Return a statistic of each zone."""
        n = len(total)
        out = np.full(n, np.nan)
        if statistic.kind == "variety":
            return np.bincount(self.zones, minlength=n).astype(np.float64)
        if not len(self.zones):
            return out
        present = self.zones[self._starts]
        if statistic.kind == "frac":
            is_class = self.values == statistic.at
            share = np.bincount(self.zones[is_class], self.weights[is_class], minlength=n)
            with np.errstate(invalid="ignore"):
                return np.asarray(share / np.where(total > 0, total, np.nan))
        if statistic.kind == "quantile":
            out[present] = self._quantiles(statistic.at)
            return out
        # Of equal coverage, exactextract takes the largest value as mode, and the smallest as minority
        sign = 1.0 if statistic.kind == "mode" else -1.0
        order = np.lexsort((sign * self.values, sign * self.weights, self.zones))
        out[present] = self.values[order][self._stops - 1]
        return out

    @cached_property
    def _starts(self) -> Integers:
        """The first value of each zone that has some."""
        return np.flatnonzero(np.append(True, np.diff(self.zones) != 0))

    @cached_property
    def _stops(self) -> Integers:
        """After the last value of each zone."""
        return np.append(self._starts[1:], len(self.zones))

    @cached_property
    def _places(self) -> tuple[Floats, Floats]:
        """Where each value stands among those of its zone, from 0; and where each zone ends."""
        starts, stops = self._starts, self._stops
        sizes = stops - starts
        # Shares of each zone as whole numbers: their sums are exact, so a quantile is the same beside any
        # other zone. A sum over many zones wraps around, and so does the difference of two.
        total = np.repeat(np.add.reduceat(self.weights, starts), sizes)
        weights = np.rint(self.weights / total * _WHOLE).astype(np.int64)
        ends = np.cumsum(weights)
        cumulative = (ends - np.repeat(np.append(0, ends[stops[:-1] - 1]), sizes)) / _WHOLE
        weights = weights / _WHOLE
        index = np.arange(len(self.zones)) - np.repeat(starts, sizes)
        places = index * weights + np.repeat(sizes - 1, sizes) * (cumulative - weights)
        places[starts] = 0.0
        return places, cumulative[stops - 1] * (sizes - 1)

    def _quantiles(self, at: float) -> Floats:
        """Return a weighted quantile of each zone that has values, as exactextract interpolates it."""
        starts, stops = self._starts, self._stops
        places, ends = self._places
        wanted = at * ends
        is_below = places <= np.repeat(wanted, stops - starts)
        n_below = np.add.reduceat(is_below.astype(np.int64), starts)
        right = np.minimum(starts + np.maximum(n_below, 1), stops - 1)
        left = np.maximum(right - 1, starts)
        step = places[right] - places[left]
        with np.errstate(all="ignore"):
            share = np.where(step > 0, (wanted - places[left]) / step, 0.0)
        share = np.clip(share, 0.0, 1.0)
        return np.asarray(self.values[left] + share * (self.values[right] - self.values[left]))


def column_names(values: Sequence[str], statistics: Sequence[ZoneStatistic]) -> tuple[str, ...]:
    """Return the columns: a statistic alone, or with the value before it if there are several."""
    if len(values) == 1:
        return tuple(each.name for each in statistics)
    return tuple(f"{value}_{each.name}" for value in values for each in statistics)


def as_status(status: np.ndarray[Any, Any], starts: Integers) -> Integers:
    """Return the worst status of each zone's cells."""
    return np.maximum.reduceat(status.astype(np.int64), starts)
