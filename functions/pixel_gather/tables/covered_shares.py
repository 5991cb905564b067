"""Which share of each cell of a grid a polygon covers, by GEOS.

GEOS 3.14 has exactextract's algorithm as GEOSGridIntersectionFractions. shapely brings this GEOS, but has no
name for the function yet. So it is called in shapely's own library.
"""

import ctypes
import functools
import struct
import sys
import threading
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pixel_gather.core.errors import RequestError

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

type Box = tuple[float, float, float, float]
type Fractions = np.ndarray[Any, np.dtype[np.float32]]

_NAMES: Final = ("libgeos_c*", "geos_c*")
_FOLDERS: Final = ("../shapely.libs", ".dylibs", "../shapely.libs/.dylibs")


_MOST_OFF: Final = 0.1
"""Cells by which the sum of the shares may differ from the polygon's area. What is wrong is a whole cell."""

_BESIDE: Final = 1e-6
"""Share of a cell within which two corners are beside each other."""


def covered_shares(shape: "BaseGeometry", *, wkb: bytes, box: Box, width: int, height: int) -> Fractions:
    """Return the share of each cell that a polygon covers, from 0 to 1.

    GEOS 3.14 computes them, but for two kinds of polygons. If corners of a polygon lie on edges of cells, it
    may take a cell inside for one outside, or the reverse, or give up. Then the sum of the shares is not the
    polygon's area. If a polygon reaches beyond the grid, and one of its corners lies within the last digits
    of a corner of a cell, GEOS may write to memory that is not its own. For both kinds, each cell is
    intersected with the polygon.

    Args:
        shape: A valid polygon or multipolygon.
        wkb: The same.
        box: West, south, east and north of all cells, in the CRS of the polygon.
        width: Columns of cells.
        height: Rows of cells.

    Returns:
        Shape (height, width), the first row at the top.

    Raises:
        RequestError: The GEOS of shapely is older than 3.14.
        ValueError: GEOS cannot read the polygon.
    """
    import shapely  # noqa: PLC0415 # takes 0.1 s

    if _has_corner_beside_a_cells(shape, box, width, height):
        return _intersect_cells(shape, box, width, height)
    fractions = _lay_on_grid(_framed(wkb, shape.bounds, box), box, width, height)
    (west, south, east, north), is_inside = box, _reaches_no_further(shape.bounds, box)
    covered = (shape if is_inside else shapely.intersection(shape, shapely.box(*box))).area
    n_covered = covered / ((east - west) * (north - south)) * fractions.size
    is_right = abs(fractions.sum(dtype=np.float64) - n_covered) < _MOST_OFF
    return fractions if is_right else _intersect_cells(shape, box, width, height)


def _has_corner_beside_a_cells(shape: "BaseGeometry", box: Box, width: int, height: int) -> bool:
    """Return whether a polygon that reaches beyond a grid has a corner beside one of a cell."""
    if _reaches_no_further(shape.bounds, box):
        return False
    import shapely  # noqa: PLC0415 # as above

    west, south, east, north = box
    places = (shapely.get_coordinates(shape) - (west, south)) * (
        width / (east - west),
        height / (north - south),
    )
    away = np.abs(places - np.rint(places)).max(axis=1)
    return bool(((away > 0) & (away < _BESIDE)).any())


def _reaches_no_further(bounds: Box, box: Box) -> bool:
    (west, south, east, north), (left, bottom, right, top) = bounds, box
    return left <= west and bottom <= south and east <= right and north <= top


def _lay_on_grid(wkb: bytes, box: Box, width: int, height: int) -> Fractions:
    """Return the shares by exactextract's algorithm. They are NaN if GEOS gives up."""
    geos, handle = _geos(), _handle()
    fractions = np.zeros((height, width), np.float32)  # GEOS leaves cells that the polygon does not touch
    reader = geos.GEOSWKBReader_create_r(handle)
    try:
        geometry = geos.GEOSWKBReader_read_r(handle, reader, wkb, len(wkb))
        if not geometry:
            raise ValueError("GEOS cannot read the polygon")
        try:
            done = geos.GEOSGridIntersectionFractions_r(
                handle, geometry, *map(float, box), width, height, fractions.ctypes.data
            )
        finally:
            geos.GEOSGeom_destroy_r(handle, geometry)
    finally:
        geos.GEOSWKBReader_destroy_r(handle, reader)
    return fractions if done == 1 else np.full_like(fractions, np.nan)


