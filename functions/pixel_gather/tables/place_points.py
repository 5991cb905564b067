"""Where points lie on images. Images of one grid share the answer."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.kept_values import KeptValues
from pixel_gather.core.model.source import Header
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.locate_window import Grid
from pixel_gather.core.plan.longitudes import turn_longitudes
from pixel_gather.io.crs import RasterioProjector
from pixel_gather.tables.features import Features, Floats, Integers

_MOST_KEPT_NBYTES: Final = 256 << 20
_TOGETHER: Final = 1_000_000
"""Points that are transformed at a time. Each takes some 150 bytes meanwhile, and 24 when it is placed."""

_MARGIN: Final = 0.02
"""Of the image's box in the CRS of the points, on each side: edges are curved there."""


class Placed(Struct, frozen=True):
    """The points on an image."""

    members: Integers
    """Which features they are, ascending."""

    cols: Floats
    """Position on the image, in pixels; 0 is the left edge of the first one."""

    rows: Floats


@dataclass(slots=True)
class PointPlaces:
    """Finds the points on images, and keeps what it has found for the latest grids."""

    features: Features
    projector: RasterioProjector
    _kept: KeptValues[Grid, Placed] = field(default_factory=lambda: KeptValues(_MOST_KEPT_NBYTES))

    def on(self, header: Header) -> Placed:
        """Return the points on an image. Those on its right or lower edge are outside, as in rasterio.

        Raises:
            SourceError: It has no georeference, or PROJ finds no way to its CRS.
        """
        grid = Grid.of(header)
        found = self._kept.get(grid)
        if found is None:
            found = self._found(header)
            self._kept.put(grid, found, found.members.nbytes * 3)
        return found

    def parts_on(self, header: Header) -> Iterator[Placed]:
        """Yield the points on an image, some at a time.

        Raises:
            SourceError: As from `on`.
        """
        members = self._near(header)
        for start in range(0, len(members) or 1, _TOGETHER):
            some = members[start : start + _TOGETHER]
            cols, rows = self.positions(self.features.xs[some], self.features.ys[some], header)
            with np.errstate(invalid="ignore"):
                inside = (cols >= 0) & (cols < header.width) & (rows >= 0) & (rows < header.height)
            yield Placed(some[inside], cols[inside], rows[inside])

    def _found(self, header: Header) -> Placed:
        parts = ((each.members, each.cols, each.rows) for each in self.parts_on(header))
        return Placed(*map(np.concatenate, zip(*parts, strict=True)))

    def positions(self, xs: Floats, ys: Floats, header: Header) -> tuple[Floats, Floats]:
        """Return positions in pixels of points in the CRS of the features; not finite where there is none.

        The equations are solved as rasterio solves them, so that a point on an edge gets the same pixel.

        Raises:
            SourceError: The image has no georeference, or PROJ finds no way to its CRS.
        """
        transform = header.transform
        if transform is None or not transform.is_usable or header.crs is None:
            what = "CRS" if header.crs is None else "geotransform"
            raise SourceError(f"it has no {what}", href=header.href, status=Status.UNSUPPORTED)
        try:
            xs, ys = self.projector.point_arrays(xs, ys, source_crs=self.features.crs, target_crs=header.crs)
        except RequestError as error:
            raise SourceError(str(error), href=header.href, status=Status.UNSUPPORTED) from error
        xs = turn_longitudes(xs, Grid.of(header), self.projector, ends_at_left=True)
        a, b, c, d, e, f = transform
        matrix = np.array([[a, b, c], [d, e, f], [0, 0, 1]])
        with np.errstate(all="ignore"):
            cols, rows, _ = np.linalg.solve(matrix, np.stack([xs, ys, np.ones(len(xs))]))
        return cols, rows

    def _near(self, header: Header) -> Integers:
        """Return the points that may lie on an image: those in its box, and all if it has none there."""
        xs, ys = self.features.xs, self.features.ys
        transform = header.transform
        if transform is None or header.crs is None:
            return np.zeros(0, np.int64) if len(xs) == 0 else np.arange(1)
        box = transform.bounds(header.width, header.height)
        try:
            west, south, east, north = self.projector.bounds(
                box, source_crs=header.crs, target_crs=self.features.crs
            )
        except RequestError:
            return np.flatnonzero(~self.features.is_empty)
        if not np.isfinite([west, south, east, north]).all():
            return np.flatnonzero(~self.features.is_empty)
        across, up = (east - west) % 360 if west > east else east - west, north - south
        west, east = west - _MARGIN * across, east + _MARGIN * across
        south, north = south - _MARGIN * up, north + _MARGIN * up
        in_rows = (ys >= south) & (ys <= north)
        if not self.projector.counts_degrees(self.features.crs):
            return np.flatnonzero(in_rows & (xs >= west) & (xs <= east))
        turned = (xs - west) % 360  # the image may cross the antimeridian, or count from 0 to 360
        return np.flatnonzero(in_rows & (turned <= (east - west) % 360 if east - west < 360 else in_rows))  # noqa: PLR2004 # a turn
