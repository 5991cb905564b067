"""Spreads chips over areas: drawn at random, or at the corners of a lattice."""

from typing import Any, Final

import numpy as np

from pixel_gather.core.errors import RequestError
from pixel_gather.core.pixel_mask import Mask
from pixel_gather.core.plan.chip_table import TABLE_FIELD
from pixel_gather.core.request.windows_request import MOST_SAMPLE, WindowsRequest
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.tables.features import Features, Floats, Integers

_MOST_TRIES: Final = 1_000
"""Draws of a point before its polygon is said to be too thin."""

_SEAM: Final = 180.0
_POLE: Final = 90.0
_BESIDE: Final = 1e-9
"""Degrees: a tenth of a millimetre."""

type Points = tuple[Floats, Floats, Integers]
"""x, y, and which polygon each lies in."""


def drawn_points(areas: Features, windows: WindowsRequest) -> Points:
    """Draw points from polygons, each place being as likely as any other. Equal seeds give equal points.

    With ``strata``, each value of that column has the same number of points, or one more.

    Raises:
        RequestError: There is no such column, or a polygon has no room for a point.
    """
    assert windows.sample is not None  # noqa: S101 # who calls has looked
    strata = _strata(areas, windows.strata)
    number, rest = divmod(windows.sample, len(strata))
    parts = [
        _drawn(areas, members, number + (at < rest), np.random.default_rng((windows.seed or 0, at)))
        for at, members in enumerate(strata)
    ]
    xs, ys, of_area = (np.concatenate(each) for each in zip(*parts, strict=True))
    return xs, ys, of_area


def lattice_points(areas: Features, *, spacing: float, crs: str) -> Points:
    """Return the points in polygons whose coordinates are whole multiples of ``spacing``.

    So the lattices of neighbouring areas fit together. A point in several polygons is the first one's. The
    spacing is in units of ``crs``, the CRS of the lattice and of the points.

    Raises:
        RequestError: There is no such point, there are too many, or the areas have no place in the CRS.
    """
    import shapely  # noqa: PLC0415 # points need none of it

    projector = RasterioProjector()
    of_degrees = projector.counts_degrees(areas.crs)
    cols, rows = _lattice_around(areas, projector, spacing=spacing, crs=crs)
    xs, ys = (each.astype(np.float64) * np.float64(spacing) for each in (cols, rows))
    at_xs, at_ys = projector.point_arrays(xs, ys, source_crs=crs, target_crs=areas.crs)
    is_free = np.isfinite(at_xs)
    if projector.counts_degrees(crs):
        is_free &= xs != _SEAM  # -180 is the same place
    of_area = np.full(len(xs), -1, np.int64)
    for at, polygon in enumerate(areas.geometries[:] if areas.geometries is not None else ()):
        shapely.prepare(polygon)
        tried = np.flatnonzero(is_free & (of_area < 0))
        of_area[tried[_contains(polygon, at_xs[tried], at_ys[tried], of_degrees=of_degrees)]] = at
    is_in = of_area >= 0
    if not is_in.any():
        raise RequestError("no such point lies in the areas; give a smaller one", field="windows.spacing")
    return xs[is_in], ys[is_in], of_area[is_in]


def _lattice_around(
    areas: Features, projector: RasterioProjector, *, spacing: float, crs: str
) -> tuple[Integers, Integers]:
    """Return columns and rows of the lattice's points around the areas, line by line from the north.

    Polygons across 180 degrees were cut there. So what lies west and what lies east of 0 degrees has a box of
    its own if the box around both goes around most of the Earth.

    Raises:
        RequestError: There are too many points, or the areas have no place in the CRS.
    """
    import shapely  # noqa: PLC0415 # points need none of it

    assert areas.geometries is not None  # noqa: S101 # they are checked
    box = areas.box()
    boxes = [box]
    if box[2] - box[0] > _SEAM and projector.counts_degrees(areas.crs):
        west, south, east, north = shapely.bounds(shapely.get_parts(areas.geometries[:])).T
        sides = [west + east < 0, west + east >= 0]
        boxes = [
            (west[side].min(), south[side].min(), east[side].max(), north[side].max())
            for side in sides
            if side.any()
        ]
    found = []
    for each in boxes:
        projected = projector.bounds(each, source_crs=areas.crs, target_crs=crs)
        if not np.isfinite(projected).all():
            raise RequestError(f"the areas cannot be placed in {crs[:60]}", field="windows.crs")
        first_col, last_row, last_col, first_row = (int(np.floor(side / spacing)) for side in projected)
        found.append((range(first_col, last_col + 1), range(first_row, last_row - 1, -1)))
    n = sum(len(cols) * len(rows) for cols, rows in found)
    if n > MOST_SAMPLE:
        raise RequestError(
            f"the box around the areas has {n:,} points; give a larger one", field="windows.spacing"
        )
    grids = [np.meshgrid(np.array(cols), np.array(rows)) for cols, rows in found]
    places = np.concatenate([np.stack([-rows.ravel(), cols.ravel()], axis=1) for cols, rows in grids])
    if len(found) > 1:
        places = np.unique(places, axis=0)  # which sorts them, too
    return places[:, 1], -places[:, 0]


