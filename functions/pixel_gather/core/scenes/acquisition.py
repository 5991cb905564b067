"""What names the acquisition that a scene is of, so that its processings are known as one. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

FROM_HEADERS: Final = "pixel_gather:from_headers"
"""Property of a scene that is known by its images' headers alone. It is never a duplicate: two files of one
place and time may show different things."""

_CELLS: Final = ("grid:code", "s2:mgrs_tile", "landsat:wrs_path_row")
_ACQUISITIONS: Final = ("s2:datatake_id", "landsat:scene_id")
_KINDS: Final = (
    "product:type",
    "sar:product_type",
    "s2:product_type",
    "s5p:product_type",
    "processing:level",
    "forecast:reference_datetime",
    "forecast:horizon",
)
"""Scenes of one moment and place that differ in one of them show different things."""

OF_ACQUISITIONS: Final = frozenset({FROM_HEADERS, "platform", *_CELLS, *_ACQUISITIONS, *_KINDS})
"""Properties that are looked at."""

_BASELINE: Final = re.compile(r"_N\d\d\.\d\d$", re.ASCII)
"""At the end of Sentinel-2's datatakes: the version of the processing, and no part of the acquisition."""

type Acquisition = tuple[str | int | float | None, ...]


def acquisition_of(properties: Mapping[str, Any], collection: str) -> Acquisition | None:
    """Return what all processings of a scene share, besides its time and its place.

    None where neither a platform nor an acquisition is named. Variables and steps of a forecast may then
    share everything else, so such a scene is no processing of another one.
    """
    platform = _first(properties, ("platform",))
    named = pass_of(properties)
    if properties.get(FROM_HEADERS) or (platform is None and named is None):
        return None
    kinds = (_first(properties, (name,)) for name in _KINDS)
    return (collection, platform, named, cell_of(properties), *kinds)


def pass_of(properties: Mapping[str, Any]) -> str | int | float | None:
    """Return the pass of a satellite that a scene names; None if it names at most a platform."""
    named = _first(properties, _ACQUISITIONS)
    return _BASELINE.sub("", named) if isinstance(named, str) else named


def cell_of(properties: Mapping[str, Any]) -> str | int | float | None:
    """Return the cell of a grid that a scene names."""
    return _first(properties, _CELLS)


def _first(properties: Mapping[str, Any], names: Iterable[str]) -> str | int | float | None:
    """Return the first of some properties that is a text or a number; None if none is."""
    values = (properties.get(name) for name in names)
    return next((value for value in values if value and isinstance(value, str | int | float)), None)
