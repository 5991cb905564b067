"""Makes outlines.svg, the coasts and borders of a report's map, from the npm package ``world-atlas``.

The package holds Natural Earth's countries at 1:110,000,000, which are in the public domain, as TopoJSON.
``python -m scripts.build_outlines`` makes the file again.
"""

import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from infra.node_tools import node_modules
from pixel_gather.features.report.page.place_map import OUTLINES, UNITS_PER_DEGREE

_PACKAGES: Final = Path(__file__).parent / "viewer"
_TOLERANCE: Final = 0.8
"""Points that lie so near to a straight line are dropped, in units of the file."""

_CORNERS: Final = 3
_LOOK: Final = 'vector-effect="non-scaling-stroke"'
_TURN: Final = 360 * UNITS_PER_DEGREE
_SOUTH_POLE: Final = 90 * UNITS_PER_DEGREE

type Point = tuple[int, int]


def outlines() -> str:
    """Return the file: a path of all land, and one of the borders between countries. y points south.

    Lines go on beyond the antimeridian, so the file is drawn three times, a turn apart.
    """
    content = (node_modules(_PACKAGES) / "world-atlas" / "countries-110m.json").read_text()
    topology = json.loads(content)
    arcs = [_simplify_line(arc) for arc in _arcs(topology)]
    countries = [each["arcs"] for each in topology["objects"]["countries"]["geometries"]]
    uses = Counter(arc if arc >= 0 else ~arc for arc in _numbers(countries))
    borders = [_in_one_piece(arcs[arc]) for arc, n_uses in sorted(uses.items()) if n_uses > 1]
    (land,) = topology["objects"]["land"]["geometries"]
    rings = [_close_ring(_join_arcs(arcs, ring)) for polygon in land["arcs"] for ring in polygon]
    coasts = "".join(f"{_path(ring)}z" for ring in rings if len(ring) >= _CORNERS)
    return (
        "<!-- Made with Natural Earth (public domain), 1:110,000,000, by scripts/build_outlines.py -->\n"
        f'<path id="land" {_LOOK} d="{coasts}"/>\n'
        f'<path id="borders" {_LOOK} d="{"".join(map(_path, borders))}"/>\n'
    )


def _arcs(topology: dict[str, Any]) -> Iterator[list[Point]]:
    """Yield the arcs. TopoJSON stores each point as its difference to the one before."""
    (x_scale, y_scale), (x_first, y_first) = (topology["transform"][name] for name in ("scale", "translate"))
    for arc in topology["arcs"]:
        x, y, points = 0, 0, []
        for dx, dy in arc:
            x, y = x + dx, y + dy
            longitude, latitude = x * x_scale + x_first, y * y_scale + y_first
            points.append((round(longitude * UNITS_PER_DEGREE), round(-latitude * UNITS_PER_DEGREE)))
        yield points


def _numbers(arcs: Iterable[Any]) -> Iterator[int]:
    """Yield the numbers in lists of lists."""
    for each in arcs:
        if isinstance(each, int):
            yield each
        else:
            yield from _numbers(each)


def _join_arcs(arcs: Sequence[list[Point]], ring: Sequence[int]) -> list[Point]:
    """Return the points of a ring. A negative number is an arc that runs backwards."""
    points: list[Point] = []
    for number in ring:
        arc = arcs[number] if number >= 0 else arcs[~number][::-1]
        points += arc[bool(points) :]
    return points


def _in_one_piece(points: Sequence[Point]) -> list[Point]:
    """Return a line without jumps at the antimeridian. Its longitudes go on there."""
    found = [points[0]]
    for (before, _), (x, y) in pairwise(points):
        step = (x - before + _TURN // 2) % _TURN - _TURN // 2
        found.append((found[-1][0] + step, y))
    return found


def _close_ring(ring: Sequence[Point]) -> list[Point]:
    """Return a ring in one piece, without its last point. Antarctica goes around the pole: it ends there."""
    points = _in_one_piece(ring)
    (first, _), (last, _) = points[0], points[-1]
    if first == last:
        return points[:-1]
    return [*points, (last, _SOUTH_POLE), (first, _SOUTH_POLE)]


def _simplify_line(points: list[Point]) -> list[Point]:
    """Return a line with fewer points, by the algorithm of Ramer, Douglas and Peucker."""
    first, last = points[0], points[-1]
    far = [_distance(point, first, last) for point in points[1:-1]]
    if not far or max(far) < _TOLERANCE:
        return [first, last]
    split = far.index(max(far)) + 1
    return _simplify_line(points[: split + 1])[:-1] + _simplify_line(points[split:])


def _distance(point: Point, first: Point, last: Point) -> float:
    """Return how far a point is from a line, or from its first point if the line is a ring."""
    length = math.dist(first, last)
    if not length:
        return math.dist(point, first)
    (x, y), (x1, y1), (x2, y2) = point, first, last
    return abs((x2 - x1) * (y - y1) - (x - x1) * (y2 - y1)) / length


def _path(points: Sequence[Point]) -> str:
    (x, y), *_ = points
    steps = " ".join(f"{x2 - x1} {y2 - y1}" for (x1, y1), (x2, y2) in pairwise(points))
    return f"M{x} {y}l{steps}".replace(" -", "-")


if __name__ == "__main__":
    OUTLINES.write_text(outlines(), encoding="utf-8")
    sys.stdout.write(f"{OUTLINES}: {OUTLINES.stat().st_size:,} bytes\n")
