"""Lay a ranking's area on images: GDAL decides which pixels have their centre in a polygon."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pixel_gather.catalog.area import Area, Box, sides_of, sides_of_shape
from pixel_gather.errors import SourceError
from pixel_gather.model.source import Header
from pixel_gather.model.status import Status
from pixel_gather.model.window import Window, WindowRule
from pixel_gather.plan.locate_window import locate_window
from pixel_gather.ports import Projector
from pixel_gather.ranking.area_mask import Mask, ShapeOnImage, TwoSides, WholeWindow, two_windows

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

_LONLAT: Final = "EPSG:4326"
_LONGEST_EDGE: Final = 0.05
"""Degrees. Longer edges get positions in between, so that they stay straight on the map of the area."""


@dataclass(frozen=True, slots=True)
class AreaShapes:
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
        sides = _shown(sides_of_shape(self.area.geometry), lambda side: self._shape(side, header))
        return sides[0] if len(sides) == 1 else TwoSides((sides[0], sides[1]))

    def _box(self, box: Box, header: Header) -> ShapeOnImage:
        sides = _shown(sides_of(box), lambda side: WholeWindow(self._window(side, header)))
        return sides[0] if len(sides) == 1 else two_windows(sides[0], sides[1])

    def _window(self, box: Box, header: Header) -> Window:
        """Return the pixels that a box touches. Refuses images that are not placed."""
        return locate_window(WindowRule(bounds=box, crs=_LONLAT), header, projector=self.projector)

    def _shape(self, geometry: "BaseGeometry", header: Header) -> ShapeOnImage:
        import shapely  # noqa: PLC0415 # a ranking by box needs none of it

        self._window(geometry.bounds, header)
        transform = header.transform
        assert transform is not None  # noqa: S101 # refused above

        def to_pixels(positions: Any) -> Any:
            xs, ys = self.projector.points(
                positions[:, 0].tolist(),
                positions[:, 1].tolist(),
                source_crs=_LONLAT,
                target_crs=header.crs or _LONLAT,
            )
            cols, rows = transform.colrow(np.asarray(xs), np.asarray(ys))  # type: ignore[arg-type] # takes arrays, too
            return np.stack([cols, rows], axis=1)

        dense = shapely.segmentize(geometry, _LONGEST_EDGE)
        in_pixels = shapely.transform(dense, to_pixels)
        if not all(map(math.isfinite, in_pixels.bounds)):
            raise SourceError(
                "the area's coordinates do not exist in its CRS", href=header.href, status=Status.OUTSIDE
            )
        west, north, east, south = in_pixels.bounds
        window = Window(
            col_off=math.floor(west),
            row_off=math.floor(north),
            width=max(math.ceil(east) - math.floor(west), 1),
            height=max(math.ceil(south) - math.floor(north), 1),
        )
        if window.clipped(width=header.width, height=header.height) is None:
            raise SourceError("the area lies outside of it", href=header.href, status=Status.OUTSIDE)
        return _Polygon(window, float(in_pixels.area), in_pixels.__geo_interface__)


def _shown[Side, Laid](sides: Sequence[Side], lay: Callable[[Side], Laid]) -> list[Laid]:
    """Lay the sides of an area across 180 degrees on an image. Return those that the image shows.

    Raises:
        SourceError: It shows none of them.
    """
    shown: list[Laid] = []
    for side in sides:
        try:
            shown.append(lay(side))
        except SourceError as error:
            if error.status is not Status.OUTSIDE:
                raise
            outside = error
    if not shown:
        raise outside
    return shown


@dataclass(frozen=True, slots=True)
class _Polygon:
    """A polygon in the pixels of one image."""

    window: Window
    n_pixels: float
    geometry: Any
    """As GeoJSON, in columns and rows."""

    def mask(self, part: Window) -> Mask:
        """Return for a part of the image which pixels have their centre in the polygon, (y, x)."""
        from rasterio.features import rasterize  # noqa: PLC0415 # 0.4 s
        from rasterio.transform import Affine  # noqa: PLC0415 # as above

        found = rasterize(
            [self.geometry],
            out_shape=(part.height, part.width),
            transform=Affine.translation(part.col_off, part.row_off),
            dtype="uint8",
        )
        return np.asarray(found, np.bool_)
