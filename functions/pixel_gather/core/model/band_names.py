"""What the names of bands mean: colours of a picture, lines of a chart, classes. Pure.

One table for the report, the viewer, rankings, pictures and charts. ``scripts/build_viewer.py`` puts it into
the viewer's page.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

BAND_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "red": ("red", "r", "b04", "sur_refl_b01"),
    "green": ("green", "g", "b03", "sur_refl_b04"),
    "blue": ("blue", "b", "b02", "sur_refl_b03"),
    "rededge": ("rededge", "rededge1", "b05"),
    "nir": ("nir", "b08", "nir08", "sur_refl_b02"),
    "swir16": ("swir16", "b11", "sur_refl_b06"),
    "swir22": ("swir22", "b12", "sur_refl_b07"),
    "scl": ("scl",),
}
"""Names of a band in lower case, the common name first.

B04 is Sentinel-2's, sur_refl_b01 MODIS's. Landsat's B4 and SR_B4 are red or nir by satellite, so they are no
names of either.
"""

CLASS_NAMES: Final = (
    "scl",
    "qa",
    "qa_pixel",
    "qa_radsat",
    "fmask",
    "cloud_mask",
    "mask",
    "udm",
    "landcover",
    "land_cover",
    "classification",
    "classes",
    "tree_cover_class",
)
"""Bands whose values are classes or flags, in lower case: neither averaged nor mixed as a colour."""

SCENE_CLASSES: Final[tuple[tuple[str, str], ...]] = (
    ("no data", "#000000"),
    ("saturated or defective", "#ff0000"),
    ("dark area", "#2f2f2f"),
    ("cloud shadow", "#643200"),
    ("vegetation", "#00a000"),
    ("bare soil", "#ffe65a"),
    ("water", "#0000ff"),
    ("unclassified", "#808080"),
    ("cloud, medium probability", "#c0c0c0"),
    ("cloud, high probability", "#ffffff"),
    ("thin cirrus", "#64c8ff"),
    ("snow or ice", "#ff96ff"),
)
"""Names and colours of the values of Sentinel-2's scene classification, from 0."""

CLASS_COLOURS: Final = (
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
"""Colours of classes that nothing tells one of."""

INDEXES: Final[Mapping[str, str]] = {
    "ndvi": "(nir - red) / (nir + red)",
    "ndwi": "(green - nir) / (green + nir)",
    "nbr": "(nir - swir22) / (nir + swir22)",
}
"""Indexes of bands by name. ndwi is McFeeters' (1996), nbr that of Key and Benson (2006)."""

SUFFIX: Final = r"[-_](jp2|cog|tif|\d+m)$"
"""What a list may add to a name: red-jp2, B04_10m. It says nothing of the band."""

COLOURS: Final = ("red", "green", "blue")


def common_name(name: str) -> str | None:
    """Return the common name of a band, such as ``red`` for B04; None if the table has none."""
    plain = _plain(name)
    return next((common for common, names in BAND_NAMES.items() if plain in names), None)


def is_of_classes(name: str) -> bool:
    """Return whether a band's name says that its values are classes or flags."""
    return _plain(name) in CLASS_NAMES


def named_band(common: str, bands: Collection[str]) -> str | None:
    """Return which of some bands has a common name; None if none has. Earlier names of the table win."""
    by_name = {_plain(each): each for each in reversed(list(bands))}
    return next((by_name[name] for name in BAND_NAMES.get(common, (common,)) if name in by_name), None)


def red_green_blue(
    measurements: Sequence[str], interpretations: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return the three measurements that make a picture in true colour; none if nothing says which they are.

    The order of the measurements says nothing. What the files say of their bands goes before names.

    Args:
        measurements: Names, in order.
        interpretations: What the files say of a measurement: ``red``, ``green``, ``blue`` or another word.
    """
    said = interpretations or {}
    by_colour = {said[each]: each for each in reversed(measurements) if each in said}
    told = [by_colour.get(colour) for colour in COLOURS]
    if not all(told):
        told = [named_band(colour, measurements) for colour in COLOURS]
    return tuple(name for name in told if name is not None) if all(told) else ()


def _plain(name: str) -> str:
    return re.sub(SUFFIX, "", name.lower())
