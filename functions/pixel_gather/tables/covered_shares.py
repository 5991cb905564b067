"""Which share of each cell of a grid a polygon covers, by GEOS.

GEOS 3.14 has exactextract's algorithm as GEOSGridIntersectionFractions. shapely brings this GEOS, but has no
name for the function yet. So it is called in shapely's own library.
"""

import ctypes
import functools
import sys
import threading
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

_MOST_OFF: Final = 1e-5
_MOST_OFF_EACH: Final = 1e-6
"""Cells by which the sum of the shares may differ from the polygon's area: in all, and for each cell that is
covered in part. Rounding explains no more."""

_BESIDE: Final = 1e-6
"""Two places that differ by less than this share of a cell are too close for GEOS."""

_ROUNDED: Final = 2.0**-20
"""Share of a cell to which places are rounded. About a millionth, and exact in binary."""


def covered_shares(shape: "BaseGeometry", *, wkb: bytes, box: Box, width: int, height: int) -> Fractions:
    """Return the share of each cell that a polygon covers, from 0 to 1.

    GEOS 3.14 computes the shares, but it has two faults.

    It may write to memory that is not its own if a point is repeated, or if coordinates differ only in their
    last digits from those of the next point or from edges of cells, as in a box from another CRS. So all
    coordinates of such a polygon are first rounded to a millionth of a cell.

    If corners lie on edges of cells, it may take a part inside for one outside, or the reverse, or give up.
    So the sum of the shares is compared with the polygon's area. If they differ by more than rounding
    explains, or if rounding made the polygon invalid, each cell is intersected with the polygon instead.

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

    west, south, east, north = box
    per_cell = width / (east - west), height / (north - south)
    places = (shapely.get_coordinates(shape) - (west, south)) * per_cell

    def in_cells() -> "BaseGeometry":
        return shapely.transform(shape, lambda _: np.rint(places / _ROUNDED) * _ROUNDED)

    if _are_noisy(places):
        rounded = in_cells()
        if not rounded.is_valid:
            return _intersect_cells(rounded, width, height)
        rounded = shapely.remove_repeated_points(rounded)
        fractions = _lay_on_grid(rounded.wkb, (0, 0, width, height), width, height)
    else:
        fractions = _lay_on_grid(wkb, box, width, height)
    left, bottom, right, top = shape.bounds
    is_inside = west <= left and south <= bottom and right <= east and top <= north
    covered = (shape if is_inside else shapely.intersection(shape, shapely.box(*box))).area
    n_off = abs(fractions.sum(dtype=np.float64) - covered * per_cell[0] * per_cell[1])
    n_parts = np.count_nonzero((fractions > 0) & (fractions < 1))
    is_right = n_off < _MOST_OFF + _MOST_OFF_EACH * n_parts
    return fractions if is_right else _intersect_cells(in_cells(), width, height)


def _are_noisy(places: np.ndarray[Any, np.dtype[np.float64]]) -> bool:
    """Return whether two successive corners are equal or almost, or one lies almost on an edge of a cell.

    Args:
        places: The corners in cells, shape (corner, 2). Almost means by less than `_BESIDE`, but not exactly.
    """
    steps = np.diff(places, axis=0)
    away = np.concatenate([places - np.rint(places), steps])
    is_beside = (away != 0) & (np.abs(away) < _BESIDE)
    return bool(is_beside.any() or (steps == 0).all(axis=1).any())


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


def _intersect_cells(shape: "BaseGeometry", width: int, height: int) -> Fractions:
    """Return the shares by the area of each cell's part of a polygon, whose coordinates are in cells."""
    import shapely  # noqa: PLC0415 # as above

    shape = shapely.make_valid(shape, method="structure", keep_collapsed=False)
    xs = np.arange(width)
    fractions = np.zeros((height, width), np.float32)
    for row, bottom in enumerate(reversed(range(height))):
        of_row = shapely.intersection(shape, shapely.box(0, bottom, width, bottom + 1))
        if of_row.is_empty:
            continue
        shapely.prepare(of_row)
        cells = shapely.box(xs, bottom, xs + 1, bottom + 1)
        is_whole = shapely.covers(of_row, cells)
        is_part = ~is_whole & shapely.intersects(of_row, cells)
        shares = shapely.area(shapely.intersection(of_row, cells[is_part]))
        fractions[row, is_whole], fractions[row, is_part] = 1, np.minimum(shares, 1)
    return fractions


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
