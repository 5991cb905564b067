"""Areas in longitude and latitude, across the antimeridian and at the poles."""

from dataclasses import dataclass

import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.core.area import (
    Area,
    Box,
    box_of_corners,
    boxes_meet,
    check_box,
    sides_of,
    sides_of_shape,
    unwrap_box,
    unwrapped_shape,
)
from pixel_gather.core.errors import RequestError
from support.geojson import collection, feature

_LATITUDES = st.floats(-90, 90, allow_nan=False)
_LONGITUDES = st.floats(-180, 180, allow_nan=False)


@dataclass(frozen=True)
class Wrong:
    """A box that is refused."""

    id: str
    values: tuple[object, ...]
    says: str


WRONG = (
    Wrong("three numbers", (1, 2, 3), "four numbers"),
    Wrong("north first", (0, 10, 1, 5), "south first"),
    Wrong("beyond the north pole", (0, 0, 1, 90.5), "latitudes from -90 to 90"),
    Wrong("beyond the south pole", (0, -90.5, 1, 1), "latitudes from -90 to 90"),
    Wrong("beyond the antimeridian", (0, 0, 180.5, 1), "west is 0 and east is 180.5; write longitudes"),
    Wrong("east of it in the west", (0, 0, -180.5, 1), "longitudes from -180 to 180"),
    Wrong("beyond it in the west", (-180.5, 0, 0, 1), "longitudes from -180 to 180"),
    Wrong("west of it in the east", (180.5, 0, 0, 1), "longitudes from -180 to 180"),
    Wrong("a point beyond it", (181, 0, 181, 0), "the longitude is 181; write longitudes"),
    Wrong("not a number", (float("nan"), 0, 1, 1), "is no number"),
    Wrong("text", ("0", 0, 1, 1), "is no number"),
    Wrong("truth", (True, 0, 1, 1), "is no number"),
)


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.id)
def test_check_box_says_what_is_wrong(case: Wrong) -> None:
    """A box that is none is refused with the field and what to write."""
    with pytest.raises(RequestError, match=case.says) as raised:
        check_box(case.values, field="bbox")

    assert raised.value.field == "bbox"


def test_the_whole_earth_is_a_box() -> None:
    """The poles and the antimeridian belong to it."""
    assert check_box((-180, -90, 180, 90), field="bbox") == (-180, -90, 180, 90)
    assert check_box((180, -90, -180, -90), field="bbox") == (180, -90, -180, -90)


def test_check_box_drops_heights() -> None:
    """A box with heights is the box without them."""
    assert check_box((1, 2, 0, 3, 4, 100), field="bbox") == (1, 2, 3, 4)


@given(_LATITUDES, _LONGITUDES, _LATITUDES, _LONGITUDES)
def test_corners_may_come_in_any_order(lat1: float, lng1: float, lat2: float, lng2: float) -> None:
    """The published interface takes two corners, whichever they are."""
    boxes = {
        box_of_corners(lat1, lng1, lat2, lng2),
        box_of_corners(lat2, lng2, lat1, lng1),
        box_of_corners(lat1, lng2, lat2, lng1),
        box_of_corners(lat2, lng1, lat1, lng2),
    }

    assert len(boxes) == 1
    assert check_box(boxes.pop(), field="bbox")


@pytest.mark.parametrize(
    ("corners", "field"),
    [
        ((90.5, 0, 0, 0), "lat1"),
        ((0, -180.5, 0, 0), "lng1"),
        ((0, 0, -90.5, 0), "lat2"),
        ((0, 0, 0, 180.5), "lng2"),
        ((float("nan"), 0, 0, 0), "lat1"),
    ],
)
def test_a_corner_that_is_not_on_the_earth_is_refused(
    corners: tuple[float, float, float, float], field: str
) -> None:
    """The error names the number. The poles and the antimeridian are on the Earth."""
    with pytest.raises(RequestError) as raised:
        box_of_corners(*corners)

    assert raised.value.field == field
    assert box_of_corners(90, 180, -90, -180) == (-180, -90, 180, 90)


@pytest.mark.parametrize(
    ("longitudes", "west", "east"),
    [((179, -179), 179, -179), ((-170, 170), 170, -170), ((-90, 90), -90, 90), ((-90, 91), 91, -90)],
)
def test_corners_make_the_narrower_box(longitudes: tuple[float, float], west: float, east: float) -> None:
    """Two corners at both sides of the antimeridian are neighbours."""
    assert box_of_corners(0, longitudes[0], 1, longitudes[1]) == (west, 0, east, 1)


def test_corners_that_are_equal_are_a_point() -> None:
    """The published address has both corners equal."""
    area = Area(box_of_corners(55.66, 12.58, 55.66, 12.58))

    assert area.shape == shapely.Point(12.58, 55.66)

    assert area.meets(shapely.box(12, 55, 13, 56))
    assert not area.meets(shapely.box(13, 55, 14, 56))


