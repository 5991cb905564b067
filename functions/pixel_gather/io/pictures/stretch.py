"""Finds the values that are shown as black and white, for many pictures or for one, and their colours. Pure.

``view.html`` has the same rule in scripts/viewer/src/stretch.js, but takes smaller samples: at most 262,144
pixels instead of 2,000,000, of up to nine rows.
"""

from collections.abc import Sequence
from copy import replace
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.results.report_content import Image, Mask

_MOST_SAMPLES: Final = 2_000_000
_PERCENTILES: Final = (2, 98)
_MIDDLE: Final = 40
"""Percentile that is no cloud as long as clouds cover less than three fifths of all pixels."""

_FAR: Final = 4
"""Above the middle, the clear part reaches so many times as far as percentile 2 lies below it.

Percentile 98 of a normal distribution lies 1.3 times as far. Clouds over dark land lie tens of times as far.
"""

_ROUNDS: Final = 3

_MIDDLE_GREY: Final = 128
_WHITE: Final = 255
_FEWEST_DIGITS: Final = 4
_LARGE: Final = 1_000
_TOO_LONG: Final = 1e9
"""Numbers from ``_LARGE`` to here are shown without decimals and without an exponent."""

_VIRIDIS: Final = np.array([(68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37)])
"""Colours at even steps, as of the colour bars of pages."""

type Reals = np.ndarray[Any, np.dtype[np.float64]]
type Greys = np.ndarray[Any, np.dtype[np.uint8]]


class Stretch(Struct, frozen=True, kw_only=True):
    """The values of black and white."""

    low: float
    high: float
    words: str
    """How they were chosen."""

    is_empty: bool = False
    """Whether no pixel is valid. Then there are no such values."""

    @classmethod
    def of(cls, pixels: Image, is_valid: Mask, *, in_colour: bool = False) -> "Stretch":
        """Return the stretch from percentile 2 to 98 of the clear part of the valid pixels.

        Clouds and glint are bright, and would make the land dark. They are cut off in pictures of three
        colours and of whole numbers, which images from satellites are. Fractions are mostly quantities that
        have no clouds, such as rain. All of their pixels count.

        Args:
            pixels: Of one window, or of several.
            is_valid: Whether each of these pixels is valid; same shape.
            in_colour: Whether they are shown as red, green or blue.
        """
        values = _as_reals(pixels[is_valid])
        if not len(values):
            return cls(low=0.0, high=0.0, words="no pixel is valid", is_empty=True)
        sample = np.sort(values[:: -(-len(values) // _MOST_SAMPLES)])
        what = "absolute values, " if pixels.dtype.kind == "c" else ""
        clear = _clear_part(sample) if in_colour or pixels.dtype.kind in "iu" else sample
        low, high = (float(value) for value in np.percentile(clear, _PERCENTILES))
        if low < high:
            part = "valid pixels" if len(clear) == len(sample) else "clear part of the valid pixels"
            return cls(low=low, high=high, words=f"{what}percentiles 2 and 98 of the {part}")
        low, high = float(values.min()), float(values.max())
        if low < high:
            return cls(low=low, high=high, words=f"{what}all valid pixels, as most of them are equal")
        return cls(low=low, high=high, words=f"every valid pixel is {number_in_words(low)}")

    @property
    def is_constant(self) -> bool:
        """Whether black and white are the same value."""
        return self.low >= self.high

    def scaled(self, scale: float, offset: float) -> "Stretch":
        """Return the same stretch of values that a file says are ``value * scale + offset``."""
        return replace(self, low=self.low * scale + offset, high=self.high * scale + offset)

    def limits_in_words(self) -> tuple[str, str]:
        """Return the values of black and white as text."""
        return range_in_words(self.low, self.high)

    def in_words(self) -> str:
        """Return the range as text: ``12 to 345``; that no pixel is valid if none is."""
        if self.is_empty:
            return self.words
        low, high = self.limits_in_words()
        return low if self.is_constant else f"{low} to {high}"

    def to_greys(self, pixels: Image) -> Greys:
        """Return pixels as greys, 0 to 255. Invalid pixels become any grey."""
        if self.is_constant:
            return np.full(pixels.shape, _MIDDLE_GREY, dtype="uint8")
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = (_as_reals(pixels) - self.low) / (self.high - self.low)
        greys: Greys = (np.clip(np.nan_to_num(scaled), 0, 1) * _WHITE).round().astype("uint8")
        return greys


def common_stretches(pixels: Sequence[Image], is_valid: Sequence[Mask]) -> tuple[Stretch, ...]:
    """Return the stretch of each measurement by which all windows are shown, to compare them.

    Args:
        pixels: Pixels of each measurement, shape (row, y, x): one for a picture in greys, three for colours.
        is_valid: Whether each of these pixels is valid; the same shapes.
    """
    return tuple(Stretch.of(*each, in_colour=len(pixels) > 1) for each in zip(pixels, is_valid, strict=True))


def _clear_part(sample: Reals) -> Reals:
    """Return sorted values without those that lie far above most others."""
    for _ in range(_ROUNDS):
        low, middle = np.percentile(sample, (_PERCENTILES[0], _MIDDLE))
        n_clear = int(np.searchsorted(sample, middle + _FAR * (middle - low), side="right"))
        if middle <= low or n_clear == len(sample):
            break
        sample = sample[:n_clear]
    return sample


def viridis(shares: np.ndarray[Any, Any] | float) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return red, green and blue of values from 0 to 1, shape (..., 3)."""
    at = np.linspace(0, 1, len(_VIRIDIS))
    channels = [np.interp(shares, at, _VIRIDIS[:, channel]) for channel in range(3)]
    return np.stack(channels, axis=-1).round().astype("uint8")


def number_in_words(value: float) -> str:
    """Return a pixel's value to read beside a picture: four digits, or a whole number with commas."""
    is_whole = value == round(value) or abs(value) >= _LARGE
    return f"{value:,.0f}" if is_whole and abs(value) < _TOO_LONG else f"{value:.4g}"


def range_in_words(low: float, high: float) -> tuple[str, str]:
    """Return two values as readable text, with as many digits as tell them apart."""
    words, digits = (number_in_words(low), number_in_words(high)), _FEWEST_DIGITS
    while abs(high - low) > 0 and words[0] == words[1]:
        digits += 1
        words = f"{low:,.{digits}g}", f"{high:,.{digits}g}"
    return words


def error_in_words(error: float) -> str:
    """Return an error as readable text: two digits of it."""
    return f"{float(f'{error:.2g}'):,.10g}"


def _as_reals(pixels: Image) -> Reals:
    reals: Reals = (np.abs(pixels) if pixels.dtype.kind == "c" else pixels).astype("float64")
    return reals
