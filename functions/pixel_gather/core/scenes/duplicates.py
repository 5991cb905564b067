"""Scenes that a provider has processed several times: which one counts. Pure.

Two scenes are one if they name the same acquisition (`acquisition_of`), and are of the same time and place.
Times differ by less than a second. The place is the grid cell where both name one, otherwise a box that is
almost the same. One pass over a cell may come in two parts, which together cover it. So where the pass is
named, their boxes have to share half of their union, too.

Or a caller names properties: scenes are then one if they have all of them, with the same values.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from msgspec import Struct

from pixel_gather.core.area import Box, unwrap_box
from pixel_gather.core.errors import RequestError
from pixel_gather.core.scenes.acquisition import OF_ACQUISITIONS, cell_of, pass_of
from pixel_gather.core.scenes.item import SceneKey, scene_key
from pixel_gather.core.time_range import FIRST_US, parse_period

_VERSIONS: Final = ("processing:version", "s2:processing_baseline", "landsat:collection_number")

OF_DUPLICATES: Final = frozenset(
    {*OF_ACQUISITIONS, *_VERSIONS, "updated", "created", "datetime", "start_datetime"}
)
"""Properties that are looked at."""

SAME_TIME_US: Final = 1_000_000
"""Times of one scene differ by less."""

_SAME_SHARE: Final = 0.95
"""Share of two boxes' union that their intersection covers."""

_SAME_SHARE_OF_PASS: Final = 0.5
"""The same where pass and cell are named. Two parts of a pass share a quarter, as they are cut askew."""

_DIGITS: Final = 4000
"""Python reads no longer number."""

type Item = Mapping[str, Any]


class Kept(Struct, frozen=True, kw_only=True):
    """Which scenes count."""

    items: tuple[Item, ...]
    """In the order in which they came."""

    dropped: tuple[tuple[Item, Item], ...]
    """Each dropped scene with the one that counts instead."""


class _Scene(Struct, frozen=True):
    item: Item
    key: SceneKey


def without_duplicates(items: Sequence[Item], *, by: Sequence[str] = ()) -> Kept:
    """Return the newest processing of each scene.

    The highest version counts, then the latest update, then the last id of the alphabet.

    Args:
        items: STAC items.
        by: Properties by which scenes are one, instead of acquisition, time and place.
    """
    best = {id(each.item): max(group, key=_rank).item for group in _groups(items, by) for each in group}
    return Kept(
        items=tuple(item for item in items if best[id(item)] is item),
        dropped=tuple((item, best[id(item)]) for item in items if best[id(item)] is not item),
    )


def _groups(items: Sequence[Item], by: Sequence[str]) -> Iterator[list[_Scene]]:
    """Yield the processings of each scene."""
    groups: dict[object, list[list[_Scene]]] = {}
    for item in items:
        scene = _Scene(item, scene_key(item, name="item"))
        acquisition = _values(item["properties"], by) if by else scene.key.acquisition
        if by or acquisition is None:
            same = groups.setdefault(acquisition or (scene.key.collection, scene.key.id), [[]])
            same[0].append(scene)
            continue
        second = scene.key.start_us // SAME_TIME_US
        near = (groups.get((acquisition, each), ()) for each in (second - 1, second, second + 1))
        group = next((each for each in chain(*near) if _is_same(each[0], scene)), None)
        if group is None:
            groups.setdefault((acquisition, second), []).append([scene])
        else:
            group.append(scene)
    yield from chain(*groups.values())


def _values(properties: Mapping[str, Any], names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the values of properties, as JSON; None if one is missing."""
    if any(properties.get(name) is None for name in names):
        return None
    return tuple(json.dumps(properties[name], sort_keys=True) for name in names)


def _is_same(one: _Scene, other: _Scene) -> bool:
    """Tell whether two scenes of one acquisition are of the same time and place."""
    if abs(one.key.start_us - other.key.start_us) >= SAME_TIME_US:
        return False
    properties = one.item["properties"]
    if cell_of(properties) is None:
        return _shared_share(one.key.box, other.key.box) > _SAME_SHARE
    return pass_of(properties) is None or _shared_share(one.key.box, other.key.box) > _SAME_SHARE_OF_PASS


def _shared_share(one: Box, other: Box) -> float:
    a, b = unwrap_box(one), unwrap_box(other)
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if a == b:
        return 1.0
    if width <= 0 or height <= 0:
        return 0.0
    return width * height / (_surface(a) + _surface(b) - width * height)


def _surface(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _rank(scene: _Scene) -> tuple[tuple[tuple[int, object], ...], int, str, str]:
    properties = scene.item["properties"]
    version = next((str(properties[name]) for name in _VERSIONS if properties.get(name) is not None), "")
    updated = str(properties.get("updated") or properties.get("created") or "")
    return _natural(version), _moment(updated), updated, scene.key.id


def _moment(text: str) -> int:
    try:
        return parse_period(text).start_us
    except RequestError:
        return FIRST_US


def _natural(version: str) -> tuple[tuple[int, object], ...]:
    """Return a version's parts so that 5.10 is later than 5.9."""
    parts: Iterable[str] = version.replace("-", ".").split(".")
    return tuple((1, int(part)) if part.isdecimal() and len(part) < _DIGITS else (0, part) for part in parts)
