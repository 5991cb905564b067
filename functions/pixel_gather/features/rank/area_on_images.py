"""Lay a ranking's area on images: GDAL decides which pixels have their centre in a polygon."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.area import Area, Box, sides_of, sides_of_shape
from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.source import Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Transform, Window, WindowRule
from pixel_gather.core.plan.locate_window import Grid, locate_window
from pixel_gather.core.plan.longitudes import ends_of, first_longitude
from pixel_gather.core.ports import Projector
from pixel_gather.features.rank.grid import Positions, overlap
from pixel_gather.tables.shapes import rasterise

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

type Mask = np.ndarray[Any, np.dtype[np.bool_]]
type ShapeOnImage = "WholeWindow | PolygonOnImage"
"""A shape on one image at full resolution."""

_LONLAT: Final = "EPSG:4326"
_LONGEST_EDGE: Final = 0.05
"""Degrees. Longer edges get positions in between, so that they stay straight on the map of the area."""


_MOST_PARTS: Final = 4
"""Parts of an overview's pixel, across and down, that tell which share of it lies in a polygon."""


class AreaShapes(Struct, frozen=True):
    """The area of one ranking, on any image."""

    area: Area | None
    projector: Projector

    def on(self, header: Header) -> ShapeOnImage:
        """Return the area on one image.

        Raises:
            SourceError: The image is not placed on the map, or the area is not on it.
            RequestError: PROJ finds no way to the image's CRS.
        """
        if self.area is None:
            return WholeWindow(Window(col_off=0, row_off=0, width=header.width, height=header.height))
        if self.area.geometry is None:
            return self._box(self.area.box, header)
        shapes = sides_of_shape(self.area.geometry, first=self._first(header))
        return _lay_visible_sides(shapes, lambda side: self._shape(side, header))

    def _box(self, box: Box, header: Header) -> ShapeOnImage:
        """Return a box: its sides follow parallels and meridians, which may be turned on the image."""
        import shapely  # noqa: PLC0415 # a ranking of whole scenes needs none of it

        def lay(side: Box) -> ShapeOnImage:
            window = self._window(side, header)
            polygon = self._lay_shape(shapely.box(*side), header)
            # A box that is too large for the image's CRS holds all that the image shows
            return WholeWindow(window) if polygon is None else polygon

        return _lay_visible_sides(sides_of(box, first=self._first(header)), lay)

    def _first(self, header: Header) -> float:
        """Return the least longitude that parts of the area get: -180, as on most images, or such as 0."""
        if header.transform is None or not header.transform.is_usable:
            return -180.0  # it will be refused
        west, east = ends_of(Grid.of(header))
        first = None
        if west < -180 or east > 180:  # noqa: PLR2004 # half a turn
            first = first_longitude(Grid.of(header), self.projector)
        return -180.0 if first is None else first

    def _window(self, box: Box, header: Header) -> Window:
        """Return the pixels that a box touches. Refuses images that are not placed."""
        return locate_window(WindowRule(bounds=box, crs=_LONLAT), header, projector=self.projector)

    def _shape(self, geometry: "BaseGeometry", header: Header) -> ShapeOnImage:
        self._window(geometry.bounds, header)
        polygon = self._lay_shape(geometry, header)
        if polygon is None:
            raise SourceError(
                "the area's coordinates do not exist in its CRS", href=header.href, status=Status.OUTSIDE
            )
        return polygon

    def _lay_shape(self, geometry: "BaseGeometry", header: Header) -> "PolygonOnImage | None":
        """Return a shape in an image's pixels; None if the image's CRS does not have all of it."""
        import shapely  # noqa: PLC0415 # a ranking of whole scenes needs none of it

        transform = header.transform
        assert transform is not None  # noqa: S101 # an image that is not placed was refused

        def to_pixels(positions: Any) -> Any:
            xs, ys = self.projector.points(
                positions[:, 0].tolist(),
                positions[:, 1].tolist(),
                source_crs=_LONLAT,
                target_crs=header.crs or _LONLAT,
            )
            cols, rows = transform.colrow(np.asarray(xs), np.asarray(ys))  # type: ignore[arg-type] # takes arrays, too
            return np.stack([cols, rows], axis=1)

        in_pixels = shapely.transform(shapely.segmentize(geometry, _LONGEST_EDGE), to_pixels)
        if not all(map(math.isfinite, in_pixels.bounds)):
            return None
        polygon = PolygonOnImage(in_pixels)
        if polygon.window.clipped(width=header.width, height=header.height) is None:
            raise SourceError("the area lies outside of it", href=header.href, status=Status.OUTSIDE)
        return polygon