@dataclass(frozen=True)
class Meeting:
    """An area and a footprint."""

    id: str
    area: Box
    footprint: object
    meet: bool


FIJI = shapely.MultiPolygon([shapely.box(177, -19, 180, -16), shapely.box(-180, -19, -178, -16)])
MEETINGS = (
    Meeting("side by side", (0, 0, 1, 1), shapely.box(2, 0, 3, 1), meet=False),
    Meeting("edges touch", (0, 0, 1, 1), shapely.box(1, 0, 2, 1), meet=True),
    Meeting("line from south to north", (0.5, -1, 0.5, 2), shapely.box(0, 0, 1, 1), meet=True),
    Meeting("line beside it", (1.5, -1, 1.5, 2), shapely.box(0, 0, 1, 1), meet=False),
    Meeting("line from west to east", (-1, 0.5, 2, 0.5), shapely.box(0, 0, 1, 1), meet=True),
    Meeting("edges touch at the antimeridian", (170, 0, 180, 1), shapely.box(-180, 0, -170, 1), meet=True),
    Meeting("both cross", (179, -18, -179, -17), FIJI, meet=True),
    Meeting("footprint crosses, east of it", (-179, -18, -178.5, -17), FIJI, meet=True),
    Meeting("footprint crosses, west of it", (177.5, -18, 178, -17), FIJI, meet=True),
    Meeting("footprint crosses, far away", (0, -18, 10, -17), FIJI, meet=False),
    Meeting(
        "area crosses, footprint east of it",
        (170, -20, -170, -10),
        shapely.box(-175, -15, -174, -14),
        meet=True,
    ),
    Meeting(
        "area crosses, footprint west of it",
        (170, -20, -170, -10),
        shapely.box(174, -15, 175, -14),
        meet=True,
    ),
    Meeting("whole Earth", (-180, -90, 180, 90), shapely.box(5, 5, 6, 6), meet=True),
    Meeting("pole", (-180, 80, 180, 90), shapely.box(-180, 85, 180, 90), meet=True),
    Meeting(
        "corner of the box alone", (0, 0, 1, 1), shapely.Polygon([(0.9, 2), (2, 0.9), (2, 2)]), meet=False
    ),
)


@pytest.mark.parametrize("case", MEETINGS, ids=lambda case: case.id)
def test_area_meets_a_footprint(case: Meeting) -> None:
    """Footprints are looked at, not only their boxes, and the antimeridian is no edge."""
    assert Area(case.area).meets(case.footprint) is case.meet


def test_a_ring_that_steps_over_the_antimeridian_is_one_piece() -> None:
    """Some providers write the ring of a crossing footprint as if the Earth were flat."""
    stepped = shapely.Polygon([(179, 0), (-179, 0), (-179, 1), (179, 1)])
    wide = shapely.Polygon([(0, 0), (180, 0), (-170, 0), (-170, 10), (180, 10), (0, 10)])

    assert unwrapped_shape(stepped).bounds == (179, 0, 181, 1)
    assert unwrapped_shape(wide).bounds == (0, 0, 190, 10)  # steps of half a turn cross nothing


AROUND = [(-130, 80), (-50, 82), (40, 81), (150, 79), (-170, 80)]
"""Around the north pole. The last step, from -170 to -130, closes the ring."""


@pytest.mark.parametrize("sign", [1, -1], ids=["north", "south"])
@pytest.mark.parametrize("turn", [1, -1], ids=["east", "west"])
def test_a_ring_around_a_pole_holds_the_pole(sign: int, turn: int) -> None:
    """On the map, such a ring is a narrow strip that crosses itself."""
    ring = [(x, sign * y) for x, y in AROUND[::turn]]
    hole = [(x, sign * 88) for x in (-120, 0, 120)]

    cap = unwrapped_shape(shapely.Polygon(ring))
    both = unwrapped_shape(shapely.MultiPolygon([shapely.Polygon(ring, [hole]), shapely.box(5, 0, 6, 1)]))

    assert unwrapped_shape(cap) is cap
    assert (cap.bounds[0], cap.bounds[2]) == (-180, 180)
    for x in (-180, -90, 0, 77, 180):
        assert [Area.of_point(x, sign * y).meets(cap) for y in (78, 83, 90)] == [False, True, True]
        assert [Area.of_point(x, sign * y).meets(both) for y in (78, 83, 90)] == [False, True, False]
    assert Area.of_point(5.5, 0.5).meets(both)
    asked = Area.of_geojson(shapely.geometry.mapping(shapely.Polygon(ring)), field="geojson")
    assert asked.meets(shapely.box(20, 84, 21, 85) if sign > 0 else shapely.box(20, -85, 21, -84))
    assert asked.notes == ()


