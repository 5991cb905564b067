"""Finds measurements whose values are classes, such as land cover, and paints them. Pure.

Classes have neither a mean nor an order. So they have a legend instead of a scale.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pixel_gather.core.model.band_names import common_name, is_of_classes
from pixel_gather.core.results.evidence import Image, Mask

_MOST_UNNAMED: Final = 12
"""A measurement of whole numbers has classes if it has at most so many values."""

_MOST_NAMED: Final = 64
_FEWEST_PIXELS: Final = 50
"""For each value, so that a small window of a photograph is no map of classes."""

_COLOURS: Final = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#d55e00",
    "#56b4e9",
    "#f0e442",
    "#7f4fc9",
    "#8c564b",
    "#17becf",
    "#b5cf6b",
    "#637939",
)
"""Of the most frequent classes. All others share one."""

_OTHERS: Final = "#9aa0a6"
_SCENE_CLASSES: Final[Mapping[int, tuple[str, str]]] = {
    0: ("no data", "#000000"),
    1: ("saturated or defective", "#ff0000"),
    2: ("dark area", "#2f2f2f"),
    3: ("cloud shadow", "#643200"),
    4: ("vegetation", "#00a000"),
    5: ("bare soil", "#ffe65a"),
    6: ("water", "#0000ff"),
    7: ("unclassified", "#808080"),
    8: ("cloud, medium probability", "#c0c0c0"),
    9: ("cloud, high probability", "#ffffff"),
    10: ("thin cirrus", "#64c8ff"),
    11: ("snow or ice", "#ff96ff"),
}
"""Names and colours of Sentinel-2's scene classification. ``view.html`` has the same."""

type Rgba = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PixelClass:
    """One class, or all classes that have no colour of their own."""

    value: int | None
    name: str
    """With its value: ``4 vegetation``."""

    colour: str
    share: float
    """Share of the valid pixels, 0 to 1."""


def classes_of(name: str, pixels: Image, is_valid: Mask) -> tuple[PixelClass, ...]:
    """Return the classes of a measurement, the most frequent first; none if its values are quantities.

    Args:
        name: Name of the measurement. It may say that its values are classes.
        pixels: Any pixels of it.
        is_valid: Which of them are valid; same shape.
    """
    if pixels.dtype.kind not in "iub":
        return ()
    values, counts = np.unique(pixels[is_valid], return_counts=True)
    is_named = is_of_classes(name)
    most = _MOST_NAMED if is_named else _MOST_UNNAMED
    has_pixels = is_named or counts.sum() >= _FEWEST_PIXELS * len(values)
    if len(values) > most or len(values) < (1 if is_named else 2) or not has_pixels:
        return ()
    known = _SCENE_CLASSES if common_name(name) == "scl" else {}
    order = np.argsort(-counts, kind="stable")
    found = [
        _class(int(values[index]), float(counts[index] / counts.sum()), known, colour)
        for index, colour in zip(order, _COLOURS, strict=False)
    ]
    if len(values) > len(found):
        share = 1 - sum(each.share for each in found)
        found.append(
            PixelClass(
                value=None, name=f"{len(values) - len(found)} others", colour=_OTHERS, share=max(share, 0.0)
            )
        )
    return tuple(found)


def _class(value: int, share: float, known: Mapping[int, tuple[str, str]], colour: str) -> PixelClass:
    said, its_colour = known.get(value, ("", colour))
    return PixelClass(value=value, name=f"{value} {said}".strip(), colour=its_colour, share=share)


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