def _contains(polygon: Any, xs: Floats, ys: Floats, *, of_degrees: bool) -> Mask:
    """Return which points a polygon contains. What was cut at 180 degrees or at a pole goes on there."""
    import shapely  # noqa: PLC0415 # points need none of it

    is_in: Mask = shapely.contains_xy(polygon, xs, ys)
    if of_degrees:
        is_pole = np.abs(ys) == _POLE
        at = np.flatnonzero((np.abs(xs) == _SEAM) & ~is_pole)
        sides = [shapely.contains_xy(polygon, side, ys[at]) for side in (_SEAM - _BESIDE, _BESIDE - _SEAM)]
        is_in[at] = sides[0] & sides[1]
        at = np.flatnonzero(is_pole)
        beside = np.sign(ys[at]) * (_POLE - _BESIDE)
        is_in[at] = np.logical_and.reduce(
            [shapely.contains_xy(polygon, x, beside) for x in (-135, -45, 45, 135)]
        )
    return is_in


def _strata(areas: Features, column: str | None) -> list[Integers]:
    """Return the polygons of each value of a column, in the order of the values."""
    if column is None:
        return [np.arange(len(areas))]
    names = [] if areas.columns is None else areas.columns.column_names
    if areas.columns is None or column not in names:
        said = ", ".join(names) or "no others"
        raise RequestError(f"there is no column {column}; there are {said}", field="windows.strata")
    values = np.array([str(each) for each in areas.columns.column(column).to_pylist()])
    return [np.flatnonzero(values == value) for value in np.unique(values)]


def _drawn(areas: Features, members: Integers, n: int, random: np.random.Generator) -> Points:
    """Draw points from some polygons, as many from each as its share of the area makes likely."""
    import shapely  # noqa: PLC0415 # points need none of it

    described = RasterioProjector().describe(areas.crs)
    is_degrees = described is not None and described.is_geographic
    assert areas.geometries is not None  # noqa: S101 # they are checked
    # Parts of a polygon may lie far apart: those of one across 180 degrees lie 360 degrees apart.
    polygons, of_member = shapely.get_parts(areas.geometries[members], return_index=True)
    members = members[of_member]
    shares = np.array([_share(each, is_degrees=is_degrees) for each in polygons])
    counts = random.multinomial(n, shares / shares.sum()) if n else np.zeros(len(members), np.int64)
    found_xs, found_ys = [np.zeros(0)], [np.zeros(0)]
    for at, polygon, count in zip(members.tolist(), polygons, counts.tolist(), strict=True):
        shapely.prepare(polygon)
        west, south, east, north = polygon.bounds
        if is_degrees:
            south, north = np.sin(np.radians([south, north])).tolist()
        missing, tries = count, 0
        while missing:
            size = 2 * missing + 100
            xs, ys = random.uniform(west, east, size), random.uniform(south, north, size)
            ys = np.degrees(np.arcsin(ys)) if is_degrees else ys
            kept = np.flatnonzero(shapely.contains_xy(polygon, xs, ys))[:missing]
            found_xs.append(xs[kept])
            found_ys.append(ys[kept])
            missing, tries = missing - len(kept), tries + 1
            if tries > _MOST_TRIES:
                raise RequestError(f"area {areas.ids[at]} is too thin to draw points from", field=TABLE_FIELD)
    return np.concatenate(found_xs), np.concatenate(found_ys), np.repeat(members, counts)


def _share(polygon: Any, *, is_degrees: bool) -> float:
    """Return the area of a polygon, of degrees that of the cylinder with equal areas."""
    import shapely  # noqa: PLC0415 # points need none of it

    if is_degrees:

        def flatten(xys: Floats) -> Floats:
            return np.stack([xys[:, 0], np.degrees(np.sin(np.radians(xys[:, 1])))], axis=1)

        polygon = shapely.transform(polygon, flatten)
    return float(polygon.area)
