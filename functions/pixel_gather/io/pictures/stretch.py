"""Finds the values that are shown as black and white, for many pictures or for one. Pure.

``view.html`` has the same rule in scripts/viewer/src/stretch.js, but takes smaller samples: at most 262,144
pixels instead of 2,000,000, of up to nine rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pixel_gather.core.results.evidence import Image, Mask

_MOST_SAMPLES: Final = 2_000_000
_PERCENTILES: Final = (2, 98)
_CLEAR_ROWS: Final = 0.25
"""Share of the rows that is expected to have no cloud, or few."""

_MIDDLE_GREY: Final = 128
_WHITE: Final = 255
_LARGE: Final = 1_000
_TOO_LONG: Final = 1e9
"""Numbers from ``_LARGE`` to here are shown without decimals and without an exponent."""

type Greys = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """The values of black and white."""

    low: float
    high: float
    words: str
    """How they were chosen."""

    @classmethod
    def of(cls, pixels: Image, is_valid: Mask) -> "Stretch":
        """Return the stretch from percentile 2 to 98 of the valid pixels."""
        values = _as_reals(pixels[is_valid])
        if not len(values):
            return cls(low=0.0, high=0.0, words="no pixel is valid")
        sample = values[:: -(-len(values) // _MOST_SAMPLES)]
        what = "absolute values, " if pixels.dtype.kind == "c" else ""
        low, high = (float(value) for value in np.percentile(sample, _PERCENTILES))
        if low < high:
            return cls(low=low, high=high, words=f"{what}percentiles 2 and 98 of the valid pixels")
        low, high = float(values.min()), float(values.max())
        if low < high:
            return cls(low=low, high=high, words=f"{what}all valid pixels, as most of them are equal")
        return cls(low=low, high=high, words=f"every valid pixel is {number_in_words(low)}")

    @classmethod
    def in_colour(cls, pixels: Image, is_valid: Mask) -> "Stretch":
        """Return one stretch of many windows, for red, green or blue. Clouds do not make the land dark.

        Each window has its own percentiles 2 and 98 of valid pixels. The stretch takes their lower quartile
        over the windows, weighted by numbers of valid pixels. Clouds are bright. If they cover more than 2 %
        of a window, they set its percentile 98. Most windows of a usual list have some clouds.

        Args:
            pixels: Shape (row, y, x).
            is_valid: Same shape.
        """
        rows = [_as_reals(each[mask]) for each, mask in zip(pixels, is_valid, strict=True) if mask.any()]
        if not rows:
            return cls.of(pixels, is_valid)
        ends = np.array([np.percentile(row, _PERCENTILES) for row in rows])
        low, high = (
            float(np.quantile(end, _CLEAR_ROWS, weights=[len(row) for row in rows], method="inverted_cdf"))
            for end in ends.T
        )
        if not low < high:
            return cls.of(pixels, is_valid)
        words = "lower quartile of the windows' percentiles 2 and 98, so that clouds do not darken the land"
        return cls(low=low, high=high, words=words)

    @property
    def is_constant(self) -> bool:
        """Whether black and white are the same value."""
        return self.low >= self.high

    def limits_in_words(self) -> tuple[str, str]:
        """Return the values of black and white as text."""
        return number_in_words(self.low), number_in_words(self.high)

    def in_words(self) -> str:
        """Return the range as text: ``12 to 345``."""
        low, high = self.limits_in_words()
        return low if self.is_constant else f"{low} to {high}"

    def applied(self, pixels: Image) -> Greys:
        """Return pixels as greys, 0 to 255. Invalid pixels become any grey."""
        if self.is_constant:
            return np.full(pixels.shape, _MIDDLE_GREY, dtype="uint8")
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = (_as_reals(pixels) - self.low) / (self.high - self.low)
        greys: Greys = (np.clip(np.nan_to_num(scaled), 0, 1) * _WHITE).round().astype("uint8")
        return greys


def common_stretches(pixels: Sequence[Image], is_valid: Sequence[Mask]) -> tuple[Stretch, ...]:
    """Return the stretch of each measurement by which all windows are shown, to compare them.

    For one measurement all valid pixels count, so that no season is cut off. Three measurements make a colour
    picture; see `Stretch.in_colour`.

    Args:
        pixels: Pixels of each measurement, shape (row, y, x).
        is_valid: Whether each of these pixels is valid; the same shapes.
    """
    rule = Stretch.of if len(pixels) == 1 else Stretch.in_colour
    return tuple(rule(*each) for each in zip(pixels, is_valid, strict=True))


def number_in_words(value: float) -> str:
    """Return a pixel's value as readable text."""
    is_whole = value == round(value) or abs(value) >= _LARGE
    return f"{value:,.0f}" if is_whole and abs(value) < _TOO_LONG else f"{value:.4g}"


def _as_reals(pixels: Image) -> np.ndarray[Any, np.dtype[np.float64]]:
    reals: np.ndarray[Any, np.dtype[np.float64]] = (
        np.abs(pixels) if pixels.dtype.kind == "c" else pixels
    ).astype("float64")
    return reals
