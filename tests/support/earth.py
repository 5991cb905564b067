"""Made-up scenes and areas all over the Earth, and what a look at each of them says: shapely alone."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import shapely
from shapely.affinity import translate

from pixel_gather.core.area import Area
from pixel_gather.core.scenes.catalog_query import SceneQuery
from pixel_gather.core.time_range import format_moment, parse_period, parse_time_range
from scenes.scenes import item

N_SCENES: Final = 3_000
_FIRST_US: Final = parse_period("2015").start_us
_DAY_US: Final = 86_400_000_000


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A box and a range of time."""

    box: tuple[float, float, float, float]
    """West > east where it crosses the antimeridian."""

    start_us: int
    stop_us: int

    @property
    def query(self) -> SceneQuery:
        """The same for our search."""
        return SceneQuery(area=Area(self.box), times=parse_time_range(self.datetime))

    @property
    def datetime(self) -> str:
        """The range of time as STAC writes it."""
        return f"{format_moment(self.start_us)}/{format_moment(self.stop_us)}"

    @property
    def shape(self) -> Any:
        """The box, line or point on a flat map, cut at the antimeridian."""
        west, south, east, north = self.box
        east = east + 360 if west > east else east
        if west == east and south == north:
            return shapely.Point(west, south)
        if west == east or south == north:
            return on_a_flat_map(shapely.LineString([(west, south), (east, north)]))
        return on_a_flat_map(shapely.box(west, south, east, north))


def on_a_flat_map(shape: Any) -> Any:
    """Return a shape with longitudes up to 540 degrees, cut at the antimeridian as RFC 7946 asks."""
    if shape.bounds[2] <= 180:
        return shape
    parts = [
        shape.intersection(shapely.box(-180, -90, 180, 90)),
        translate(shape.intersection(shapely.box(180, -90, 540, 90)), -360),
    ]
    return shapely.union_all(parts)


def scenes(n: int = N_SCENES) -> list[dict[str, Any]]:
    """Return items: boxes, turned squares and triangles, at the poles and across the antimeridian too."""
    rnd = random.Random(11)  # noqa: S311 # a test's own
    found = []
    for number in range(n):
        west = rnd.choice((rnd.uniform(-180, 180), rnd.uniform(170, 180)))
        south = rnd.choice((rnd.uniform(-90, 80), rnd.uniform(-90, -80), rnd.uniform(75, 80)))
        east, north = west + rnd.uniform(0.1, 20), min(south + rnd.uniform(0.1, 12), 90.0)
        middle = ((west + east) / 2, (south + north) / 2)
        shape = (
            shapely.box(west, south, east, north),
            shapely.Polygon([(west, middle[1]), (middle[0], south), (east, middle[1]), (middle[0], north)]),
            shapely.Polygon([(west, south), (east, south), (west, north)]),
        )[number % 3]
        flat = on_a_flat_map(shape)
        found.append(
            item(
                f"s{number}",
                box=(west, south, east - 360 if east > 180 else east, north),
                time=format_moment(_FIRST_US + rnd.randrange(3650) * _DAY_US),
                geometry=shapely.geometry.mapping(flat),
            )
        )
    return found


def areas(n: int) -> Iterator[Asked]:
    """Yield boxes and times: small and large, points and lines, at poles and across the antimeridian too."""
    rnd = random.Random(12)  # noqa: S311 # a test's own
    for number in range(n):
        west, south = rnd.uniform(-180, 180), rnd.uniform(-90, 89)
        width, height = rnd.choice(((0.3, 0.2), (5, 5), (40, 20), (200, 60), (0, 0), (3, 0)))
        if number % 10 == 0:
            south = -90.0
        north = 90.0 if number % 10 == 1 else min(south + height, 90.0)
        east = west + width
        start_us = _FIRST_US + rnd.randrange(3650) * _DAY_US
        stop_us = start_us + rnd.choice((0, 30, 700, 3650)) * _DAY_US
        box = (west, south, east - 360 if east > 180 else east, north)
        yield Asked(box=box, start_us=start_us, stop_us=stop_us)
