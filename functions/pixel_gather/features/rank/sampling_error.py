"""How far a statistic of an overview may be from that of full resolution. Pure.

A level's pixels are taken as a sample of the area's, spread evenly over it. These parts add up as squares:

- Sampling: ``s / sqrt(n_eff)`` with ``n_eff = n / (1 - r)``. r is the correlation of neighbouring pixels, in
  both directions, at the level's own spacing. An even sample of a smooth image misses less than a random one
  (Cochran, Sampling Techniques, 1977, chapter 8). For quantiles and shares, s is the standard deviation of
  the indicator: 1 for a pixel above the value, 0 for others. This gives the error of a share. The error of a
  quantile is half the distance between two other quantiles: one error of the share below it, and one above.
- Position: how much the statistic moves if only every second row and column is kept.
- Averaging: a ratio of averages is not the average of ratios. What one more halving of the level moves shows
  by how much. Detail that looks like noise moves four times as much at each finer level, and nothing that is
  usual in images moves more. So the sum of all levels down to full resolution is the bound.
- Edges: how much it moves without the pixels that are only partly in the area or next to pixels without
  data.
- Unseen: pixels that the level shows only mixed with what the mask drops, or next to pixels without data.
  Mixed pixels are left out. The mean of what they hide is within 1.5 standard deviations of what is seen.
- Rounding of the stored numbers.

If a file declares how its overviews were made, only some parts count. For other files, all of them count. The
root of the sum is multiplied by a safety factor, which was chosen on real files. docs/rank.md says how often
the interval held the exact value.

Only a sample of single pixels shows percentiles and shares: overviews made by nearest neighbour. Averages
have a narrower spread than pixels, and nothing in them tells how much narrower.

A level tells nothing if too much of the area is unseen, or if one pixel decides the mean of a ratio. Nor does
it if its pixels without data are scattered: then there are smaller gaps that no level shows.
"""

import math
from typing import Any, Final, Literal

import numpy as np
from msgspec import Struct

from pixel_gather.features.rank.statistic import Statistic
from pixel_gather.tables.expression import Expression

type Grid = np.ndarray[Any, np.dtype[np.floating[Any]]]
type Mask = np.ndarray[Any, np.dtype[np.bool_]]
type Resampling = Literal["average", "nearest", "unknown", "moves means"]

INTERVAL: Final = 1.96
"""Standard errors on either side of a value that hold the exact value in 95 % of cases."""

_SAFETY: Final = 1.5
_FEWEST: Final = 30
"""Pixels below which a level says nothing about its own error."""

_WHOLE: Final = 0.999
_EDGES_OF_UNKNOWN: Final = 2.0
"""Some programs leave a pixel of an overview empty if any of its pixels is. Each level then loses a ring."""

_RINGS_OF_UNKNOWN: Final = 2
"""Cubic resampling mixes a pixel with those up to two pixels away."""

_MOST_UNSEEN: Final = 0.3
"""Share of the area beyond which what is seen says nothing about what is not."""

_SCATTERED: Final = 0.05
"""Share of the pixels without data that have none beside them, beyond which they are scattered."""

_FEWEST_SCATTERED: Final = 3

_OF_ONE: Final = 0.1
"""Share of the variance beyond which one pixel decides the mean."""

_GROWTH: Final = 4.0
"""How much more noise a level has than the next coarser one."""

_N_HALVINGS: Final = 2
"""The first may move the value up and down by the same, so that little of it is seen."""

_MEAN: Final = Statistic("mean")
_NONE_SEEN: Final = 3 / INTERVAL
"""If none of n pixels shows a thing, its share is below 3 / n in 95 % of cases (the rule of three)."""


class LevelSample(Struct, frozen=True, kw_only=True, eq=False):
    """The pixels of one scene in the area, at one level."""

    bands: dict[str, Grid]
    """By the expression's names, each (y, x), scaled; NaN where there is no data."""

    weights: Grid
    """(y, x): which share of each pixel is in the area, 0 to 1."""

    resampling: Resampling
    """How the level was made. ``nearest`` also for every n-th pixel."""

    kept: Grid | None = None
    """(y, x): which share of each pixel the mask keeps, 0 to 1. None without a mask."""

    factor: float
    """Pixels of full resolution along one side of a pixel."""

    quantum: float = 0.0
    """Smallest step between two stored values, scaled."""

    is_indicator: bool = False
    """Whether the values are 0 and 1, so that all of them may well be equal."""


