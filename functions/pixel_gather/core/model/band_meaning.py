"""What a file or a catalog says that a band's values mean: a colour, a unit, or classes with names. Pure.

A cube keeps it as attributes of a measurement: ``color_interpretation``, and CF's ``units``, ``flag_values``
and ``flag_meanings``. CF has no word for colours of classes. They are ``flag_colors``, as in ESA CCI land
cover.
"""

import re
from collections.abc import Iterable, Mapping
from copy import replace
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.model.band_names import is_of_classes, red_green_blue

UNITS: Final = "units"
SCALED_UNITS: Final = "scaled_units"
"""Attribute with the unit where rows have scales of their own. No reader may take stored numbers for it."""

MOST_CLASSES: Final = 256
"""More classes than these are not kept."""

_NO_COLOUR: Final = "-"
_COLOUR: Final = re.compile(r"#[0-9a-f]{6}")
_NO_WORD: Final = re.compile(r"[^\w.+@-]+")
"""What no word of ``flag_meanings`` may have."""

_LONGEST_UNIT: Final = 64
_SINCE: Final = re.compile(r"\bsince\b")
_DURATIONS: Final = {
    "days": "day",
    "hours": "hour",
    "minutes": "minute",
    "seconds": "second",
    "milliseconds": "ms",
    "microseconds": "us",
    "nanoseconds": "ns",
}
"""CF's other words for the units that xarray decodes as durations instead of numbers."""


class BandClass(Struct, frozen=True, kw_only=True):
    """One value of a band that stands for a thing."""

    value: int
    name: str | None = None
    """Its name as given; None if only its colour is known."""

    colour: str | None = None
    """``#rrggbb``, or None."""


class BandMeaning(Struct, frozen=True, kw_only=True):
    """What is said of one band."""

    colour: str | None = None
    """``red``, ``alpha``, ``palette`` or another of GDAL's colour interpretations but grey. None if nothing
    is said."""

    classes: tuple[BandClass, ...] = ()
    """Ascending by value. A palette's entries that are black are left out, as unused ones are."""

    unit: str = ""
    """Unit of the values after scale and offset, in the words of `kept_unit`. Empty if nothing is said."""

    @property
    def fallback(self) -> str | None:
        """Colour of values that are no class: black in a palette, else none."""
        return "#000000" if self.colour == "palette" else None

    def with_classes(self, classes: Iterable[BandClass]) -> "BandMeaning":
        """Return the same with what else is known of its classes. That goes before what is known here."""
        found = {each.value: each for each in self.classes}
        for each in classes:
            own = found.get(each.value, each)
            found[each.value] = BandClass(
                value=each.value, name=each.name or own.name, colour=each.colour or own.colour
            )
        ordered = tuple(found[value] for value in sorted(found))
        return replace(self, classes=ordered[:MOST_CLASSES])

    def with_claims(self, claimed: "BandMeaning") -> "BandMeaning":
        """Return the same with what a catalog claims: its classes, and its unit where the file says none."""
        return replace(self.with_classes(claimed.classes), unit=self.unit or claimed.unit)

    def attributes(self, dtype: str) -> dict[str, Any]:
        """Return a measurement's attributes. Classes that its dtype cannot hold are left out."""
        said: dict[str, Any] = {} if self.colour is None else {"color_interpretation": self.colour}
        said |= {UNITS: self.unit} if self.unit else {}
        kind = np.dtype(dtype)
        if kind.kind not in "iu":
            return said
        limits = np.iinfo(kind)
        classes = [each for each in self.classes if limits.min <= each.value <= limits.max]
        if not classes:
            return said
        said["flag_values"] = [each.value for each in classes]
        said["flag_meanings"] = " ".join(_word(each) for each in classes)
        if any(each.colour for each in classes):
            said["flag_colors"] = " ".join(each.colour or _NO_COLOUR for each in classes)
        return said

    @classmethod
    def of_attributes(cls, attributes: Mapping[str, Any]) -> "BandMeaning":
        """Return what a measurement's attributes say. Damaged ones say nothing."""
        colour, values = attributes.get("color_interpretation"), attributes.get("flag_values")
        values = values if isinstance(values, list | tuple) else ()
        names = str(attributes.get("flag_meanings", "")).split()
        colours = str(attributes.get("flag_colors", "")).split()
        classes = [
            BandClass(
                value=value,
                name=_name(names[index], value) if index < len(names) else None,
                colour=colours[index] if index < len(colours) and _COLOUR.fullmatch(colours[index]) else None,
            )
            for index, value in enumerate(values)
            if isinstance(value, int)
        ]
        unit = attributes.get(UNITS, attributes.get(SCALED_UNITS))
        return cls(
            colour=colour if isinstance(colour, str) else None,
            unit=kept_unit(unit) if isinstance(unit, str) else "",
        ).with_classes(classes)


NO_MEANING: Final = BandMeaning()


def has_classes(name: str, meaning: BandMeaning) -> bool:
    """Return whether a band's values are classes, by what is said of it or by its name."""
    return bool(meaning.classes) or is_of_classes(name)


def true_colour(meanings: Mapping[str, BandMeaning]) -> tuple[str, ...]:
    """Return the measurements that make a picture in true colour; none if nothing says which they are.

    Classes are never a colour.

    Args:
        meanings: What is said of each measurement, in their order.
    """
    amounts = [name for name, said in meanings.items() if not has_classes(name, said)]
    said = {name: meanings[name].colour for name in amounts}
    return red_green_blue(amounts, {name: colour for name, colour in said.items() if colour is not None})


def kept_unit(given: str) -> str:
    """Return a unit as a cube keeps it; empty if it is none.

    Moments, such as ``days since 2000-01-01``, are left out: readers of CF would replace the pixels by dates,
    or refuse the cube. ``days`` becomes ``day``, because xarray would make durations of the pixels.
    """
    unit = given.strip()
    if not unit.isprintable() or len(unit) > _LONGEST_UNIT or _SINCE.search(unit):
        return ""
    return _DURATIONS.get(unit, unit)


def _word(said: BandClass) -> str:
    """Return a name as one word of ``flag_meanings``."""
    return _NO_WORD.sub("_", said.name or "").strip("_") or f"class_{said.value}"


def _name(word: str, value: int) -> str | None:
    return None if word == f"class_{value}" else word.replace("_", " ")
