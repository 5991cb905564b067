"""Areas of the Earth in longitude and latitude, across the antimeridian too.

A box is (west, south, east, north) in degrees. A box with west > east crosses the antimeridian, as in GeoJSON
(RFC 7946, section 5.2). Unwrapped, its east is 360 degrees further. Pure.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.plurals import counted

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

type Box = tuple[float, float, float, float]

SHIFTS: Final = (-360.0, 0.0, 360.0)
"""An unwrapped box may lie one turn east or west of the one that it meets."""

_N_OF_A_BOX_WITH_HEIGHT: Final = 6
_MOST_POSITIONS: Final = 100_000
_NOISE_DEGREES: Final = 1e-6
"""A tenth of a metre."""

_MOST_BEYOND_A_POLE: Final = 1.5
"""Half a pixel of a coarse global grid, in degrees."""


def check_box(values: Sequence[object], *, field: str) -> Box:
    """Return a box that came from outside; a third dimension is dropped.

    What is beyond the poles or the antimeridian by the noise of computing is moved there.

    Args:
        values: [west, south, east, north], or with heights in the third and sixth place.
        field: Which errors name.

    Raises:
        RequestError: It is no box on the Earth.
    """
    west, south, east, north = _four_numbers(values, field)
    if not (-90 <= south <= north <= 90):  # noqa: PLR2004 # the poles
        if south == north:
            raise RequestError(
                f"the latitude is {south:g}; write latitudes from -90 to 90, after the longitude", field=field
            )
        raise RequestError(
            f"south is {south:g} and north is {north:g}; write latitudes from -90 to 90, south first",
            field=field,
        )
    if not (-180 <= west <= 180 and -180 <= east <= 180):  # noqa: PLR2004 # the antimeridian
        written = f"the longitude is {west:g}" if west == east else f"west is {west:g} and east is {east:g}"
        raise RequestError(f"{written}; write longitudes from -180 to 180", field=field)
    return (west, south, east, north)


def box_of_item(values: Sequence[object], *, field: str) -> Box:
    """Return the box of a STAC item, in the form of `check_box`.

    A box that goes beyond the map is wrapped in longitude, and cut at the poles. Real archives have such
    boxes: tiles across the antimeridian that begin at -182.8 degrees, grids whose longitudes go from 0 to
    360, and grids whose outer pixels lie half beyond the poles.

    Raises:
        RequestError: It is no box on the Earth.
    """
    west, south, east, north = _four_numbers(values, field)
    if -360 <= west <= east <= 360 and not -180 <= west <= east <= 180:  # noqa: PLR2004 # a turn, half a turn
        is_all_around = east - west >= 360  # noqa: PLR2004 # as above
        west, east = (
            (-180.0, 180.0) if is_all_around else ((west + 180) % 360 - 180, wrap_longitude(east % 360))
        )
    return check_box((west, _within_poles(south), east, _within_poles(north)), field=field)


def check_pair(
    values: Sequence[object], *, field: str, names: str = "longitude, latitude"
) -> tuple[float, float]:
    """Return two numbers that came from outside.

    Raises:
        RequestError: They are not two numbers.
    """
    if len(listed := _values_of_list(values)) != 2:  # noqa: PLR2004 # as the message says
        raise RequestError(f"write two numbers: {names}", field=field)
    first, second = (_number(value, field) for value in listed)
    return first, second


def _four_numbers(values: Sequence[object], field: str) -> list[float]:
    """Return the numbers of a box without its heights and without the noise of computing."""
    numbers = [_number(value, field) for value in _values_of_list(values)]
    if len(numbers) == _N_OF_A_BOX_WITH_HEIGHT:
        numbers = [*numbers[:2], *numbers[3:5]]
    if len(numbers) != 4:  # noqa: PLR2004 # as the message says
        raise RequestError("write four numbers: west, south, east, north", field=field)
    return [_clamp_degrees(each, most) for each, most in zip(numbers, (180, 90, 180, 90), strict=True)]


def _values_of_list(values: object) -> list[object]:
    """Return the values of a list; none of a text or a number, which a program may give by mistake."""
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str) else []


def box_of_corners(lat1: float, lng1: float, lat2: float, lng2: float) -> Box:
    """Return the box between two opposite corners, given in any order.

    It goes the short way: corners that are more than 180 degrees of longitude apart make a box across the
    antimeridian. From -180 to 180 it goes around the Earth. A box that is wider than half a turn is written
    as for `check_box`.

    Raises:
        RequestError: A corner is not on the Earth.
    """
    for name, value, most in (
        ("lat1", lat1, 90),
        ("lng1", lng1, 180),
        ("lat2", lat2, 90),
        ("lng2", lng2, 180),
    ):
        if not -most <= value <= most:  # also refuses NaN
            raise RequestError(f"it is {value:g}; write degrees from -{most} to {most}", field=name)
    west, south, east, north = min(lng1, lng2), min(lat1, lat2), max(lng1, lng2), max(lat1, lat2)
    if 180 < east - west < 360:  # noqa: PLR2004 # half a turn, and a whole one
        west, east = east, west
    return (west, south, east, north)


def unwrap_box(box: Box) -> Box:
    """Return the same box with west <= east; east may be up to 540 degrees."""
    west, south, east, north = box
    return (west, south, east + 360 if west > east else east, north)


def wrap_longitude(longitude: float) -> float:
    """Return a longitude of an unwrapped box or shape as it is on the map."""
    return longitude - 360 if longitude > 180 else longitude  # noqa: PLR2004 # the antimeridian


def sides_of(box: Box, *, first: float = -180.0) -> tuple[Box, ...]:
    """Return a box as parts between the longitude ``first`` and 360 degrees east of it.

    There is one part, or two if the box crosses ``first``.
    """
    west, south, east, north = unwrap_box(box)
    turns = 0 if first <= west and east <= first + 360 else (west - first) // 360
    west, east, last = west - 360 * turns, east - 360 * turns, first + 360
    if east <= last:
        return ((west, south, east, north),)
    return tuple(
        each for each in ((west, south, last, north), (first, south, east - 360, north)) if each[0] < each[2]
    )


def sides_of_shape(
    shape: "BaseGeometry", *, first: float = -180.0, turn: float = 360.0
) -> tuple["BaseGeometry", ...]:
    """Return an unwrapped shape as parts between the x ``first`` and ``turn`` east of it, as `sides_of`.

    ``turn`` is the way around the Earth, in the unit of x. Parts without an area are left out.
    """
    import shapely  # noqa: PLC0415 # a search by box needs none of it
    from shapely.affinity import translate  # noqa: PLC0415 # as above

    west, south, east, north = shape.bounds
    if first <= west and east <= first + turn:
        return (shape,)
    start, stop = int((west - first) // turn), int(-((first - east) // turn))
    starts = [first + number * turn for number in range(start, stop)]
    parts = [translate(shape.intersection(shapely.box(x, south, x + turn, north)), first - x) for x in starts]
    return tuple(each for each in parts if each.area > 0)


def _cut_if_crossing(geometry: "BaseGeometry") -> tuple["BaseGeometry", ...]:
    """Return a shape, or its sides if it is an area across the antimeridian.

    On the map, such an area may cross itself, or lie over other parts.
    """
    unwrapped = unwrapped_shape(geometry)
    return sides_of_shape(unwrapped) if unwrapped is not geometry and unwrapped.area else (geometry,)


def boxes_meet(one: Box, other: Box) -> bool:
    """Tell whether two boxes share a point; both may cross the antimeridian."""
    a, b = unwrap_box(one), unwrap_box(other)
    if a[1] > b[3] or a[3] < b[1]:
        return False
    return any(a[0] <= b[2] + shift and a[2] >= b[0] + shift for shift in SHIFTS)


def is_within(inner: Box, outer: Box) -> bool:
    """Tell whether a box lies in another one; both may cross the antimeridian."""
    a, b = unwrap_box(inner), unwrap_box(outer)
    return b[1] <= a[1] <= a[3] <= b[3] and any(
        b[0] + shift <= a[0] and a[2] <= b[2] + shift for shift in SHIFTS
    )


class Area(Struct, frozen=True, dict=True):
    """Where scenes are looked for: a box, or the shape of a GeoJSON geometry.

    Raises:
        RequestError: The geometry is no GeoJSON geometry on the Earth.
    """

    box: Box
    """Box around the whole area; west > east if it crosses the antimeridian."""

    geometry: "BaseGeometry | None" = None
    """The shape, unwrapped as ``box`` is; None where the box is all of it."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user who has drawn the shape."""
        return () if self.geometry is None else notes_of_wide([self.geometry])

    @classmethod
    def of_point(cls, longitude: float, latitude: float, *, field: str = "point") -> "Area":
        """Return the area of one point."""
        return cls(check_box((longitude, latitude, longitude, latitude), field=field))

    @classmethod
    def of_geojson(cls, given: Mapping[str, Any], *, field: str) -> "Area":
        """Return the area of a GeoJSON geometry, feature or feature collection."""
        from shapely.geometry import shape  # noqa: PLC0415 # a search by box needs none of it
        from shapely.ops import unary_union  # noqa: PLC0415 # as above

        try:
            parts = _geometries(given, field)
        except RecursionError as error:
            raise RequestError("its parts are nested too deeply", field=field) from error
        geometries = [_checked_geometry(each, field) for each in parts]
        try:
            found = unary_union([side for each in geometries for side in _cut_if_crossing(shape(each))])
        except Exception as error:
            said = shape_error(error)
            raise RequestError(f"this geometry cannot be used: {said}", field=field) from error
        if found.is_empty:
            raise RequestError("the geometry is empty; draw a point, a line or a polygon", field=field)
        found = unwrapped_shape(found)
        west, south, east, north = found.bounds
        return cls((west, south, wrap_longitude(east), north), found)

    @cached_property
    def shape(self) -> "BaseGeometry":
        """The area as an unwrapped shape."""
        if self.geometry is not None:
            return self.geometry
        import shapely  # noqa: PLC0415 # as above

        west, south, east, north = unwrap_box(self.box)
        if west == east and south == north:
            return shapely.Point(west, south)
        if west == east or south == north:
            return shapely.LineString([(west, south), (east, north)])
        return shapely.box(west, south, east, north)

    def meets(self, footprint: "BaseGeometry") -> bool:
        """Tell whether a footprint and the area share a point; both may cross the antimeridian."""
        from shapely.affinity import translate  # noqa: PLC0415 # as above

        other = unwrapped_shape(footprint)
        west, _, east, _ = unwrap_box(self.box)
        other_west, _, other_east, _ = other.bounds
        return any(
            self.shape.intersects(translate(other, shift) if shift else other)
            for shift in SHIFTS
            if west <= other_east + shift and east >= other_west + shift
        )


