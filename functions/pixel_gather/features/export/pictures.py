"""Draws the rows of a cube: one picture for each row, all with the same stretch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pixel_gather.core.errors import RequestError
from pixel_gather.features.export.cube_rows import CubeRows, RowPixels
from pixel_gather.io.pictures.stretch import Stretch, common_stretches

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

_MOST_PX: Final = 1024
"""The longest side of a picture. Larger windows are thinned, one pixel in two, three, ..."""

_FEWEST_PX: Final = 320
"""Smaller windows are enlarged by whole numbers until the longest side has this length."""

_SAMPLE_ROWS: Final = 64
_LABEL_PX: Final = 18
_NO_DATA: Final = (214, 214, 214)
_N_COLOURS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """How rows become pictures."""

    rows: CubeRows
    """Its measurements are one, or red, green and blue."""

    stretches: tuple[Stretch, ...]
    """The values of black and white, for each measurement."""

    colormap: str | None
    """Name of a colour map of matplotlib; None for greys."""

    step: int
    """A picture has one in so many pixels of the window, along each side."""

    @classmethod
    def of(cls, rows: CubeRows, *, limits: tuple[float, float] | None, colormap: str | None) -> "Drawing":
        """Choose the stretch: one for all rows, so that pictures can be compared.

        Args:
            rows: What is drawn: one measurement, or three.
            limits: Values of black and white; None for percentiles of up to 64 rows; see `common_stretches`.
            colormap: A colour map of matplotlib, for one measurement.

        Raises:
            RequestError: There is no such colour map, or neither one nor three measurements are chosen.
        """
        n = len(rows.measurements)
        if n not in (1, _N_COLOURS):
            raise RequestError(
                f"the cube has {n} measurements; choose one by its name, or three for red, green and blue",
                field="measurement",
            )
        if colormap is not None and n != 1:
            raise RequestError("a colour map is for one measurement", field="colormap")
        _colours(colormap)
        step = ceil(max(rows.shape) / _MOST_PX)
        stretches = _stretches(rows, step) if limits is None else (_fixed(*limits),) * n
        return cls(rows=rows, stretches=stretches, colormap=colormap, step=step)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of a picture, its label included."""
        height, width = (ceil(side / self.step) * self._zoom for side in self.rows.shape)
        return width, height + _LABEL_PX

    def pictures(self) -> Iterator["Picture"]:
        """Yield one picture for each row, in order, with its time below."""
        for row, name in zip(self.rows.read(step=self.step), self.rows.names(), strict=True):
            yield self._labelled(self._coloured(row), name)

    @property
    def _zoom(self) -> int:
        longest = ceil(max(self.rows.shape) / self.step)
        return max(1, _FEWEST_PX // longest)

    def _coloured(self, row: RowPixels) -> "Picture":
        from PIL import Image  # noqa: PLC0415 # an extra

        bands = [stretch.applied(pixels) for stretch, pixels in zip(self.stretches, row.pixels, strict=True)]
        colours = _colours(self.colormap)[bands[0]] if len(bands) == 1 else np.stack(bands, axis=-1)
        colours[~np.logical_and.reduce(row.is_valid)] = _NO_DATA
        return Image.fromarray(np.repeat(np.repeat(colours, self._zoom, axis=0), self._zoom, axis=1))

    def _labelled(self, picture: "Picture", text: str) -> "Picture":
        from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415 # an extra

        whole = Image.new("RGB", self.size, "white")
        whole.paste(picture, (0, 0))
        font = ImageFont.load_default(size=_LABEL_PX - 5)
        ImageDraw.Draw(whole).text((2, picture.height + 1), text, fill="black", font=font)
        return whole


def _stretches(rows: CubeRows, step: int) -> tuple[Stretch, ...]:
    """Return the stretch of each measurement, from rows that lie evenly among all."""
    read = rows.of_read_sources()
    some = replace(read, rows=read.rows[:: ceil(len(read.rows) / _SAMPLE_ROWS)])
    sample = list(some.read(step=step * max(1, ceil(max(rows.shape) / step / 256))))
    bands = range(len(rows.measurements))
    return common_stretches(
        [np.stack([row.pixels[band] for row in sample]) for band in bands],
        [np.stack([row.is_valid[band] for row in sample]) for band in bands],
    )


def _fixed(low: float, high: float) -> Stretch:
    if not low < high:
        raise RequestError(f"black ({low}) must be less than white ({high})", field="stretch")
    return Stretch(low=low, high=high, words="as given")


def _colours(colormap: str | None) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    """Return the colour of each grey, shape (256, 3)."""
    if colormap is None:
        return np.repeat(np.arange(256, dtype="uint8")[:, None], _N_COLOURS, axis=1)
    from matplotlib import colormaps  # noqa: PLC0415 # an extra, and 0.2 s

    try:
        found = colormaps[colormap]
    except KeyError as error:
        raise RequestError(
            f"there is no colour map {colormap!r}; take viridis, cividis, magma or another of matplotlib's",
            field="colormap",
        ) from error
    colours: np.ndarray[Any, np.dtype[np.uint8]] = found(np.arange(256), bytes=True)[:, :_N_COLOURS].astype(
        "uint8"
    )
    return colours


def sheet_of(pictures: Sequence["Picture"]) -> "Picture":
    """Return one picture with all of them, in about as many lines as columns."""
    from PIL import Image  # noqa: PLC0415 # an extra

    width, height = pictures[0].size
    n_columns = ceil(len(pictures) ** 0.5 * (height / width) ** 0.5)
    gap = 4
    n_lines = ceil(len(pictures) / n_columns)
    sheet = Image.new("RGB", (n_columns * (width + gap) - gap, n_lines * (height + gap) - gap), "white")
    for index, picture in enumerate(pictures):
        sheet.paste(picture, (index % n_columns * (width + gap), index // n_columns * (height + gap)))
    return sheet
