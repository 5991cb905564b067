"""Scenes that a provider has processed several times: which one counts. Pure.

Two scenes are duplicates where platform, collection, time (to the second) and place are the same. The place
is the grid cell where both name one, otherwise a footprint box that is almost the same. A scene
that was made from the headers of images is never a duplicate.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pixel_gather.catalog.area import Box, unwrapped
from pixel_gather.catalog.item import scene_key

_CELLS: Final = ("grid:code", "s2:mgrs_tile", "landsat:wrs_path_row")
_ACQUISITIONS: Final = ("s2:datatake_id", "landsat:scene_id")
_VERSIONS: Final = ("processing:version", "s2:processing_baseline", "landsat:collection_number")
FROM_HEADERS: Final = "pixel_gather:from_headers"
"""Property of a scene that is known by its images' headers alone. It is never a duplicate: two files of one
place and time may show different things."""

OF_DUPLICATES: Final = frozenset(
    {
        FROM_HEADERS,
        *_CELLS,
        *_ACQUISITIONS,
        *_VERSIONS,
        "platform",
        "updated",
        "created",
        "datetime",
        "start_datetime",
    }
)
"""Properties that are looked at."""

_SAME_SHARE: Final = 0.95
"""Share of two boxes' union that their intersection covers."""

_DIGITS: Final = 4000
"""Python reads no longer number."""

type Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Which scenes count."""

    items: tuple[Item, ...]
    """In the order in which they came."""

    dropped: tuple[tuple[Item, Item], ...]
    """Each dropped scene with the one that counts instead."""


def without_duplicates(items: Sequence[Item]) -> Kept:
    """Return the newest processing of each scene.

    The highest version counts, then the latest update, then the last id of the alphabet.
    """
    groups: dict[tuple[object, ...], list[list[Item]]] = {}
    for item in items:
        same_time = groups.setdefault(_acquisition(item), [])
        group = next((group for group in same_time if _is_same_place(group[0], item)), None)
        if group is None:
            same_time.append([item])
        else:
            group.append(item)
    best = {
        id(item): max(group, key=_rank) for groups_ in groups.values() for group in groups_ for item in group
    }
    return Kept(
        items=tuple(item for item in items if best[id(item)] is item),
        dropped=tuple((item, best[id(item)]) for item in items if best[id(item)] is not item),
    )


def _acquisition(item: Item) -> tuple[object, ...]:
    properties = item["properties"]
    if properties.get(FROM_HEADERS):
        return (scene_key(item, name="item").collection, item["id"])
    key = scene_key(item, name="item")
    named = _name(properties, _ACQUISITIONS)
    return key.collection, _name(properties, ("platform",)), named or key.start_us // 1_000_000, _cell(item)


def _cell(item: Item) -> object:
    return _name(item["properties"], _CELLS)


def _name(properties: Mapping[str, Any], names: Iterable[str]) -> str | int | float | None:
    """Return the first of some properties that is a text or a number; None if none is."""
    values = (properties.get(name) for name in names)
    return next((value for value in values if value and isinstance(value, str | int | float)), None)


def _is_same_place(one: Item, other: Item) -> bool:
    if _cell(one) is not None:
        return True  # the cell is part of the acquisition already
    return _shared(scene_key(one, name="item").box, scene_key(other, name="item").box) > _SAME_SHARE


def _shared(one: Box, other: Box) -> float:
    a, b = unwrapped(one), unwrapped(other)
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if a == b:
        return 1.0
    if width <= 0 or height <= 0:
        return 0.0
    return width * height / (_surface(a) + _surface(b) - width * height)


def _surface(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _rank(item: Item) -> tuple[tuple[tuple[int, object], ...], str, str]:
    properties = item["properties"]
    version = next((str(properties[name]) for name in _VERSIONS if properties.get(name) is not None), "")
    updated = str(properties.get("updated") or properties.get("created") or "")
    return _natural(version), updated, str(item["id"])


def _natural(version: str) -> tuple[tuple[int, object], ...]:
    """Return a version's parts so that 5.10 is later than 5.9."""
    parts: Iterable[str] = version.replace("-", ".").split(".")
    return tuple((1, int(part)) if part.isdecimal() and len(part) < _DIGITS else (0, part) for part in parts)