def notes_of_wide(shapes: Iterable["BaseGeometry"]) -> tuple[str, ...]:
    """Return a note if unwrapped shapes have polygons that go more than half around the Earth, but not all.

    The user may have meant the other way around. A polygon that goes all around, such as a polar cap, has no
    other way.
    """
    import numpy as np  # noqa: PLC0415 # as above
    import shapely  # noqa: PLC0415 # as above

    n = 0
    for each in shapes:
        parts = shapely.get_parts(each)
        bounds = shapely.bounds(parts[shapely.get_type_id(parts) == shapely.GeometryType.POLYGON])
        widths = bounds[:, 2] - bounds[:, 0]
        n += int(np.count_nonzero((widths > 180) & (widths < 360)))  # noqa: PLR2004 # half a turn, and a whole one
    said = (
        f"{counted(n, 'polygon')} more than 180 degrees wide, taken as drawn: if the other way around the "
        "Earth is meant, write two parts, one on each side of 180 degrees, as GeoJSON asks"
    )
    return (said,) if n else ()


def shape_error(error: Exception) -> str:
    """Return why shapely refuses a geometry. If a ring is wrong, the text says what to do."""
    if "linearring" in str(error).lower():
        return (
            "a ring of a polygon is not closed, or has fewer than three corners: write at least three, and "
            "the first one again at the end"
        )
    if isinstance(error, AttributeError):  # it has no type, or is no object
        return "it is no GeoJSON geometry"
    return str(error).partition("\n")[0][:200]


