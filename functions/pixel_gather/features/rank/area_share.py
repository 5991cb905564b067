"""How many pixels of an area have data or are clear, and how far a level may be from that. Pure."""

import math
from typing import Any, Final, NamedTuple

import numpy as np

from pixel_gather.features.rank.sampling_error import (
    INTERVAL,
    Grid,
    LevelSample,
    Mask,
    Resampling,
    estimate,
    widen_mask,
)
from pixel_gather.features.rank.statistic import Statistic
from pixel_gather.tables.expression import Expression

_RINGS_OF_CUBIC: Final = 2
"""So many pixels of the new level on either side decide whether a pixel has data."""

SHARE = Expression.parse("share")


class Counted(NamedTuple):
    """A number of pixels of full resolution."""

    n: float
    low: float
    """Lower end of its 95 % interval."""

    high: float

    @classmethod
    def exactly(cls, n: float) -> "Counted":
        """Return a number without an error."""
        return cls(n, n, n)

    def share_of(self, n_pixels: float) -> "Counted":
        """Return it as a share of an area."""
        return Counted(*(min(max(each / n_pixels, 0.0), 1.0) for each in self))


def counted_on(is_valid: Mask, weights: Grid, *, resampling: Resampling, factor: float) -> Counted:
    """Return how many pixels of full resolution count, by one level.

    Single pixels are a sample. In other overviews, a pixel next to one without data may itself lack some, and
    the one without data may have lost some: an average of numbers and NaN is NaN if no nodata was declared.
    If nobody knows how they were made, each level may have been made of the one before by cubic, which looks
    at pixels up to two pixels away.

    Args:
        is_valid: (y, x): which pixels of the level have data.
        weights: (y, x): which share of each counts if it has data.
        resampling: How the level was made.
        factor: Pixels of full resolution along one side of a pixel.
    """
    cell = factor**2
    n = float(weights[is_valid].sum())
    if resampling == "nearest":
        sample = indicator(is_valid & (weights > 0), np.ones(weights.shape), resampling, factor)
        margin = INTERVAL * estimate(sample, SHARE, Statistic("mean")).error * weights.size
        low, high = max(n - margin, 0.0), n + margin
    else:
        rings = 1 if resampling == "average" else _rings_of_unknown(factor)
        low = n - float(weights[is_valid & widen_mask(~is_valid, rings)].sum())
        lost = ~is_valid & widen_mask(is_valid, rings)
        high = n + float(weights[lost].sum())
    return Counted(n * cell, low * cell, high * cell)


def _rings_of_unknown(factor: float) -> int:
    """Return how far an edge of the data may have moved on a level, in pixels of that level.

    Each level may move the edge by 2 of its own pixels. The shifts of all finer levels add up: 2 + 1 + 1/2
    and so on.
    """
    return math.ceil(2 * _RINGS_OF_CUBIC * (1 - 1 / max(factor, 2)))


def indicator(is_true: Mask, weights: Grid, resampling: Resampling, factor: float) -> LevelSample:
    """Return the sample whose mean is the share of true pixels."""
    return LevelSample(
        bands={"share": is_true.astype(np.float64)},
        weights=weights,
        resampling=resampling,
        factor=factor,
        is_indicator=True,
    )


def all_of(area: Grid, factor: float) -> float:
    """Return the area in pixels of full resolution, summed as `counted_on` does: the share of all is 1."""
    return float(area.ravel().sum()) * factor**2


def pixels_counted_by(
    by: str, area: np.ndarray[Any, Any], is_valid: Mask, kept: Mask
) -> tuple[Mask, np.ndarray[Any, Any]]:
    """Return the pixels that ``by`` counts (clear, cloud or valid), and the area to divide them by."""
    match by:
        case "clear":
            return kept, area
        case "cloud":
            return is_valid & ~kept, area * is_valid
        case _:
            return is_valid, area
