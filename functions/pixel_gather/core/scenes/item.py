"""Scenes as STAC items: what a search needs of them, checked. Pure.

A scene is kept as the STAC item that described it, without its links. A hostile item is refused with a
sentence.
"""

import hashlib
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeIs

from msgspec import Struct

from pixel_gather.core.area import (
    Box,
    box_of_item,
    check_box,
    finite,
    shape_error,
    unwrap_box,
    unwrapped_shape,
    wrap_longitude,
)
from pixel_gather.core.errors import RequestError
from pixel_gather.core.scene_conditions import CLOUD_COVER
from pixel_gather.core.scenes.acquisition import Acquisition, acquisition_of
from pixel_gather.core.time_range import LAST_US, parse_period

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

UNKNOWN_CLOUD: Final = 255
_LONGEST_ID: Final = 1024
_FIELDS: Final = (
    "type",
    "stac_version",
    "stac_extensions",
    "id",
    "collection",
    "geometry",
    "bbox",
    "properties",
    "assets",
)
_NO_COLLECTION: Final = ""


class SceneKey(Struct, frozen=True, kw_only=True):
    """What a search looks at before it looks at the item itself."""

    id: str
    collection: str
    """Empty where the item names none."""

    box: Box
    """West > east where the footprint crosses the antimeridian."""

    is_box: bool
    """Whether the footprint is all of its box, so that it need not be looked at."""

    start_us: int
    stop_us: int
    """When the scene was taken, in microseconds since 1970-01-01 UTC, both included; LAST_US: no end yet."""

    cloud_percent: int
    """Rounded down; UNKNOWN_CLOUD where the item does not say."""

    acquisition: Acquisition | None = None
    """What it shares with other processings of the same scene; None where it is of no other."""

    @property
    def hash(self) -> int:
        """64 bits that are the same for the same collection and id, in whichever catalog."""
        return scene_hash(self.collection, self.id)


def scene_hash(collection: str, id_: str) -> int:
    """Return 64 bits of a scene's collection and id."""
    return int.from_bytes(hashlib.blake2b(f"{collection}\n{id_}".encode(), digest_size=8).digest(), "little")


def hash_of(item: Mapping[str, Any]) -> int:
    """Return the hash of an item that has an id."""
    collection = item.get("collection")
    return scene_hash(collection if isinstance(collection, str) else _NO_COLLECTION, item["id"])


def scene_key(item: Mapping[str, Any], *, name: str) -> SceneKey:
    """Return what a search needs of an item.

    Args:
        item: A STAC item, of any version.
        name: What errors call it.

    Raises:
        RequestError: It is no item, has no place on the Earth or no time.
    """
    id_ = item.get("id")
    if not isinstance(id_, str) or not 0 < len(id_) <= _LONGEST_ID:
        raise RequestError(
            f"its id is {str(id_)[:80]!r}; an item needs a text of 1 to {_LONGEST_ID} characters", field=name
        )
    name = f"{name} {id_[:80]}"
    properties = item.get("properties")
    if not isinstance(properties, Mapping) or not isinstance(item.get("assets"), Mapping):
        raise RequestError("it has no properties or no assets, so it is no STAC item", field=name)
    box = _parse_box(item, name)
    start_us, stop_us = _parse_times(properties, name)
    collection = item.get("collection")
    collection = collection if isinstance(collection, str) else _NO_COLLECTION
    return SceneKey(
        id=id_,
        collection=collection,
        box=box,
        is_box=_is_box(item.get("geometry"), box),
        start_us=start_us,
        stop_us=stop_us,
        cloud_percent=_parse_cloud(properties.get(CLOUD_COVER)),
        acquisition=acquisition_of(properties, collection),
    )


def without_links(item: Mapping[str, Any], key: SceneKey) -> dict[str, Any]:
    """Return an item without its links and without what is no part of the STAC specification's item.

    It always has a box. An asset that is no object is left out.
    """
    found = {field: item[field] for field in _FIELDS if item.get(field) is not None}
    assets = {str(name): asset for name, asset in item["assets"].items() if isinstance(asset, Mapping)}
    box = given if isinstance(given := item.get("bbox"), list | tuple) else list(key.box)
    defaults = {"type": "Feature", "stac_version": "1.0.0"}
    return defaults | found | {"bbox": box, "assets": assets}


def footprint_shape(item: Mapping[str, Any], key: SceneKey) -> "BaseGeometry":
    """Return an item's footprint as a shape: its geometry, or its box where it has none.

    Raises:
        RequestError: Its geometry is no GeoJSON geometry.
    """
    if (geometry := item.get("geometry")) is None:
        from shapely import box  # noqa: PLC0415 # a quarter of a function's start, seldom needed

        return box(*unwrap_box(key.box))
    return _parse_geometry(geometry, f"item {key.id[:80]}")


def _parse_geometry(geometry: Any, name: str) -> "BaseGeometry":
    import numpy as np  # noqa: PLC0415 # as shapely
    from shapely import get_coordinates  # noqa: PLC0415 # a quarter of a function's start, seldom needed
    from shapely.geometry import shape  # noqa: PLC0415 # as above

    try:
        found: BaseGeometry = shape(geometry)
    except Exception as error:  # shapely raises whatever the coordinates lead to
        raise RequestError(f"its geometry cannot be used: {shape_error(error)}", field=name) from error
    if not np.isfinite(get_coordinates(found)).all():  # an outline's bounds leave NaN out
        raise RequestError("its geometry cannot be used: a position is not finite", field=name)
    return found