def unwrapped_shape(geometry: "BaseGeometry") -> "BaseGeometry":
    """Return a shape that crosses the antimeridian as one piece, its eastern part beyond 180 degrees.

    A shape crosses if it has parts on both edges of the map. RFC 7946 asks that shapes be cut there into
    parts. A part also crosses if the longitudes of two neighbouring positions differ by more than 180
    degrees. If its ring goes around the Earth, the part covers all from the ring to the nearer pole.
    """
    import numpy as np  # noqa: PLC0415 # as above
    import shapely  # noqa: PLC0415 # as above

    west, _, east, _ = geometry.bounds
    if east - west <= 180:  # noqa: PLR2004 # half a turn
        return geometry
    parts = shapely.get_parts(shapely.get_parts(geometry))
    crosses, bounds = _cross(parts), shapely.bounds(parts)
    caps = [_cap(part) if is_crossing else None for part, is_crossing in zip(parts, crosses, strict=True)]
    if any(caps):
        return shapely.union_all(
            [
                side
                for part, cap in zip(parts, caps, strict=True)
                for side in ((cap,) if cap else sides_of_shape(unwrapped_shape(part)))
            ]
        )
    is_narrow = crosses | (bounds[:, 2] - bounds[:, 0] < 180)  # noqa: PLR2004 # as above
    is_cut = (bounds[:, 0] == -180).any() and (bounds[:, 2] == 180).any()  # noqa: PLR2004 # the antimeridian
    if not crosses.any() and not (is_cut and len(parts) > 1 and is_narrow.all()):
        return geometry
    # Parts around 0 degrees stay where they are.
    at, of_part = shapely.get_coordinates(parts, return_index=True)
    shifts = np.zeros_like(at)
    shifts[:, 0] = 360 * ((crosses | (bounds[:, 2] <= 0))[of_part] & (at[:, 0] < 0))
    moved = shapely.transform(geometry, lambda positions: positions + shifts)
    return moved if moved.is_valid else shapely.make_valid(moved)


