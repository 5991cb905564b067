"""What the metadata of a joined array say, and where its pixels lie by those of its members. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from pixel_gather.core.model.window import Transform
from pixel_gather.core.results.join_member import Member
from pixel_gather.core.results.row_coordinates import Values, gap_attributes, missing_in
from pixel_gather.features.join.join_rows import holds_large
from pixel_gather.io.cube.map_coordinates import SPATIAL_REF, pixel_centres

RECORD: Final = "pixel_gather_join"
"""Attribute of a joined group that tells as JSON text how it was joined."""

_WINDOW: Final = "pixel_gather_window"

_OF_GAPS: Final = ("_FillValue", "comment")
"""Attributes that say which values are missing."""

_OWN_ATTRIBUTES: Final[dict[str, dict[str, Any]]] = {
    "presence": {
        "long_name": "whether the row exists; other rows only fill up the last shard of a cube",
        "flag_values": [0, 1],
        "flag_meanings": "padding row",
    },
    "member": {"long_name": "number of the row's cube in the group members, from 0"},
}


def array_metadata(members: Sequence[Member], name: str, *, n_rows: int, beside: Sequence[str]) -> bytes:
    """Return Zarr's metadata of a joined measurement.

    The members are of one kind. ``beside`` names all coordinates that are not axes.
    """
    first = members[0].arrays[name]
    notes = (each.arrays[name]["attributes"].get("comment") for each in members)
    note = next(filter(None, notes), None)
    attributes = first["attributes"] | {"coordinates": " ".join(beside)} | ({"comment": note} if note else {})
    if SPATIAL_REF not in beside:
        attributes.pop("grid_mapping", None)
    shape = [n_rows, *first["shape"][1:]]
    return json.dumps(dict(first) | {"shape": shape, "attributes": attributes}).encode()


def coordinate_attributes(members: Sequence[Member], name: str, values: Values) -> dict[str, Any]:
    """Return the attributes of a joined coordinate: those that it has in the members.

    Those that say what stands for a missing value follow from the values.
    """
    found = (each.arrays[name] for each in members if name in each.arrays)
    told = dict(next(found, {}).get("attributes", {})) or dict(_OWN_ATTRIBUTES.get(name, {}))
    return told if name == "time" else with_gaps(told, name, values)


def with_gaps(attributes: Mapping[str, Any], name: str, values: Values) -> dict[str, Any]:
    """Return attributes that tell of a coordinate's missing integers or booleans, if it has some."""
    others = {key: attributes[key] for key in attributes if key not in _OF_GAPS}
    if values.dtype.name not in ("int64", "uint8") or not missing_in(name, values).any():
        return others
    return others | gap_attributes(values.dtype.name, is_large=holds_large(values))


def group_attributes(member: Member, record: Mapping[str, Any], *, any_grid: bool) -> dict[str, Any]:
    """Return the attributes of a joined group: where the pixels lie, and how it was joined."""
    place = {} if any_grid else _ring_on_earth(member.attributes)
    told = {"Conventions": "CF-1.11", RECORD: json.dumps(record)} | place
    return told | on_map_attributes(member, any_grid=any_grid)


def _ring_on_earth(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the window's edge in longitude and latitude, for the viewer; nothing if it is not known."""
    try:
        return {_WINDOW: json.loads(attributes["pixel_gather"])["footprints"]["window"]}
    except (KeyError, TypeError, ValueError):
        return {}


def on_map_attributes(member: Member, *, any_grid: bool) -> dict[str, Any]:
    """Return the attributes that say where the pixels of a member lie. None if members lie on any grid."""
    return {
        name: value
        for name, value in member.attributes.items()
        if name.startswith(("spatial:", "proj:")) and not any_grid
    }


def centre_of(attributes: Mapping[str, Any]) -> tuple[str, float, float]:
    """Return CRS, x and y of the middle of a cube's window; NaN and an empty text if it is not known."""
    box = attributes.get("spatial:bbox")
    crs = attributes.get("proj:code") or attributes.get("proj:wkt2") or ""
    if box is None:
        return str(crs), float("nan"), float("nan")
    west, south, east, north = box
    return str(crs), (west + east) / 2, (south + north) / 2


def map_arrays(member: Member) -> Iterator[tuple[str, Values, tuple[str, ...], dict[str, Any]]]:
    """Yield name, values, axes and attributes of x, y and ``spatial_ref``, if the members have them."""
    arrays = member.arrays
    if "x" in arrays and "y" in arrays:
        transform = Transform(*member.attributes["spatial:transform"])
        _, height, width = member.shape
        for axis, values in pixel_centres(transform, height=height, width=width).items():
            yield axis, values, (axis,), dict(arrays[axis]["attributes"])
    if SPATIAL_REF in arrays:
        yield SPATIAL_REF, np.array(0, dtype="int64"), (), dict(arrays[SPATIAL_REF]["attributes"])
