"""Locate the window on each source: from a rule and a header to pixels.

The typical header sets the size of the window. On sources with the same grid the window has the same
position. On other sources it is located again. Pure except for the projector.
"""

import math
from typing import Final

from msgspec import Struct

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import TileIndex, Transform, Window, WindowRule
from pixel_gather.core.ports import Projector

_EDGE_SLACK: Final = 1e-6
"""A box that overlaps a pixel by less than this share does not include it, because of rounding. A point that
lies on an edge up to this share belongs to the pixel on the right of it, or below."""


class Grid(Struct, frozen=True, kw_only=True):
    """The pixel grid of one source: size, georeference, tiling."""

    width: int
    height: int
    transform: Transform | None
    crs: str | None
    tile_width: int
    tile_height: int

    @classmethod
    def of(cls, header: Header) -> "Grid":
        """Return the grid of a source."""
        return cls(
            width=header.width,
            height=header.height,
            transform=header.transform,
            crs=header.crs,
            tile_width=header.tile_width,
            tile_height=header.tile_height,
        )

    def is_same_grid_as(self, other: "Grid") -> bool:
        """Return whether each pixel (column, row) has the same position on the map in both grids."""
        if (self.width, self.height, self.crs) != (other.width, other.height, other.crs):
            return False
        if self.transform is None or other.transform is None:
            return self.transform is other.transform
        return self.transform.aligns_with(other.transform, width=self.width, height=self.height)


class Placement(Struct, frozen=True, kw_only=True):
    """Position of one window's pixels on the map."""

    width: int
    height: int
    transform: Transform | None
    """The window's transform; None if its source has no georeference."""

    crs: str | None
    col_off: int
    row_off: int

    @classmethod
    def on(cls, grid: Grid, window: Window) -> "Placement":
        """Return the position of a window on a grid."""
        return cls(
            width=window.width,
            height=window.height,
            transform=grid.transform and grid.transform.shifted(window.col_off, window.row_off),
            crs=grid.crs,
            col_off=window.col_off,
            row_off=window.row_off,
        )

    def covers_same_pixels_as(self, other: "Placement") -> bool:
        """Return whether two windows of the same size cover the same pixels of the map.

        Without a georeference, they must be the same pixels of their rasters.
        """
        if self.crs != other.crs:
            return False
        if self.transform is None or other.transform is None:
            same_pixels = (self.col_off, self.row_off) == (other.col_off, other.row_off)
            return self.transform is other.transform and same_pixels
        return self.transform.aligns_with(other.transform, width=self.width, height=self.height)


def locate_window(
    rule: WindowRule, header: Header, *, projector: Projector, size: tuple[int, int] | None = None
) -> Window:
    """Locate the rule's window on a source.

    Args:
        rule: The wanted window.
        header: The header of the source or of its overview.
        projector: For boxes and points in another CRS.
        size: (width, height) that the window must have; None for its natural size. The natural size of
            a tile is clipped to the raster, like GDAL's block windows.

    Raises:
        SourceError: The source has no georeference, or the window lies outside of it.
    """
    if rule.pixels is not None:
        col_off, row_off, width, height = rule.pixels
        window = Window(col_off=col_off, row_off=row_off, width=width, height=height)
    elif rule.bounds is not None or rule.point is not None:
        window = _window_on_map(rule, header, projector)
    else:
        window = _tile_window(rule, header)
    if size is not None:
        window = Window(col_off=window.col_off, row_off=window.row_off, width=size[0], height=size[1])
    if window.clipped(width=header.width, height=header.height) is None:
        raise SourceError(_why_outside(rule, window, header), href=header.href, status=Status.OUTSIDE)
    return window