@pytest.mark.parametrize(
    ("box", "sides"),
    [
        ((1, 2, 3, 4), [(1, 2, 3, 4)]),
        ((1, 2, 1, 2), [(1, 2, 1, 2)]),
        ((179, 0, -179, 1), [(179, 0, 180, 1), (-180, 0, -179, 1)]),
        ((180, 0, -179, 1), [(-180, 0, -179, 1)]),
        ((179, 0, -180, 1), [(179, 0, 180, 1)]),
    ],
)
def test_sides_of_a_box_lie_on_the_map(box: Box, sides: list[Box]) -> None:
    """A box that crosses the antimeridian has two, unless one would be a line."""
    assert list(sides_of(box)) == sides


def test_sides_of_a_shape_lie_on_the_map() -> None:
    """What is beyond the antimeridian comes back at the map's other edge."""
    crossing = unwrapped_shape(FIJI)

    assert [each.bounds for each in sides_of_shape(crossing)] == [
        (177, -19, 180, -16),
        (-180, -19, -178, -16),
    ]
    assert sides_of_shape(shapely.box(170, 0, 180, 1)) == (shapely.box(170, 0, 180, 1),)
    assert [each.bounds for each in sides_of_shape(shapely.box(179, 0, 180.5, 1))] == [
        (179, 0, 180, 1),
        (-180, 0, -179.5, 1),
    ]
    assert [each.bounds for each in sides_of_shape(shapely.box(180, 0, 181, 1))] == [(-180, 0, -179, 1)]


@pytest.mark.parametrize(
    ("positions", "box"),
    [
        ([(179, 0), (-179, 0), (-179, 1), (179, 1)], (179, 0, -179, 1)),
        ([(179, 0), (180, 0), (180, 1), (179, 1)], (179, 0, 180, 1)),
    ],
)
def test_area_of_geojson_has_its_box(positions: list[tuple[float, float]], box: Box) -> None:
    """West is greater than east only if the shape crosses the antimeridian."""
    ring = {"type": "Polygon", "coordinates": [[*positions, positions[0]]]}
    collection = {"type": "GeometryCollection", "geometries": [ring]}

    assert Area.of_geojson(ring, field="geojson").box == box
    assert Area.of_geojson(collection, field="geojson").box == box


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ((0, 0, 1, 1), (1, 1, 2, 2), True),
        ((0, 0, 1, 1), (0, 1.1, 1, 2), False),
        ((0, 0, 1, 1), (1.1, 0, 2, 1), False),
        ((179, 0, -179, 1), (-179, 1, -178, 2), True),
        ((179, 0, -179, 1), (178, 0, 179, 1), True),
        ((179, 0, -179, 1), (-178.9, 0, -178, 1), False),
        ((-180, 0, -179, 1), (179, 0, 180, 1), True),
    ],
)
def test_boxes_meet_where_they_touch(one: Box, other: Box, *, meet: bool) -> None:
    """Edges and corners belong to a box, and the antimeridian is no edge."""
    assert boxes_meet(one, other) is meet
    assert boxes_meet(other, one) is meet


WEST, EAST = shapely.box(-180, 0, -170, 1), shapely.box(170, 0, 180, 1)
ROUND = shapely.Polygon([(x, 0) for x in range(-170, 171, 10)] + [(x, 1) for x in range(170, -171, -10)])
"""From -170 to 170 degrees in small steps. Whoever drew it may have meant 20 degrees."""


@pytest.mark.parametrize(
    ("drawn", "is_told"),
    [
        (ROUND, True),
        (shapely.MultiPolygon([ROUND, shapely.box(0, 2, 1, 3)]), True),
        (shapely.box(-170, 0, 170, 1), False),  # its edges of 340 degrees go the shorter way
        (shapely.MultiPolygon([WEST, EAST]), False),
        (shapely.MultiPolygon([WEST, shapely.box(0, 0, 150, 1)]), False),
        (shapely.box(-180, 60, 180, 90), False),
        (shapely.box(-90, 0, 90, 1), False),
    ],
)
def test_a_polygon_around_more_than_half_the_earth_is_told(drawn: shapely.Geometry, *, is_told: bool) -> None:
    """Parts are looked at one by one. What crosses 180 degrees, or goes all around, is meant so."""
    area = Area.of_geojson(shapely.geometry.mapping(drawn), field="geojson")

    assert [each.startswith("1 polygon more than 180 degrees wide") for each in area.notes] == [
        True
    ] * is_told


