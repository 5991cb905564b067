"""A grid in a CRS of its own, onto which sources are warped. Pure except for the projector.

The grid is the window itself: every source is seen on it as if it had exactly these pixels. A pixel of the
grid takes what lies below its middle. That place is computed for every pixel, as GDAL does.
"""

import math
import re
from copy import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.model.source import Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Transform, Window, WindowRule
from pixel_gather.core.pixel_mask import Mask
from pixel_gather.core.plan.locate_window import Grid, window_on_lattice
from pixel_gather.core.plan.longitudes import LONLAT, Floats, turn_longitudes
from pixel_gather.core.ports import Projector

if TYPE_CHECKING:  # pydantic costs a worker 0.2 s of its start
    from pixel_gather.core.request.grid_request import GridRequest

_EDGE: Final = 1e-10
"""Share of a pixel by which a place may lie beyond the right or lower edge of a source, as GDAL decides."""

_MARGIN: Final = 2
"""Pixels that are read around those below the edges of a window. A cubic mean takes up to two on each side.
Between two places that are computed, an edge may curve outwards by half a pixel before it needs a third."""

_MOST_ON_EDGE: Final = 1024
"""Pixels on each edge of a window whose places are computed, to learn what is below the window."""

_N_ON_EDGE: Final = 21
"""Places on each edge of a source that are looked for in a window."""

NOWHERE: Final = Window(col_off=-1, row_off=-1, width=1, height=1)
"""A window beside a source."""

_EPSG: Final = re.compile(r"\s*epsg:0*(\d+)\s*", re.IGNORECASE)
_UTM: Final = {True: 32600, False: 32700}
"""EPSG codes of UTM, without the zone, by whether it is north of the equator."""


def lay_asked_grid(asked: "GridRequest", rule: WindowRule, projector: Projector) -> Grid:
    """Return the window of a request as a grid in the CRS that it wants.

    Raises:
        RequestError: The CRS is not known, or the window has no place in it.
    """
    return lay_grid(asked.lattice(), _crs_of(asked, rule, projector), rule, projector)


def lay_grid(lattice: Transform, crs: str, rule: WindowRule, projector: Projector) -> Grid:
    """Return a window on the pixels of a lattice as a grid of its own.

    Raises:
        RequestError: The window has no place there.
    """
    _check_placed(rule)
    try:
        window = window_on_lattice(rule, lattice, crs, href="", projector=projector)
    except SourceError as error:
        raise RequestError(error.reason, field="window") from error
    return Grid(
        width=window.width,
        height=window.height,
        transform=lattice.shifted(window.col_off, window.row_off),
        crs=crs,
        tile_width=window.width,
        tile_height=window.height,
    )


def _check_placed(rule: WindowRule) -> None:
    if rule.crs is None:
        raise RequestError(
            "a grid with a CRS needs a bbox or a point in a named CRS: tiles, pixels and crs: source mean "
            "another place in each file",
            field="window",
        )


def _crs_of(asked: "GridRequest", rule: WindowRule, projector: Projector) -> str:
    """Return the grid's CRS. For ``utm`` it is that of the zone in which the window's middle lies."""
    assert asked.crs is not None  # noqa: S101 # or nothing is warped
    if asked.crs != "utm":
        projector.check(asked.crs, field="grid.crs")
        code = _EPSG.fullmatch(asked.crs)
        return asked.crs if code is None else f"EPSG:{code[1]}"
    _check_placed(rule)
    x, y = rule.middle or (0.0, 0.0)
    (longitude,), (latitude,) = projector.points([x], [y], source_crs=rule.crs or "", target_crs=LONLAT)
    zone = math.floor((longitude + 180) / 6) % 60 + 1
    return f"EPSG:{_UTM[latitude >= 0] + zone}"


def places_on(
    target: Grid, own: Grid, cols: Floats, rows: Floats, projector: Projector
) -> tuple[Floats, Floats]:
    """Return where places on one grid lie on another, as (column, row). Infinite or NaN where nowhere.

    Args:
        target: The grid that the places are given on.
        own: The other one.
        cols: Columns of the places. The middle of the first pixel is 0.5.
        rows: Their rows.
        projector: Between their CRSs.
    """
    assert target.transform is not None and own.transform is not None  # noqa: PT018, S101 # checked before
    xs, ys = _apply_transform(target.transform.to_gdal(), cols, rows)
    if target.crs != own.crs:
        assert target.crs is not None and own.crs is not None  # noqa: PT018, S101 # checked before
        xs, ys = projector.point_arrays(xs, ys, source_crs=target.crs, target_crs=own.crs)
    xs = turn_longitudes(xs, own, projector, ends_at_left=False)
    with np.errstate(invalid="ignore"):  # infinity times zero
        return _apply_transform(_invert_transform(own.transform), xs, ys)


def _apply_transform(gdal: tuple[float, ...], xs: Floats, ys: Floats) -> tuple[Floats, Floats]:
    """Apply a geotransform, in the order of GDAL's operations."""
    return gdal[0] + xs * gdal[1] + ys * gdal[2], gdal[3] + xs * gdal[4] + ys * gdal[5]


def _invert_transform(transform: Transform) -> tuple[float, ...]:
    """Return the inverse of a geotransform as GDAL computes it, in its order."""
    c, a, b, f, d, e = transform.to_gdal()
    if b == 0 and d == 0:
        return -c / a, 1 / a, 0.0, -f / e, 0.0, 1 / e
    of_determinant = 1 / (a * e - b * d)
    return (
        (b * f - c * e) * of_determinant,
        e * of_determinant,
        -b * of_determinant,
        (-a * f + c * d) * of_determinant,
        -d * of_determinant,
        a * of_determinant,
    )


