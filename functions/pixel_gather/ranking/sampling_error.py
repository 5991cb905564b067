"""How far a statistic of an overview may be from that of full resolution. Pure.

A level's pixels are taken as a sample of the area's, spread evenly over it. Five parts add up as squares:

- Sampling: ``s / sqrt(n_eff)`` with ``n_eff = n / (1 - r)``. r is the correlation of neighbouring pixels, in
  both directions, at the level's own spacing. An even sample of a smooth image misses less than a random one
  (Cochran, Sampling Techniques, 1977, chapter 8). For quantiles and shares, s is the standard deviation of
  the indicator: 1 for a pixel above the value, 0 for others. This gives the error of a share. The error of a
  quantile is half the distance between two other quantiles: one error of the share below it, and one above.
- Position: how much the statistic moves if only every second row and column is kept.
- Averaging: how much the statistic moves if the level is averaged once more, times the number of halvings
  from full resolution to this level. Averages have a narrower spread than pixels. This moves quantiles and
  shares. Also, a ratio of averages is not the average of ratios.
- Edges: how much it moves without the pixels that are only partly in the area or next to pixels without data.
- Rounding of the stored numbers.

If a file declares how its overviews were made, only some parts count. For other files, all five count. The
root of the sum is multiplied by a safety factor, which was chosen on real files. docs/rank.md says how often
the interval held the exact value.
"""

import math
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from pixel_gather.ranking.expression import Expression
from pixel_gather.ranking.statistic import Statistic

type Grid = np.ndarray[Any, np.dtype[np.floating[Any]]]
type Resampling = Literal["average", "nearest", "unknown"]

INTERVAL: Final = 1.96
"""Standard errors on either side of a value that hold the exact value in 95 % of cases."""

_SAFETY: Final = 1.5
_FEWEST: Final = 30
"""Pixels below which a level says nothing about its own error."""

_WHOLE: Final = 0.999
_EDGES_OF_UNKNOWN: Final = 2.0
"""Some programs leave a pixel of an overview empty if any of its pixels is. Each level then loses a ring."""

_NONE_SEEN: Final = 3 / INTERVAL
"""If none of n pixels shows a thing, its share is below 3 / n in 95 % of cases (the rule of three)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LevelSample:
    """The pixels of one scene in the area, at one level."""

    bands: dict[str, Grid]
    """By the expression's names, each (y, x), scaled; NaN where there is no data."""

    weights: Grid
    """(y, x): which share of each pixel is in the area and kept by the mask, 0 to 1."""

    resampling: Resampling
    """How the level was made. ``nearest`` also for every n-th pixel."""

    factor: float
    """Pixels of full resolution along one side of a pixel."""

    quantum: float = 0.0
    """Smallest step between two stored values, scaled."""

    is_indicator: bool = False
    """Whether the values are 0 and 1, so that all of them may well be equal."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic and its standard error."""

    value: float
    """NaN if no pixel counts."""

    error: float
    """Standard error; infinite if the level cannot tell."""

    n_pixels: int
    """Pixels that count."""


def estimate(sample: LevelSample, expression: Expression, statistic: Statistic) -> Estimate:
    """Return a statistic of a level, and how far that of full resolution may be."""
    values = expression.evaluate(sample.bands)
    value, n = _statistic(values, sample.weights, statistic)
    if n == 0:
        return Estimate(math.nan, math.inf, 0)
    inside = values[_counts(values, sample.weights)]
    is_constant = inside.min() == inside.max() and not sample.is_indicator
    if n < _FEWEST or is_constant:  # a constant level does not show what it was made from
        return Estimate(value, math.inf, n)
    is_mean = statistic.kind == "mean" and expression.is_linear
    edges = _edges(values, sample.weights, statistic, value)
    parts = [
        edges * (_EDGES_OF_UNKNOWN if sample.resampling == "unknown" else 1.0),
        _rounding(sample, statistic),
    ]
    if sample.is_indicator or statistic.kind == "share":
        parts.append(_NONE_SEEN / n)
    if sample.resampling != "nearest":
        parts.append(_averaging(sample, expression, statistic, value))
    if sample.resampling != "average":
        parts.append(_position(values, sample.weights, statistic, value))
    if sample.resampling != "average" or not is_mean:
        parts.append(_sampling(values, sample.weights, statistic, value))
    return Estimate(value, _SAFETY * math.hypot(*parts), n)