def _cap(part: "BaseGeometry") -> "BaseGeometry | None":
    """Return what a polygon around a pole covers on the map; None for any other part."""
    import numpy as np  # noqa: PLC0415 # as above
    import shapely  # noqa: PLC0415 # as above

    if not isinstance(part, shapely.Polygon):
        return None
    x, y = shapely.get_coordinates(part.exterior).T
    x = np.unwrap(x, period=360)
    turn = 360 * np.rint((x[-1] - x[0]) / 360)
    if not abs(turn) > 0:  # nor NaN
        return None
    x[-1] = x[0] + turn
    pole = math.copysign(90, y.mean())
    # in steps of less than half a turn
    at_pole = [(float(each), pole) for each in np.linspace(x[-1], x[0], 4)]
    cap = shapely.Polygon([*zip(x, y, strict=True), *at_pole])
    cap = cap if cap.is_valid else cap.buffer(0)
    holes = map(shapely.Polygon, part.interiors)
    cut = [side for hole in holes for side in sides_of_shape(unwrapped_shape(hole))]
    return shapely.union_all(sides_of_shape(cap)).difference(shapely.union_all(cut))


def _cross(parts: Any) -> Any:
    """Return of each part whether it crosses the antimeridian by itself: an array of bool."""
    import numpy as np  # noqa: PLC0415 # as above
    import shapely  # noqa: PLC0415 # as above

    shells = shapely.get_exterior_ring(parts)
    at, of_part = shapely.get_coordinates(
        np.where(shapely.is_missing(shells), parts, shells), return_index=True
    )
    steps = np.abs(np.diff(at[:, 0]))
    is_long = (steps > 180) & (steps < 360) & (of_part[1:] == of_part[:-1])  # noqa: PLR2004 # half a turn, and a whole one
    found = np.zeros(len(parts), bool)
    found[of_part[1:][is_long]] = True
    return found


def _geometries(given: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    kind = given.get("type") if isinstance(given, Mapping) else None
    if kind == "FeatureCollection":
        features = given.get("features")
        if not isinstance(features, list) or not features:
            raise RequestError("the feature collection has no feature", field=field)
        return [each for feature in features for each in _geometries(feature, field)]
    if kind == "Feature":
        return _geometries(given.get("geometry") or {}, field)
    if kind == "GeometryCollection":
        parts = given.get("geometries")
        if not isinstance(parts, list):
            raise RequestError("the geometry collection has no list of geometries", field=field)
        return [each for part in parts for each in _geometries(part, field)]
    if not isinstance(kind, str) or "coordinates" not in given:
        raise RequestError("write a GeoJSON geometry, feature or feature collection", field=field)
    return [given]


def _checked_geometry(geometry: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """Refuse positions that are not on the Earth, and more of them than a search should look at."""
    n = 0
    waiting: list[Any] = [geometry["coordinates"]]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, list | tuple):
            raise RequestError("its coordinates are not arrays of numbers", field=field)
        if part and isinstance(part[0], list | tuple):
            waiting.extend(part)
            continue
        n += 1
        if n > _MOST_POSITIONS:
            raise RequestError(f"it has more than {_MOST_POSITIONS:,} positions; simplify it", field=field)
        _check_position(part, field)
    return geometry


def _check_position(position: Sequence[object], field: str) -> None:
    if not position:
        return
    if len(position) < 2:  # noqa: PLR2004 # longitude and latitude
        raise RequestError("a position needs a longitude and a latitude", field=field)
    longitude, latitude = (_number(value, field) for value in position[:2])
    if not (-180 <= longitude <= 180 and -90 <= latitude <= 90):  # noqa: PLR2004 # the Earth
        raise RequestError(
            f"a position is {longitude:g}, {latitude:g}; write longitude and latitude in degrees", field=field
        )


def finite(value: object) -> float | None:
    """Return a number as a float; None for anything else, and for one that is too large or not finite."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _clamp_degrees(degrees: float, most: float) -> float:
    limit = math.copysign(most, degrees)
    return limit if abs(degrees) > most and abs(degrees - limit) <= _NOISE_DEGREES else degrees


def _within_poles(latitude: float) -> float:
    limit = math.copysign(90, latitude)
    return limit if 0 <= abs(latitude) - 90 <= _MOST_BEYOND_A_POLE else latitude


def _number(value: object, field: str) -> float:
    found = finite(value)
    if found is None:
        raise RequestError(f"{repr(value)[:60]} is no number", field=field)
    return found
