"""Windows of pixels, and their georeference: an affine transform and a CRS.

Rows count down and columns count right. A pixel's coordinates are those of its upper left corner, as in GDAL.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, Self

from msgspec import Struct


class Transform(NamedTuple):
    """Affine transform from (column, row) to (x, y). Coefficients are in the order of the affine package.

    ``x = a * col + b * row + c`` and ``y = d * col + e * row + f``, in units of the CRS.
    """

    a: float
    b: float
    c: float
    d: float
    e: float
    f: float

    @classmethod
    def from_gdal(cls, coefficients: Sequence[float]) -> Self:
        """Build from the six coefficients of GDAL's GeoTransform, in its order."""
        c, a, b, f, d, e = coefficients
        return cls(a, b, c, d, e, f)

    def to_gdal(self) -> tuple[float, float, float, float, float, float]:
        """Return the coefficients in the order of GDAL's GeoTransform."""
        return (self.c, self.a, self.b, self.f, self.d, self.e)

    def xy(self, col: float, row: float) -> tuple[float, float]:
        """Return the map coordinates of a pixel position; (0, 0) is the upper left corner."""
        return (self.a * col + self.b * row + self.c, self.d * col + self.e * row + self.f)

    def colrow(self, x: float, y: float) -> tuple[float, float]:
        """Return the fractional pixel position of map coordinates.

        Raises:
            ZeroDivisionError: The transform is degenerate.
        """
        determinant = self.a * self.e - self.b * self.d
        dx, dy = x - self.c, y - self.f
        return ((self.e * dx - self.b * dy) / determinant, (self.a * dy - self.d * dx) / determinant)

    def bounds(self, width: int, height: int) -> tuple[float, float, float, float]:
        """Return the least x, the least y, the largest x and the largest y of a raster of this size."""
        xs, ys = zip(*(self.xy(col, row) for col in (0, width) for row in (0, height)), strict=True)
        return min(xs), min(ys), max(xs), max(ys)

    def shifted(self, col_off: int, row_off: int) -> "Transform":
        """Return the transform of a window whose upper left pixel is (col_off, row_off)."""
        x, y = self.xy(col_off, row_off)
        return self._replace(c=x, f=y)

    def scaled(self, col_factor: float, row_factor: float) -> "Transform":
        """Return the transform of an overview whose pixels are larger by these factors."""
        return Transform(
            self.a * col_factor,
            self.b * row_factor,
            self.c,
            self.d * col_factor,
            self.e * row_factor,
            self.f,
        )

    @property
    def is_usable(self) -> bool:
        """Whether it is finite and invertible."""
        return all(map(math.isfinite, self)) and self.a * self.e - self.b * self.d != 0

    @property
    def is_rectilinear(self) -> bool:
        """Whether rows and columns run along the axes of the CRS."""
        return self.b == 0 and self.d == 0

    def aligns_with(self, other: "Transform", *, width: int, height: int) -> bool:
        """Whether the pixels of both grids coincide over a window, within a thousandth of a pixel."""
        tolerance = 1e-3 * min(math.hypot(self.a, self.d), math.hypot(self.b, self.e))
        corners = ((0, 0), (width, 0), (0, height), (width, height))
        return all(math.dist(self.xy(col, row), other.xy(col, row)) <= tolerance for col, row in corners)


class DescribedCrs(Struct, frozen=True, kw_only=True):
    """Description of a CRS, as the cube stores it. PROJ provides it."""

    wkt2: str
    """WKT 2 (2019)."""

    code: str | None
    """``AUTHORITY:CODE`` if that code describes the CRS exactly."""

    is_geographic: bool
    """Whether its axes are longitude and latitude."""


class Window(Struct, frozen=True, kw_only=True):
    """A rectangle of pixels. It may extend beyond the raster on any side."""

    col_off: int
    row_off: int
    width: int
    height: int

    def __post_init__(self) -> None:
        """Refuse a window without pixels."""
        if self.width < 1 or self.height < 1:
            raise ValueError(f"a window needs at least one pixel, not {self.width} x {self.height}")

    @property
    def col_stop(self) -> int:
        """First column to the right of the window."""
        return self.col_off + self.width

    @property
    def row_stop(self) -> int:
        """First row below the window."""
        return self.row_off + self.height

    def clipped(self, *, width: int, height: int) -> "Window | None":
        """Return the part that lies on a raster of this size, or None."""
        if self.col_off >= 0 and self.row_off >= 0 and self.col_stop <= width and self.row_stop <= height:
            return self
        col_off, row_off = max(self.col_off, 0), max(self.row_off, 0)
        col_stop, row_stop = min(self.col_stop, width), min(self.row_stop, height)
        if col_stop <= col_off or row_stop <= row_off:
            return None
        return Window(col_off=col_off, row_off=row_off, width=col_stop - col_off, height=row_stop - row_off)

    def share_on(self, *, width: int, height: int) -> float:
        """Return the share of its pixels that lies on a raster of this size, 0 to 1."""
        inside = self.clipped(width=width, height=height)
        return 0.0 if inside is None else inside.n_pixels / self.n_pixels

    @property
    def n_pixels(self) -> int:
        """Number of pixels of the whole window."""
        return self.width * self.height

    def rows(self, start: int, stop: int) -> "Window":
        """Return the rows [start, stop) of this window, counted from its own top."""
        return Window(
            col_off=self.col_off, row_off=self.row_off + start, width=self.width, height=stop - start
        )


class TileIndex(Struct, frozen=True, kw_only=True, array_like=True):
    """Which tile of a source's own tiling, counted from 0. Plans store it as [row, column]."""

    row: int
    column: int


class WindowRule(Struct, frozen=True, kw_only=True):
    """The wanted window, before it is located on a source.

    Exactly one of ``tile``, ``is_centre``, ``pixels``, ``bounds`` and ``point`` is set.
    """

    tile: TileIndex | None = None
    is_centre: bool = False
    """Whether the tile is wanted that contains the pixel (height // 2, width // 2)."""

    pixels: tuple[int, int, int, int] | None = None
    """(col_off, row_off, width, height)."""

    bounds: tuple[float, float, float, float] | None = None
    """(west, south, east, north) in ``crs``. Every pixel that it touches is wanted."""

    point: tuple[float, float] | None = None
    """(x, y) in ``crs``. The pixel that contains it is the window's centre."""

    size: tuple[int, int] = (1, 1)
    """(width, height) of the window around ``point``."""

    crs: str | None = None
    """CRS of ``bounds`` and ``point``. None for the source's own CRS."""

    @property
    def middle(self) -> tuple[float, float] | None:
        """(x, y) of the middle in ``crs``; None for a window that is named by tiles or pixels."""
        if self.bounds is None:
            return self.point
        west, south, east, north = self.bounds
        return (west + east) / 2, (south + north) / 2