def test_all_wide_polygons_of_a_shape_are_counted() -> None:
    """One shape may have several."""
    both = shapely.MultiPolygon([ROUND, shapely.affinity.translate(ROUND, 0, 5)])
    area = Area.of_geojson(shapely.geometry.mapping(both), field="geojson")

    assert [each[:9] for each in area.notes] == ["2 polygon"]


@pytest.mark.parametrize(
    "wide",
    [
        shapely.box(-180, 60, 180, 90),
        shapely.box(-90, 0, 90, 1),
        shapely.MultiPolygon([WEST, shapely.box(170, 0, 179, 1)]),
        shapely.MultiPolygon([shapely.box(-179, 0, -170, 1), EAST]),
        shapely.MultiPolygon([WEST, shapely.box(-5, 0, 5, 1), shapely.box(20, 0, 170, 1)]),
        shapely.MultiPolygon([shapely.box(-180, 0, 0, 1), shapely.box(20, 0, 180, 1)]),
        shapely.LineString([(-95, 0), (85, 0), (90, 0)]),
        shapely.LineString([(-180, 0), (180, 0), (170, 0)]),
    ],
    ids=[
        "all around",
        "half around",
        "only west of the edge",
        "only east of the edge",
        "three parts",
        "a part as wide as half a turn",
        "half a turn in one step",
        "a whole turn in one step",
    ],
)
def test_a_wide_footprint_does_not_cross(wide: shapely.Geometry) -> None:
    """It is left as it is, because nothing tells that it crosses the antimeridian."""
    assert unwrapped_shape(wide) == wide


@pytest.mark.parametrize(
    "crossing",
    [
        shapely.MultiPolygon([WEST, EAST]),
        shapely.MultiPolygon([WEST, shapely.box(1, 0, 180, 1)]),
        shapely.LineString([(90.5, 0), (-90, 0)]),
        shapely.LineString([(0, 0), (10, 0), (170, 0), (-179, 0)]),
    ],
    ids=["cut at the edge", "cut with a wide part", "a step of more than half a turn", "from Greenwich on"],
)
def test_a_footprint_on_both_edges_of_the_map_crosses(crossing: shapely.Geometry) -> None:
    """Its western part goes on in the east."""
    west, _, east, _ = unwrapped_shape(crossing).bounds

    assert west >= 0
    assert 180 < east < 360


def test_geojson_of_several_features_is_one_area() -> None:
    """A feature collection is the union of its features."""
    points = [feature({"type": "Point", "coordinates": [x, 0]}) for x in (0, 10)]

    area = Area.of_geojson(collection(points), field="geojson")

    assert area.box == (0, 0, 10, 0)
    assert not area.meets(shapely.box(4, -1, 6, 1))


@pytest.mark.long
@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({}, "GeoJSON geometry"),
        ({"type": "Point", "coordinates": [200, 0]}, "longitude and latitude in degrees"),
        ({"type": "Point", "coordinates": [180.5, 0]}, "longitude and latitude in degrees"),
        ({"type": "Point", "coordinates": [-180.5, 0]}, "longitude and latitude in degrees"),
        ({"type": "Point", "coordinates": [0, 90.5]}, "longitude and latitude in degrees"),
        ({"type": "Point", "coordinates": [0, -90.5]}, "longitude and latitude in degrees"),
        ({"type": "LineString", "coordinates": [[0, 0], [1]]}, "a longitude and a latitude"),
        ({"type": "Point", "coordinates": ["x", 0]}, "is no number"),
        ({"type": "Polygon", "coordinates": []}, "empty"),
        ({"type": "FeatureCollection", "features": []}, "no feature"),
        (
            {"type": "Polygon", "coordinates": [[[0, 0], [1, 1]]]},
            "this geometry cannot be used: a ring of a polygon is not closed, or has fewer than three",
        ),
        ({"type": "MultiPoint", "coordinates": [[0, 0]] * 100_001}, "simplify"),
    ],
)
def test_geojson_that_is_none_is_refused(given_: dict[str, object], says: str) -> None:
    """What is no shape on the Earth is refused with a sentence."""
    with pytest.raises(RequestError, match=says):
        Area.of_geojson(given_, field="geojson")


@pytest.mark.parametrize("position", [[-180, -90], [180, 90]])
def test_the_edges_of_the_map_are_on_the_earth(position: list[int]) -> None:
    """A point at a pole and at the antimeridian is no mistake."""
    area = Area.of_geojson({"type": "Point", "coordinates": position}, field="geojson")

    assert area.box == (*position, *position)


@given(_LONGITUDES, _LONGITUDES)
def test_unwrapped_boxes_never_go_backwards(west: float, east: float) -> None:
    """East is never less than west, and the same meridian as before."""
    found = unwrap_box((west, 0, east, 1))

    assert found[0] <= found[2]
    assert found[2] in (east, east + 360)