def _intersect_cells(shape: "BaseGeometry", box: Box, width: int, height: int) -> Fractions:
    """Return the shares by the area of each cell's part of the polygon."""
    import shapely  # noqa: PLC0415 # as above

    west, south, east, north = box
    xs, ys = np.linspace(west, east, width + 1), np.linspace(north, south, height + 1)
    fractions = np.zeros((height, width), np.float32)
    for row, (top, bottom) in enumerate(pairwise(ys)):
        of_row = shapely.intersection(shape, shapely.box(west, bottom, east, top))
        if of_row.is_empty:
            continue
        shapely.prepare(of_row)
        cells = shapely.box(xs[:-1], bottom, xs[1:], top)
        is_whole = shapely.covers(of_row, cells)
        is_part = ~is_whole & shapely.intersects(of_row, cells)
        shares = shapely.area(shapely.intersection(of_row, cells[is_part])) / shapely.area(cells[is_part])
        fractions[row, is_whole], fractions[row, is_part] = 1, np.minimum(shares, 1)
    return fractions


def _framed(wkb: bytes, bounds: Box, box: Box) -> bytes:
    """Return a polygon that reaches beyond a grid as a collection that reaches further.

    GEOS lays one more cell around the grid, up to the box of what it is given. An edge out there that is
    level but for the last digit leaves this cell at its outer side, and GEOS 3.14 then writes to memory that
    is not its own. So two triangles are added beyond the corners. They cover no cell.
    """
    if _reaches_no_further(bounds, box):
        return wkb
    (west, south, east, north), (left, bottom, right, top) = bounds, box
    wide, high = max(east, right) - min(west, left), max(north, top) - min(south, bottom)
    return b"".join(
        [
            struct.pack("<BII", 1, 7, 3),
            wkb,
            _triangle(max(east, right) + wide, max(north, top) + high, wide, high),
            _triangle(min(west, left) - wide, min(south, bottom) - high, -wide, -high),
        ]
    )


def _triangle(x: float, y: float, wide: float, high: float) -> bytes:
    return struct.pack("<BIII8d", 1, 3, 1, 4, x, y, x + wide, y, x + wide, y + high, x, y)


@functools.cache
def _geos() -> Any:
    """Return the library, with the types of what is called."""
    import shapely  # noqa: PLC0415 # loads it

    folder = Path(shapely.__file__).parent
    found = [path for each in _FOLDERS for name in _NAMES for path in (folder / each).glob(name)]
    if sys.platform == "linux":  # a system's own shapely: what is loaded already
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
        found += [Path(word) for word in maps.split() if "libgeos_c" in word]
    for path in found:
        library = ctypes.CDLL(str(path))
        if hasattr(library, "GEOSGridIntersectionFractions_r"):
            break
    else:
        raise RequestError(
            "fractions need GEOS 3.14, which shapely from PyPI has since 2.1.2: install it, or take centre",
            field="coverage",
        )
    pointer, number, count = ctypes.c_void_p, ctypes.c_double, ctypes.c_uint
    for name, result, arguments in (
        ("GEOS_init_r", pointer, []),
        ("GEOSWKBReader_create_r", pointer, [pointer]),
        ("GEOSWKBReader_destroy_r", None, [pointer, pointer]),
        ("GEOSWKBReader_read_r", pointer, [pointer, pointer, ctypes.c_char_p, ctypes.c_size_t]),
        ("GEOSGeom_destroy_r", None, [pointer, pointer]),
        (
            "GEOSGridIntersectionFractions_r",
            ctypes.c_int,
            [pointer, pointer, *[number] * 4, count, count, pointer],
        ),
    ):
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


class _OfThread(threading.local):
    handle: Any = None


_of_thread: Final = _OfThread()


def _handle() -> Any:
    """Return GEOS's context of this thread."""
    if _of_thread.handle is None:
        _of_thread.handle = _geos().GEOS_init_r()
    return _of_thread.handle
