"""Which pixels of an image make the value of a point, and how they are combined. Pure."""

from typing import Final, Literal

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.source import Header
from pixel_gather.core.plan.locate_window import Grid
from pixel_gather.tables.expression import Pixels
from pixel_gather.tables.features import Floats, Integers
from pixel_gather.tables.open_scene import PixelsAt, floored, lookup_pixels
from pixel_gather.tables.place_points import Placed, PointPlaces
from pixel_gather.tables.read_bands import Mask
from pixel_gather.tables.sample_at_pixels import cut_runs

_LARGEST_SQUARE: Final = 101


class Method(Struct, frozen=True, kw_only=True):
    """How a point gets its value."""

    kind: Literal["nearest", "bilinear"] = "nearest"
    square: int = 1
    """Pixels along the side of a square around the point's own; their mean is the value."""

    @classmethod
    def of(cls, method: str, square: int) -> "Method":
        """Check a method.

        Raises:
            RequestError: There is no such method, or the square has no middle.
        """
        if method not in ("nearest", "bilinear"):
            raise RequestError(f"it is {method!r}; write nearest or bilinear", field="method")
        if (
            isinstance(square, bool)
            or not isinstance(square, int)
            or square not in range(1, _LARGEST_SQUARE + 1, 2)
        ):
            raise RequestError(
                f"it is {square!r}; write an odd number up to {_LARGEST_SQUARE}", field="square"
            )
        if square > 1 and method == "bilinear":
            raise RequestError("a square has no bilinear: give one of them", field="square")
        return cls(kind="bilinear" if method == "bilinear" else "nearest", square=square)

    @property
    def n_pixels(self) -> int:
        """Pixels of one point."""
        return 4 if self.kind == "bilinear" else self.square**2


class PointPixels(Struct, frozen=True, kw_only=True):
    """The pixels of some points, on any image of a scene: a `pixel_gather.tables.open_scene.Positions`."""

    method: Method
    places: PointPlaces
    finest: Header
    """The image that the points were found on."""

    placed: Placed
    """The points, on that image."""

    is_of_mask: bool = False
    """Whether each pixel is the one that holds the point: classes are not interpolated."""

    def on(self, header: Header) -> PixelsAt:
        """Return the pixels of an image: ``n_pixels`` for each point, one point after the other.

        Raises:
            SourceError: The points cannot be found on it, or its pixels do not fit those of the finest band.
        """
        cols, rows = self._pixels(header)
        which = np.flatnonzero(_lie_on(header, cols, rows))
        return PixelsAt(which, cut_runs(cols[which], rows[which], header))

    def pixels_on(self, header: Header) -> tuple[Integers, Integers]:
        """Return columns and rows of the pixels that lie on an image.

        Raises:
            SourceError: As from `on`.
        """
        cols, rows = self._pixels(header)
        inside = _lie_on(header, cols, rows)
        return cols[inside], rows[inside]

    def weights(self, header: Header) -> Floats | None:
        """Return the bilinear weight of each pixel, (point, pixel); None for equal ones."""
        if self.method.kind == "nearest":
            return None
        cols, rows = self._positions(header)
        right, below = (cols - 0.5) % 1, (rows - 0.5) % 1
        return np.stack(
            [(1 - right) * (1 - below), right * (1 - below), (1 - right) * below, right * below], axis=1
        )

    def _pixels(self, header: Header) -> tuple[Integers, Integers]:
        if self.method.square > 1:
            return self._square(header)
        cols, rows = self._positions(header)
        if self.is_of_mask or self.method.kind == "nearest":
            n = self.method.n_pixels
            return np.repeat(floored(cols), n), np.repeat(floored(rows), n)
        left, top = floored(cols - 0.5), floored(rows - 0.5)
        return (
            np.stack([left, left + 1, left, left + 1], axis=1).ravel(),
            np.stack([top, top, top + 1, top + 1], axis=1).ravel(),
        )

    def _positions(self, header: Header) -> tuple[Floats, Floats]:
        """Return where the points are on an image, in pixels."""
        if Grid.of(header) == Grid.of(self.finest):
            return self.placed.cols, self.placed.rows
        features = self.places.features
        members = self.placed.members
        return self.places.positions(features.xs[members], features.ys[members], header)

    def _square(self, header: Header) -> tuple[Integers, Integers]:
        """Return the pixels that hold the middles of the finest band's pixels around each point."""
        half = self.method.square // 2
        steps = np.arange(-half, half + 1)
        down, across = (each.ravel() for each in np.meshgrid(steps, steps, indexing="ij"))
        cols = (floored(self.placed.cols)[:, None] + across).ravel()
        rows = (floored(self.placed.rows)[:, None] + down).ravel()
        return lookup_pixels(cols, rows, of=self.finest, on=header)


def _lie_on(header: Header, cols: Integers, rows: Integers) -> Mask:
    return (cols >= 0) & (cols < header.width) & (rows >= 0) & (rows < header.height)


def combine(values: Pixels, weights: Floats | None) -> tuple[Floats, Floats]:
    """Return the weighted mean of each point's pixels, and the share of the weight that has a value.

    Args:
        values: (point, pixel); NaN where a pixel does not count.
        weights: (point, pixel), adding up to 1 for each point; None for equal ones.
    """
    if values.shape[1] == 1:
        return values[:, 0].astype(np.float64), np.isfinite(values[:, 0]).astype(np.float64)
    counts: Mask = np.isfinite(values)
    shares = np.where(counts, 1 / values.shape[1] if weights is None else weights, 0.0)
    share = shares.sum(axis=1)
    with np.errstate(all="ignore"):
        mean = np.where(counts, values * shares, 0.0).sum(axis=1) / share
    return np.where(share > 0, mean, np.nan), share
