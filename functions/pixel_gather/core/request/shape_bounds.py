"""The box around a GeoJSON shape, for whoever gives a shape where a box is wanted. Pure."""

from collections.abc import Mapping
from typing import Any, Final

type Bounds = tuple[float, float, float, float]

_MOST_PARTS: Final = 1_000_000
_LARGEST: Final = 1e300
_PARTS: Final = ("features", "geometry", "geometries", "coordinates", "polygon", "geojson", "intersects")
"""Members of GeoJSON that hold positions, and names that people give to shapes."""


def shape_bounds(given: Any) -> Bounds | None:
    """Return (west, south, east, north) of a shape, in the shape's own units.

    Return None for anything that is no shape, and for a shape of more than a million parts.

    Args:
        given: A geometry, feature or collection of GeoJSON, an object that holds one, or an object with
            ``__geo_interface__``, such as those of shapely and geopandas. A list of numbers is no shape.
    """
    is_list = isinstance(given, list | tuple)
    is_flat = is_list and not any(isinstance(part, list | tuple) for part in given)
    found = [] if is_flat else _positions(given)
    if not found:
        return None
    xs, ys = zip(*found, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def _positions(given: Any) -> list[tuple[float, float]]:
    """Return (x, y) of each position; none if there are too many parts."""
    found: list[tuple[float, float]] = []
    left = [getattr(given, "__geo_interface__", given)]
    for _ in range(_MOST_PARTS):
        if not left:
            return found
        part = left.pop()
        if isinstance(part, Mapping):
            left += [part[name] for name in _PARTS if name in part]
        elif isinstance(part, list | tuple):
            match part:
                case [int() | float() as x, int() | float() as y, *_] if _is_place(x) and _is_place(y):
                    found.append((float(x), float(y)))
                case _:
                    left += part
    return []


def _is_place(value: float) -> bool:
    """Tell whether a number is finite. Integers of any size come from JSON."""
    return -_LARGEST < value < _LARGEST