def _counts(values: Grid, weights: Grid) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.isfinite(values) & (weights > 0)


def _statistic(values: Grid, weights: Grid, statistic: Statistic) -> tuple[float, int]:
    counts = _counts(values, weights)
    return statistic.of(values[counts], weights[counts]), int(np.count_nonzero(counts))


def _sampling(values: Grid, weights: Grid, statistic: Statistic, value: float) -> float:
    counts = _counts(values, weights)
    if statistic.kind == "mean":
        measured = values
    else:
        measured = np.where(values > (statistic.at if statistic.kind == "share" else value), 1.0, 0.0)
    centred = np.where(counts, measured - np.average(measured[counts], weights=weights[counts]), np.nan)
    variance = float(np.nanmean(centred * centred))
    error = math.sqrt(variance * (1 - _correlation(centred, variance)) / np.count_nonzero(counts))
    if statistic.kind != "quantile":
        return error
    ends = [min(max(statistic.at + step, 0.0), 1.0) for step in (-error, error)]
    low, high = (
        Statistic("quantile", at).of(values[counts], weights[counts]) for at in ends
    )  # half a band of quantiles, in units of the value
    return (high - low) / 2


def _correlation(centred: Grid, variance: float) -> float:
    """Return the mean correlation of neighbours, across and down, 0 to 1."""
    if not variance > 0:
        return 0.0
    found = []
    for one, other in ((centred[:, 1:], centred[:, :-1]), (centred[1:], centred[:-1])):
        products = one * other
        known = np.isfinite(products)
        if known.any():
            found.append(float(products[known].mean()) / variance)
    return min(max(sum(found) / len(found), 0.0), 1.0) if found else 0.0


def _moved(values: Grid, weights: Grid, statistic: Statistic, value: float) -> float:
    other, n = _statistic(values, weights, statistic)
    return abs(other - value) if n else math.nan


def _position(values: Grid, weights: Grid, statistic: Statistic, value: float) -> float:
    quarters = [np.s_[row::2, col::2] for row in (0, 1) for col in (0, 1)]
    moves = [_moved(values[part], weights[part], statistic, value) for part in quarters]
    return max((each for each in moves if math.isfinite(each)), default=0.0)


def _averaging(sample: LevelSample, expression: Expression, statistic: Statistic, value: float) -> float:
    weights = _trimmed(sample.weights)
    if not weights.size:
        return 0.0
    coarser: dict[str, Grid] = {}
    halved_weights: Grid = np.zeros((0, 0))
    for name, band in sample.bands.items():
        known = np.where(np.isfinite(_trimmed(band)), weights, 0.0)
        halved_weights = _summed(known)
        with np.errstate(all="ignore"):
            coarser[name] = _summed(known * np.nan_to_num(_trimmed(band))) / halved_weights
    move = _moved(expression.evaluate(coarser), halved_weights, statistic, value)
    return max(math.log2(max(sample.factor, 1.0)), 1.0) * move if math.isfinite(move) else 0.0


def _trimmed(grid: Grid) -> Grid:
    return grid[: grid.shape[0] // 2 * 2, : grid.shape[1] // 2 * 2]


def _summed(grid: Grid) -> Grid:
    """Return the sums of blocks of 2 x 2."""
    return np.asarray(grid.reshape(grid.shape[0] // 2, 2, grid.shape[1] // 2, 2).sum(axis=(1, 3)))


def _edges(values: Grid, weights: Grid, statistic: Statistic, value: float) -> float:
    is_edge = ~(np.isfinite(values) & (weights > _WHOLE))
    if not is_edge.any():
        return 0.0
    wide = is_edge.copy()
    wide[1:] |= is_edge[:-1]
    wide[:-1] |= is_edge[1:]
    wide[:, 1:] |= is_edge[:, :-1]
    wide[:, :-1] |= is_edge[:, 1:]
    move = _moved(np.where(wide, np.nan, values), weights, statistic, value)
    if math.isfinite(move):
        return move
    counts = _counts(values, weights)  # every pixel is at an edge
    return float(values[counts].std()) if statistic.kind != "share" else 0.5


def _rounding(sample: LevelSample, statistic: Statistic) -> float:
    """Return the error of one rounded number: all may have been rounded the same way."""
    return 0.0 if statistic.kind == "share" else sample.quantum / math.sqrt(12)