def asset_hrefs(item: Mapping[str, Any], names: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Return (name, href) of each of `wanted_assets`."""
    return [(name, asset["href"]) for name, asset in wanted_assets(item, names)]


def wanted_assets(
    item: Mapping[str, Any], names: tuple[str, ...] = ()
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return (name, asset) of an item's assets that have an href. The name is its key, or one of ``names``.

    Args:
        item: A STAC item.
        names: Asset keys or common names of bands; all assets with the role ``data``, or without any role, if
            none are given.
    """
    assets = item["assets"]
    if not names:
        return [(key, each) for key, each in assets.items() if _has_href(each) and _is_data(each)]
    found = ((name, find_asset(assets, name)) for name in names)
    return [(name, asset) for name, asset in found if asset is not None]


def find_asset(assets: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Return the asset with this key, or with a band of this common name; None if there is none.

    An asset without an href counts as none. If several have a band of the common name, it is the one with the
    fewest bands. So ``red`` is the asset of the red band, and not a picture in three colours.
    """
    asset = assets.get(name)
    if _has_href(asset):
        return asset
    named = [each for each in assets.values() if _has_href(each) and name in common_names(each)]
    return min(named, key=lambda each: len(common_names(each)), default=None)


def common_names(asset: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the common names of an asset's bands, in STAC 1.1 and with the ``eo`` extension before it."""
    bands = [*_mappings(asset.get("bands")), *_mappings(asset.get("eo:bands"))]
    names = [band.get("eo:common_name") or band.get("common_name") or band.get("name") for band in bands]
    return tuple(name for name in names if isinstance(name, str))


def _has_href(asset: object) -> TypeIs[Mapping[str, Any]]:
    return isinstance(asset, Mapping) and isinstance(asset.get("href"), str)


def _is_data(asset: Mapping[str, Any]) -> bool:
    roles = asset.get("roles")
    return not roles or (isinstance(roles, list | tuple) and "data" in roles)


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _parse_box(item: Mapping[str, Any], name: str) -> Box:
    given, geometry = item.get("bbox"), item.get("geometry")
    if isinstance(given, list | tuple):
        box = box_of_item(given, field=f"{name}: bbox")
        is_wide = box[2] - box[0] > 180  # noqa: PLR2004 # half a turn
        return _with_pole(box, geometry, name) if is_wide and not _is_box(geometry, box) else box
    if not isinstance(geometry, Mapping):
        raise RequestError("it has no bbox and no geometry", field=name)
    found = unwrapped_shape(_parse_geometry(geometry, name))
    if found.is_empty:
        raise RequestError("its geometry has no position", field=name)
    west, south, east, north = found.bounds
    return check_box((west, south, wrap_longitude(east), north), field=f"{name}: geometry")


def _with_pole(box: Box, geometry: Any, name: str) -> Box:
    """Return the box, but up to the pole if the footprint goes around it. Boxes of flat maps end before."""
    try:
        west, south, east, north = unwrapped_shape(_parse_geometry(geometry, name)).bounds
    except RequestError:  # a wrong footprint is refused later
        return box
    return (west, min(south, box[1]), east, max(north, box[3])) if (west, east) == (-180, 180) else box


def _is_box(geometry: object, box: Box) -> bool:
    """Tell whether a geometry is a ring around exactly its box, or is missing."""
    if geometry is None:
        return True
    if not isinstance(geometry, Mapping) or geometry.get("type") != "Polygon":
        return False
    rings = geometry.get("coordinates")
    if not isinstance(rings, list | tuple) or len(rings) != 1 or not isinstance(rings[0], list | tuple):
        return False
    if len(rings[0]) != 5:  # noqa: PLR2004 # a closed box
        return False
    west, south, east, north = box
    ring = [
        (finite(each[0]), finite(each[1]))
        for each in rings[0]
        if isinstance(each, list | tuple) and len(each) > 1
    ]
    corners = {(west, south), (east, south), (east, north), (west, north)}
    turns_once = all(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(ring))
    return set(ring) == corners and turns_once and west <= east


def _parse_times(properties: Mapping[str, Any], name: str) -> tuple[int, int]:
    moment = properties.get("datetime")
    start, stop = properties.get("start_datetime"), properties.get("end_datetime")
    if isinstance(start, str) and isinstance(stop, str):
        first = parse_period(start, field=f"{name}: start_datetime").start_us
        last = parse_period(stop, field=f"{name}: end_datetime").stop_us
        if first <= last:
            return first, last
    if isinstance(start, str) and stop is None and moment is None:
        return parse_period(start, field=f"{name}: start_datetime").start_us, LAST_US
    if not isinstance(moment, str):
        raise RequestError("it has neither datetime nor start_datetime and a later end_datetime", field=name)
    period = parse_period(moment, field=f"{name}: datetime")
    return period.start_us, period.stop_us


def _parse_cloud(value: object) -> int:
    percent = finite(value)
    return UNKNOWN_CLOUD if percent is None else int(min(max(percent, 0), 100))
