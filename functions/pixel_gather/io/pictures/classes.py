"""Finds measurements whose values are classes, such as land cover, and paints them. Pure.

Classes have neither a mean nor an order. So they have a legend instead of a scale.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.model.band_meaning import MOST_CLASSES, NO_MEANING, BandClass, BandMeaning, has_classes
from pixel_gather.core.model.band_names import CLASS_COLOURS, SCENE_CLASSES, common_name
from pixel_gather.core.results.report_content import Image, Mask

_MOST_UNNAMED: Final = 12
"""A measurement of whole numbers has classes if it has at most so many values."""

_MOST_NAMED: Final = 64
_FEWEST_PIXELS: Final = 50
"""For each value, so that a small window of a photograph is no map of classes."""

_MOST_IN_LEGEND: Final = 24
_OTHERS: Final = "#9aa0a6"
"""Colour of classes that have none of their own."""

type Rgba = np.ndarray[Any, np.dtype[np.uint8]]


class PixelClass(Struct, frozen=True, kw_only=True):
    """One class, or all classes that have no colour of their own."""

    value: int | None
    name: str
    """With its value: ``4 vegetation``."""

    colour: str
    share: float
    """Share of the valid pixels, 0 to 1."""


def count_classes(
    name: str, pixels: Image, is_valid: Mask, *, meaning: BandMeaning = NO_MEANING
) -> tuple[PixelClass, ...]:
    """Return the classes of a measurement, the most frequent first; none if its values are quantities.

    Args:
        name: Name of the measurement. It may say that its values are classes.
        pixels: Any pixels of it.
        is_valid: Which of them are valid; same shape.
        meaning: What its file or a catalog says of its values. That goes before its name.
    """
    if pixels.dtype.kind not in "iub":
        return ()
    is_named = has_classes(name, meaning)
    if meaning.unit and not is_named:
        return ()
    values, counts = np.unique(pixels[is_valid], return_counts=True)
    most = MOST_CLASSES if meaning.classes else _MOST_NAMED if is_named else _MOST_UNNAMED
    has_pixels = is_named or counts.sum() >= _FEWEST_PIXELS * len(values)
    if len(values) > most or len(values) < (1 if is_named else 2) or not has_pixels:
        return ()
    known = _known(name, meaning)
    order = np.argsort(-counts, kind="stable")
    n_own = len(values) if meaning.classes else len(CLASS_COLOURS)
    shown = sorted(int(values[index]) for index in order[:n_own])
    colours = {value: CLASS_COLOURS[n % len(CLASS_COLOURS)] for n, value in enumerate(shown)}
    found = []
    for index in order[:n_own]:
        value = int(values[index])
        said = known.get(value, BandClass(value=value))
        found.append(
            PixelClass(
                value=value,
                name=f"{value} {said.name or ''}".strip(),
                colour=said.colour or meaning.fallback or colours[value],
                share=float(counts[index] / counts.sum()),
            )
        )
    return _with_others(found, len(values) - len(found))


def _known(name: str, meaning: BandMeaning) -> Mapping[int, BandClass]:
    if meaning.classes or common_name(name) != "scl":
        return {each.value: each for each in meaning.classes}
    return {
        value: BandClass(value=value, name=said, colour=colour)
        for value, (said, colour) in enumerate(SCENE_CLASSES)
    }


def legend_of(classes: tuple[PixelClass, ...]) -> tuple[PixelClass, ...]:
    """Return the classes that a legend names: the most frequent ones, and all others as one."""
    return _with_others(list(classes[:_MOST_IN_LEGEND]), len(classes[_MOST_IN_LEGEND:]))


def _with_others(found: list[PixelClass], n_others: int) -> tuple[PixelClass, ...]:
    if not n_others:
        return tuple(found)
    share = max(1 - sum(each.share for each in found), 0.0)
    return (*found, PixelClass(value=None, name=f"{n_others} others", colour=_OTHERS, share=share))


def painted_classes(pixels: Image, is_valid: Mask, classes: tuple[PixelClass, ...]) -> Rgba:
    """Return (..., y, x, 4): each pixel in the colour of its class."""
    painted = np.empty((*pixels.shape, 4), dtype="uint8")
    painted[...] = (*_rgb(_OTHERS), 255)
    for each in classes:
        if each.value is not None:
            painted[pixels == each.value] = (*_rgb(each.colour), 255)
    painted[~is_valid] = 0
    return painted


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour.removeprefix("#")))