class ErrorEstimate(Struct, frozen=True):
    """A statistic and its standard error."""

    value: float
    """NaN if no pixel counts."""

    error: float
    """Standard error; infinite if the level cannot tell."""

    n_pixels: int
    """Pixels that count."""


def shows(resampling: Resampling, *, is_mean: bool) -> bool:
    """Tell whether overviews that were made in a way show a mean, or a percentile or share."""
    return resampling == "nearest" or (is_mean and resampling != "moves means")


def estimate(sample: LevelSample, expression: Expression, statistic: Statistic) -> ErrorEstimate:
    """Return a statistic of a level, and how far that of full resolution may be."""
    all_values = expression.evaluate(sample.bands)
    has_data = _counts(all_values, sample.weights)
    values = np.where(_is_mixed(sample), np.nan, all_values)
    value, n = _statistic(values, sample.weights, statistic)
    if n == 0:
        return ErrorEstimate(math.nan, math.inf, 0)
    is_mean = statistic.kind == "mean" and not sample.is_indicator
    inside = values[_counts(values, sample.weights)]
    is_constant = inside.min() == inside.max() and not sample.is_indicator
    unseen = _unseen(sample, has_data)
    if (
        n < _FEWEST
        or is_constant  # it does not show what it was made from
        or not shows(sample.resampling, is_mean=is_mean)
        or unseen > _MOST_UNSEEN
        or (is_mean and not expression.is_linear and _is_of_few(inside))
        or _is_scattered(sample, all_values)
    ):
        return ErrorEstimate(value, math.inf, n)
    edges = _edges(values, sample.weights, statistic, value, has_data=has_data)
    parts = [
        edges * (_EDGES_OF_UNKNOWN if sample.resampling == "unknown" else 1.0),
        unseen * float(inside.std()) / INTERVAL,
        _rounding(sample, statistic),
    ]
    if sample.is_indicator or statistic.kind == "share":
        parts.append(_NONE_SEEN / n)
    if sample.resampling != "nearest":
        parts.append(_averaging(sample, values, expression, value))
    if sample.resampling != "average":
        parts.append(_position(values, sample.weights, statistic, value))
    if sample.resampling != "average" or not expression.is_linear:
        parts.append(_sampling(values, sample.weights, statistic, value))
    return ErrorEstimate(value, _SAFETY * math.hypot(*parts), n)


def _is_of_few(values: Grid) -> bool:
    """Tell whether one pixel decides the mean, such as a ratio whose denominator is almost 0."""
    squares = (values - values.mean()) ** 2
    return bool(squares.max() > _OF_ONE * squares.sum())


def _is_mixed(sample: LevelSample) -> Mask:
    """Return the pixels that may hold something of what the mask drops."""
    if sample.kept is None:
        return np.zeros(sample.weights.shape, np.bool_)
    return widen_mask(sample.kept < _WHOLE, _RINGS_OF_UNKNOWN if sample.resampling == "unknown" else 0)


def _unseen(sample: LevelSample, has_data: Mask) -> float:
    """Return the share of the area's pixels that count, but that the level does not show by themselves.

    Half of the pixels next to those without data are taken as unseen. If nobody knows how the overviews were
    made, all of them are, and so are the neighbours without data: they may have been lost.
    """
    wanted = sample.weights if sample.kept is None else sample.weights * sample.kept
    total = float(wanted[has_data].sum())
    if not total > 0:
        return 1.0
    seen = has_data & ~_is_mixed(sample)
    unseen = total - float(wanted[seen].sum())
    if sample.resampling != "nearest":
        is_hole = (sample.weights > 0) & ~has_data
        beside = float(wanted[seen & widen_mask(is_hole, 1)].sum())
        if sample.resampling == "average":
            beside /= 2
        else:
            beside += float(sample.weights[is_hole & widen_mask(has_data, 1)].sum())
        unseen += beside
    return unseen / total