def lie_inside(cols: Floats, rows: Floats, *, width: int, height: int) -> Mask:
    """Return which places lie on a raster of this size, as GDAL's warper decides."""
    inside: Mask = (cols >= 0) & (rows >= 0) & (cols + _EDGE <= width) & (rows + _EDGE <= height)
    return inside


def pixels_at(places: Floats, size: int) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Return the columns or rows in which places lie that are on a raster of this size."""
    return np.minimum(np.floor(places + _EDGE).astype(np.int64), size - 1)


class Warp(Struct, frozen=True, kw_only=True):
    """What some lines of a grid take from a source."""

    target: Grid
    own: Grid
    """The source's grid."""

    lines: tuple[int, int]
    """Lines [start, stop) of the target."""

    below: Window
    """The source's pixels below these lines. Part of them may lie beyond its edges."""

    covers: bool
    """Whether the lines lie on the source wholly, by the middles of the pixels at their edges."""

    gap: int = 0
    """Columns in the middle of ``below`` that nothing is taken from, as the window lies on both ends of a
    source that goes around the Earth."""

    @property
    def window(self) -> Window | None:
        """The pixels to read; None if there are none."""
        return self.below.clipped(width=self.own.width, height=self.own.height)

    @property
    def share(self) -> float:
        """Pixels of the source for each pixel of the grid."""
        n_taken = (self.below.width - self.gap) * self.below.height
        return n_taken / (self.target.width * (self.lines[1] - self.lines[0]))

    @property
    def size_on_target(self) -> tuple[int, int]:
        """About how many pixels of the grid a source is wide and high."""
        times = math.sqrt(self.share)
        return math.ceil(self.own.width / times), math.ceil(self.own.height / times)


def lay_warp(
    header: Header, target: Grid, projector: Projector, *, lines: tuple[int, int] | None = None
) -> Warp:
    """Return what a grid, or some lines of it, takes from a source.

    Raises:
        SourceError: The source has no place on the map, or none in common with the grid.
        RequestError: PROJ does not know its CRS.
    """
    start, stop = lines or (0, target.height)
    own = Grid.of(header)
    if own.transform is None or not own.transform.is_usable or own.crs is None:
        lacks = "geotransform" if own.crs is not None else "CRS"
        raise SourceError(
            f"has no {lacks}, without which it cannot be warped", href=header.href, status=Status.UNSUPPORTED
        )
    edge = _edges((0.5, target.width - 0.5), (start + 0.5, stop - 0.5), n=(target.width, stop - start))
    cols, rows = places_on(target, own, *edge, projector)
    inside = lie_inside(cols, rows, width=own.width, height=own.height)
    there = np.isfinite(cols) & np.isfinite(rows)
    if lines is None and not (there.any() and (inside.any() or _reaches(own, target, projector))):
        raise SourceError(
            f"the window lies outside its {own.width} x {own.height} pixels",
            href=header.href,
            status=Status.OUTSIDE,
        )
    return Warp(
        target=target,
        own=own,
        lines=(start, stop),
        below=_around(cols[there], rows[there]) if there.any() else NOWHERE,
        covers=bool(inside.all()),
        gap=_gap(cols[there], own.width),
    )


def _gap(cols: Floats, width: int) -> int:
    """Return the width of the widest gap between places, in columns of the source.

    Return 0 if the gap is at most half as wide as the source: then the places count as lying together.
    """
    widest = float(np.diff(np.sort(cols)).max(initial=0))
    return int(widest) if widest > width / 2 else 0


def _reaches(own: Grid, target: Grid, projector: Projector) -> bool:
    """Return whether an edge of a source lies on a grid."""
    edge = _edges((0.0, own.width), (0.0, own.height), n=(_N_ON_EDGE, _N_ON_EDGE))
    cols, rows = places_on(own, target, *edge, projector)
    return bool(lie_inside(cols, rows, width=target.width, height=target.height).any())


def _edges(
    cols: tuple[float, float], rows: tuple[float, float], *, n: tuple[int, int]
) -> tuple[Floats, Floats]:
    """Return places on the four edges of a rectangle, corners included."""
    along = np.linspace(*cols, max(min(n[0], _MOST_ON_EDGE), 2))
    down = np.linspace(*rows, max(min(n[1], _MOST_ON_EDGE), 2))
    xs = [along, along, np.full(len(down), cols[0]), np.full(len(down), cols[1])]
    ys = [np.full(len(along), rows[0]), np.full(len(along), rows[1]), down, down]
    return np.concatenate(xs), np.concatenate(ys)


def _around(cols: Floats, rows: Floats) -> Window:
    """Return the pixels around some places, with a margin."""
    col_off, row_off = math.floor(cols.min()) - _MARGIN, math.floor(rows.min()) - _MARGIN
    return Window(
        col_off=col_off,
        row_off=row_off,
        width=math.ceil(cols.max()) + _MARGIN - col_off,
        height=math.ceil(rows.max()) + _MARGIN - row_off,
    )


def seen_on(header: Header, target: Grid) -> Header:
    """Return the header of a source as if it had the pixels of a grid."""
    return replace(
        header,
        width=target.width,
        height=target.height,
        transform=target.transform,
        crs=target.crs,
        tile_width=target.tile_width,
        tile_height=target.tile_height,
    )
