"""The arrays that say where joined pixels lie, made from a member's metadata without reading its arrays."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pixel_gather.core.model.window import Transform
from pixel_gather.core.results.member import Member
from pixel_gather.core.results.row_coordinates import Values
from pixel_gather.io.cube.map_coordinates import SPATIAL_REF, pixel_centres


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