def _lay_visible_sides[Side](sides: Sequence[Side], lay: Callable[[Side], ShapeOnImage]) -> ShapeOnImage:
    """Lay the sides of an area across 180 degrees on an image. Return what it shows of them, as one shape.

    Raises:
        SourceError: It shows none of them.
    """
    import shapely  # noqa: PLC0415 # a ranking of whole scenes needs none of it

    shown: list[ShapeOnImage] = []
    for side in sides:
        try:
            shown.append(lay(side))
        except SourceError as error:
            if error.status is not Status.OUTSIDE:
                raise
            outside = error
    if not shown:
        raise outside
    if len(shown) == 1:
        return shown[0]
    whole = shapely.union_all(shapely.make_valid([each.geometry for each in shown]))
    parts = shapely.get_parts(whole)
    return PolygonOnImage(shapely.multipolygons([part for part in parts if part.geom_type == "Polygon"]))


class WholeWindow(Struct, frozen=True):
    """A shape that is a window: the whole image, or a box."""

    window: Window
    """It may extend beyond the image."""

    @property
    def geometry(self) -> "BaseGeometry":
        """The window as a polygon, in columns and rows."""
        import shapely  # noqa: PLC0415 # as above

        window = self.window
        return shapely.box(window.col_off, window.row_off, window.col_stop, window.row_stop)

    def share_on(self, *, width: int, height: int) -> float:
        """Return which share of the window lies on an image of such a size."""
        return self.window.share_on(width=width, height=height)

    def mask(self, part: Window) -> Mask:
        """Return which pixels of a part of the image lie in the window, (y, x)."""
        found = np.zeros((part.height, part.width), np.bool_)
        rows = slice(max(self.window.row_off - part.row_off, 0), max(self.window.row_stop - part.row_off, 0))
        cols = slice(max(self.window.col_off - part.col_off, 0), max(self.window.col_stop - part.col_off, 0))
        found[rows, cols] = True
        return found

    def shares(self, cols: Positions, rows: Positions) -> Positions:
        """Return which share of each pixel of an overview lies in the window; see `PolygonOnImage.shares`."""
        down = overlap(rows, self.window.row_off, self.window.row_stop)
        across = overlap(cols, self.window.col_off, self.window.col_stop)
        return np.asarray(np.outer(down, across))


class PolygonOnImage(Struct, frozen=True):
    """One polygon or several, in the pixels of one image."""

    geometry: "BaseGeometry"
    """In columns and rows."""

    @property
    def window(self) -> Window:
        """The pixels that it touches. They may lie beyond the image."""
        west, north, east, south = self.geometry.bounds
        return Window(
            col_off=math.floor(west),
            row_off=math.floor(north),
            width=max(math.ceil(east) - math.floor(west), 1),
            height=max(math.ceil(south) - math.floor(north), 1),
        )

    def share_on(self, *, width: int, height: int) -> float:
        """Return which share of it lies on an image of such a size."""
        import shapely  # noqa: PLC0415 # as above

        if self.window.share_on(width=width, height=height) == 1:
            return 1.0
        inside = shapely.intersection(shapely.make_valid(self.geometry), shapely.box(0, 0, width, height))
        return min(float(inside.area / self.geometry.area), 1.0)

    def mask(self, part: Window) -> Mask:
        """Return for a part of the image which pixels have their centre in the polygon, (y, x)."""
        return self._rasterise((part.col_off, part.row_off), (1.0, 1.0), (part.height, part.width))

    def shares(self, cols: Positions, rows: Positions) -> Positions:
        """Return which share of each pixel of an overview lies in the polygon, (y, x).

        Args:
            cols: The edges of the overview's columns, in pixels of full resolution, evenly spaced.
            rows: As ``cols``.
        """
        across, down = (float(edges[1] - edges[0]) for edges in (cols, rows))
        n = min(math.ceil(max(across, down)), _MOST_PARTS)
        height, width = len(rows) - 1, len(cols) - 1
        found = self._rasterise((cols[0], rows[0]), (across / n, down / n), (height * n, width * n))
        return np.asarray(found.reshape(height, n, width, n).mean(axis=(1, 3)))

    def _rasterise(
        self, first: tuple[float, float], size: tuple[float, float], shape: tuple[int, int]
    ) -> Mask:
        """Return which cells of a grid have their centre in the polygon, (y, x)."""
        transform = Transform(a=size[0], b=0, c=first[0], d=0, e=size[1], f=first[1])
        return rasterise(self.geometry, shape, transform).astype(np.bool_)