def _is_scattered(sample: LevelSample, values: Grid) -> bool:
    """Tell whether pixels without data are scattered, so that there are gaps smaller than a pixel."""
    if sample.resampling == "nearest":
        return False
    is_hole = (sample.weights > _WHOLE) & ~np.isfinite(values)
    beside = np.zeros_like(is_hole)
    beside[1:] |= is_hole[:-1]
    beside[:-1] |= is_hole[1:]
    beside[:, 1:] |= is_hole[:, :-1]
    beside[:, :-1] |= is_hole[:, 1:]
    alone = int(np.count_nonzero(is_hole & ~beside))
    return alone >= _FEWEST_SCATTERED and alone > _SCATTERED * int(np.count_nonzero(is_hole))


def widen_mask(mask: Mask, rings: int) -> Mask:
    """Return a mask with so many rings of pixels around it."""
    for _ in range(rings):
        wide = mask.copy()
        wide[1:] |= mask[:-1]
        wide[:-1] |= mask[1:]
        mask = wide.copy()
        mask[:, 1:] |= wide[:, :-1]
        mask[:, :-1] |= wide[:, 1:]
    return mask


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


def _move_statistic(values: Grid, weights: Grid, statistic: Statistic, value: float) -> float:
    other, n = _statistic(values, weights, statistic)
    return abs(other - value) if n else math.nan


def _position(values: Grid, weights: Grid, statistic: Statistic, value: float) -> float:
    quarters = [np.s_[row::2, col::2] for row in (0, 1) for col in (0, 1)]
    moves = [_move_statistic(values[part], weights[part], statistic, value) for part in quarters]
    return max((each for each in moves if math.isfinite(each)), default=0.0)


def _averaging(sample: LevelSample, values: Grid, expression: Expression, value: float) -> float:
    """Return the bound of what averaging from full resolution to this level has moved."""
    moves = []
    bands, weights, before = dict(sample.bands), np.where(np.isfinite(values), sample.weights, 0.0), value
    for halving in range(_N_HALVINGS):
        bands, weights = _halve_level(bands, weights)
        after, n = _statistic(expression.evaluate(bands), weights, _MEAN)
        if not n:
            break
        moves.append(abs(after - before) / _GROWTH**halving)
        before = after
    if expression.is_linear:
        return moves[0] * max(math.log2(max(sample.factor, 1.0)), 1.0) if moves else 0.0
    levels = _GROWTH * (max(sample.factor, 2.0) ** 2 - 1) / (_GROWTH - 1)
    return max(moves, default=math.inf) * levels / INTERVAL


def _halve_level(bands: dict[str, Grid], weights: Grid) -> tuple[dict[str, Grid], Grid]:
    """Return a level averaged once more, and the weights of its pixels."""
    halved: dict[str, Grid] = {}
    weights = _trim_to_even(weights)
    for name, band in bands.items():
        known = np.where(np.isfinite(_trim_to_even(band)), weights, 0.0)
        with np.errstate(all="ignore"):
            halved[name] = _sum_blocks(known * np.nan_to_num(_trim_to_even(band))) / _sum_blocks(known)
    return halved, _sum_blocks(weights)


def _trim_to_even(grid: Grid) -> Grid:
    return grid[: grid.shape[0] // 2 * 2, : grid.shape[1] // 2 * 2]


def _sum_blocks(grid: Grid) -> Grid:
    """Return the sums of blocks of 2 x 2."""
    return np.asarray(grid.reshape(grid.shape[0] // 2, 2, grid.shape[1] // 2, 2).sum(axis=(1, 3)))


def _edges(values: Grid, weights: Grid, statistic: Statistic, value: float, *, has_data: Mask) -> float:
    is_edge = ~(has_data & (weights > _WHOLE))
    if not is_edge.any():
        return 0.0
    wide = widen_mask(is_edge, 1)
    move = _move_statistic(np.where(wide, np.nan, values), weights, statistic, value)
    if math.isfinite(move):
        return move
    counts = _counts(values, weights)  # every pixel is at an edge
    return float(values[counts].std()) if statistic.kind != "share" else 0.5


def _rounding(sample: LevelSample, statistic: Statistic) -> float:
    """Return the error of one rounded number: all may have been rounded the same way."""
    return 0.0 if statistic.kind == "share" else sample.quantum / math.sqrt(12)
