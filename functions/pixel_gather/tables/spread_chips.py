"""Spreads chips over areas: drawn at random, or at the corners of a lattice."""

from typing import Any, Final

import numpy as np

from pixel_gather.core.errors import RequestError
from pixel_gather.core.plan.chip_table import TABLE_FIELD
from pixel_gather.core.request.windows_request import MOST_SAMPLE, WindowsRequest
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.tables.features import Features, Floats, Integers

_MOST_TRIES: Final = 1_000
"""Draws of a point before its polygon is said to be too thin."""

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
    box = projector.bounds(areas.box(), source_crs=areas.crs, target_crs=crs)
    if not np.isfinite(box).all():
        raise RequestError(f"the areas cannot be placed in {crs[:60]}", field="windows.crs")
    west, south, east, north = (int(np.floor(each / spacing)) for each in box)
    n = (east - west + 1) * (north - south + 1)
    if n > MOST_SAMPLE:
        raise RequestError(
            f"the box around the areas has {n:,} points; give a larger one", field="windows.spacing"
        )
    cols, rows = np.meshgrid(np.arange(west, east + 1), np.arange(north, south - 1, -1))
    xs, ys = (each.ravel().astype(np.float64) * np.float64(spacing) for each in (cols, rows))
    at_xs, at_ys = projector.point_arrays(xs, ys, source_crs=crs, target_crs=areas.crs)
    of_area = np.full(n, -1, np.int64)
    for at, polygon in enumerate(areas.geometries[:] if areas.geometries is not None else ()):
        shapely.prepare(polygon)
        is_free = np.flatnonzero((of_area < 0) & np.isfinite(at_xs))
        of_area[is_free[shapely.contains_xy(polygon, at_xs[is_free], at_ys[is_free])]] = at
    is_in = of_area >= 0
    if not is_in.any():
        raise RequestError("no such point lies in the areas; give a smaller one", field="windows.spacing")
    return xs[is_in], ys[is_in], of_area[is_in]


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
    geometries = dict(zip(members.tolist(), areas.geometries[members], strict=True))
    shares = np.array([_share(geometries[at], is_degrees=is_degrees) for at in members])
    counts = random.multinomial(n, shares / shares.sum()) if n else np.zeros(len(members), np.int64)
    found_xs, found_ys = [np.zeros(0)], [np.zeros(0)]
    for at, count in zip(members.tolist(), counts.tolist(), strict=True):
        shapely.prepare(geometries[at])
        west, south, east, north = geometries[at].bounds
        if is_degrees:
            south, north = np.sin(np.radians([south, north])).tolist()
        missing, tries = count, 0
        while missing:
            size = 2 * missing + 100
            xs, ys = random.uniform(west, east, size), random.uniform(south, north, size)
            ys = np.degrees(np.arcsin(ys)) if is_degrees else ys
            kept = np.flatnonzero(shapely.contains_xy(geometries[at], xs, ys))[:missing]
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
