"""Finds the values that are shown as black and white, for many pictures or for one. Pure."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pixel_gather.report.evidence import Image, Mask

_MOST_SAMPLES: Final = 2_000_000
_PERCENTILES: Final = (2, 98)
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
            return cls(low=low, high=high, words=f"{what}percentiles 2 to 98 of all valid pixels")
        low, high = float(values.min()), float(values.max())
        if low < high:
            return cls(low=low, high=high, words=f"{what}all valid pixels, as most of them are equal")
        return cls(low=low, high=high, words=f"every valid pixel is {number_in_words(low)}")

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


def number_in_words(value: float) -> str:
    """Return a pixel's value as readable text."""
    is_whole = value == round(value) or abs(value) >= _LARGE
    return f"{value:,.0f}" if is_whole and abs(value) < _TOO_LONG else f"{value:.4g}"


def _as_reals(pixels: Image) -> np.ndarray[Any, np.dtype[np.float64]]:
    reals: np.ndarray[Any, np.dtype[np.float64]] = (
        np.abs(pixels) if pixels.dtype.kind == "c" else pixels
    ).astype("float64")
    return reals