def _why_outside(rule: WindowRule, window: Window, header: Header) -> str:
    outside = f"lies outside its {header.width} x {header.height} pixels"
    tile = rule.tile
    if tile is None:
        return (
            f"the window (columns {window.col_off} to {window.col_stop}, rows {window.row_off} to "
            f"{window.row_stop}) {outside}"
        )
    cols, rows = -(-header.width // header.tile_width), -(-header.height // header.tile_height)
    return (
        f"the tile in column {tile.column}, row {tile.row} {outside}: the image has tiles in columns 0 to "
        f"{cols - 1} and rows 0 to {rows - 1}, of {header.tile_width} x {header.tile_height} pixels"
    )


def locate_like(
    rule: WindowRule, header: Header, *, grid: Grid, window: Window, projector: Projector
) -> Window:
    """Locate a window of one grid on another source.

    Raises:
        SourceError: As in `locate_window`. Also with status unlike, if a tile is wanted and the source's
            tiles have another size on another grid. The same tile would be another area.
    """
    if grid.is_same_grid_as(Grid.of(header)):
        return window
    is_tile = rule.tile is not None or rule.is_centre
    if is_tile and (header.tile_width, header.tile_height) != (grid.tile_width, grid.tile_height):
        raise SourceError(
            f"its tiles are {header.tile_width} x {header.tile_height}, the cube's are "
            f"{grid.tile_width} x {grid.tile_height}, on another grid",
            href=header.href,
            status=Status.UNLIKE,
        )
    return locate_window(rule, header, projector=projector, size=(window.width, window.height))


def _tile_window(rule: WindowRule, header: Header) -> Window:
    width, height = header.tile_width, header.tile_height
    tile = rule.tile or TileIndex(column=header.width // 2 // width, row=header.height // 2 // height)
    whole = Window(col_off=tile.column * width, row_off=tile.row * height, width=width, height=height)
    return whole.clipped(width=header.width, height=header.height) or whole


def _window_on_map(rule: WindowRule, header: Header, projector: Projector) -> Window:
    transform = header.transform
    if transform is None or not transform.is_usable:
        raise _error_of_place(header, "has no geotransform; ground control points and RPCs are not used")
    if header.crs is None and rule.crs is not None:
        raise _error_of_place(
            header,
            f"has no CRS to find {rule.crs} coordinates in",
            hint=", or write coordinates of its own, with crs: source",
        )
    return window_on_lattice(rule, transform, header.crs, href=header.href, projector=projector)


def window_on_lattice(
    rule: WindowRule, transform: Transform, crs: str | None, *, href: str, projector: Projector
) -> Window:
    """Locate a box or a point on pixels that go on without an end.

    Args:
        rule: The wanted window.
        transform: Of the pixels.
        crs: Their CRS.
        href: Whose pixels they are, for errors.
        projector: For boxes and points in another CRS.

    Raises:
        SourceError: The window has no place in that CRS.
    """
    if rule.point is not None:
        x, y = rule.point
        if rule.crs is not None and crs is not None and rule.crs != crs:
            (x,), (y,) = projector.points([x], [y], source_crs=rule.crs, target_crs=crs)
        col, row = transform.colrow(x, y)
        if not (math.isfinite(col) and math.isfinite(row)):
            raise _beyond_crs(href)
        width, height = rule.size
        return Window(
            col_off=math.floor(col + _EDGE_SLACK) - width // 2,
            row_off=math.floor(row + _EDGE_SLACK) - height // 2,
            width=width,
            height=height,
        )
    assert rule.bounds is not None  # noqa: S101 # the rule has exactly one kind
    bounds = rule.bounds
    if rule.crs is not None and crs is not None and rule.crs != crs:
        bounds = projector.bounds(bounds, source_crs=rule.crs, target_crs=crs)
    return _window_touched(bounds, transform, href)


def _window_touched(bounds: tuple[float, float, float, float], transform: Transform, href: str) -> Window:
    west, south, east, north = bounds
    corners = [transform.colrow(x, y) for x in (west, east) for y in (south, north)]
    if not all(math.isfinite(value) for corner in corners for value in corner):
        raise _beyond_crs(href)
    cols, rows = [col for col, _ in corners], [row for _, row in corners]
    col_off, row_off = math.floor(min(cols) + _EDGE_SLACK), math.floor(min(rows) + _EDGE_SLACK)
    return Window(
        col_off=col_off,
        row_off=row_off,
        width=max(math.ceil(max(cols) - _EDGE_SLACK) - col_off, 1),
        height=max(math.ceil(max(rows) - _EDGE_SLACK) - row_off, 1),
    )


def _error_of_place(header: Header, why: str, *, hint: str = "") -> SourceError:
    return SourceError(
        f"{why}: ask for a tile or a pixel window instead{hint}", href=header.href, status=Status.UNSUPPORTED
    )


def _beyond_crs(href: str) -> SourceError:
    return SourceError("the window's coordinates do not exist in its CRS", href=href, status=Status.OUTSIDE)
