"""Draws the rows of a cube: one picture for each row, all with the same stretch."""

from collections.abc import Iterator, Sequence
from copy import replace
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.band_meaning import has_classes
from pixel_gather.core.results.report_content import ArrayScaling, Image, Mask
from pixel_gather.features.export.cube_rows import CubeRows, RowPixels, open_array
from pixel_gather.features.export.picture_style import PictureStyle
from pixel_gather.io.pictures.classes import PixelClass, count_classes, legend_of, painted_classes
from pixel_gather.io.pictures.stretch import Stretch, common_stretches
from pixel_gather.io.pictures.theme import DARK, LIGHT, Theme

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

_MOST_PX: Final = 1024
"""The longest side of a picture. Larger windows are thinned, one pixel in two, three, ..."""

_FEWEST_PX: Final = 320
"""Smaller windows are enlarged by whole numbers until the longest side has this length."""

_SAMPLE_ROWS: Final = 64
_LINE_PX: Final = 18
"""Height of a line of the caption; more for large pictures."""

_LINES_ABREAST: Final = 40
"""So many lines of the caption would be as high as a large picture."""

_LEAST_WIDTH_PX: Final = 240
"""A narrower picture has room beside it, for its caption."""

_LEAST_FONT: Final = 11
_CHANNELS: Final = ("#ff0000", "#00ff00", "#0000ff")
_GREYS: Final = {LIGHT: "#d6d6d6", DARK: "#3b434d"}
"""Of pixels without data."""

_NO_DATA: Final = "no data"
_N_COLOURS: Final = 3

type _Entry = tuple[str, str]
"""Colour and text of the legend."""


class Drawing(Struct, frozen=True, kw_only=True):
    """How rows become pictures."""

    rows: CubeRows
    """Its measurements are one, or red, green and blue."""

    stretches: tuple[Stretch, ...]
    """The values of black and white, for each measurement. None of classes."""

    scalings: tuple[ArrayScaling, ...]
    """What the stored values of each measurement mean."""

    classes: tuple[PixelClass, ...]
    """The classes of the one measurement, the most frequent first. Empty if its values are quantities."""

    style: PictureStyle
    title: str
    """Name of the cube, for the captions."""

    step: int
    """A picture has one in so many pixels of the window, along each side."""

    @classmethod
    def of(cls, rows: CubeRows, *, title: str, style: PictureStyle) -> "Drawing":
        """Choose the stretch: one for all rows, so that pictures can be compared. Classes have none.

        If the style has no stretch, `common_stretches` chooses it.

        Raises:
            RequestError: There is no such colour map. Or the measurements are neither one nor three, or one
                of three has classes.
        """
        n = len(rows.measurements)
        if n not in (1, _N_COLOURS):
            raise RequestError(
                f"the cube has {n} measurements, {', '.join(rows.measurements)}; choose one, or three for "
                "red, green and blue",
                field="measurement",
            )
        of_classes = [name for name in rows.measurements if has_classes(name, rows.meaning(name))]
        if n != 1 and of_classes and style.stretch is None:
            raise RequestError(
                f"{of_classes[0]} has classes, which are no colour: choose one of "
                f"{', '.join(rows.measurements)}, or three quantities for red, green and blue",
                field="measurement",
            )
        if style.colormap is not None and n != 1:
            raise RequestError("a colour map is for one measurement", field="colormap")
        _colours(style.colormap)
        step = ceil(max(rows.shape) / _MOST_PX)
        sample = _sample_rows(rows, step) if style.stretch is None else []
        classes = _classes(rows, sample[0]) if n == 1 and sample and style.colormap is None else ()
        if style.stretch is not None:
            low, high = style.stretch
            stretches = (Stretch(low=low, high=high, words="as given"),) * n
        else:
            stretches = () if classes else common_stretches(*zip(*sample, strict=True))
        return cls(
            rows=rows,
            title=title,
            stretches=stretches,
            scalings=tuple(
                ArrayScaling.of_attributes(open_array(rows.group, name).attrs) for name in rows.measurements
            ),
            classes=classes,
            style=style,
            step=step,
        )

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of a picture, its caption included."""
        width, height = self._picture_size
        return max(width, _LEAST_WIDTH_PX), height + (1 + len(self._legend_lines)) * self._line_px

    def pictures(self) -> Iterator["Picture"]:
        """Yield one picture for each row, in order of time. Below are its time and what its colours mean."""
        told = zip(self.rows.names(), self.rows.failures(), strict=True)
        captions = dict(zip(self.rows.rows.tolist(), told, strict=True))
        for rows in self.rows.in_order_of_time():
            for row in rows.read(step=self.step):
                name, failure = captions[row.row]
                is_valid = np.logical_and.reduce(row.is_valid)
                picture = self._colour_row(row, is_valid)
                yield self._add_caption(picture, name, failure, has_gaps=not failure and not is_valid.all())

    @property
    def theme(self) -> Theme:
        """Colours of captions and of what lies between pictures."""
        return DARK if self.style.is_dark else LIGHT

    @property
    def _no_data(self) -> str:
        """Colour of pixels without data."""
        return _GREYS[self.theme]

    @property
    def _picture_size(self) -> tuple[int, int]:
        height, width = (ceil(side / self.step) * self._zoom for side in self.rows.shape)
        return width, height

    @property
    def _line_px(self) -> int:
        return max(_LINE_PX, max(self._picture_size) // _LINES_ABREAST)

    @property
    def _zoom(self) -> int:
        longest = ceil(max(self.rows.shape) / self.step)
        return max(1, _FEWEST_PX // longest)

    def _colour_row(self, row: RowPixels, is_valid: Mask) -> "Picture":
        from PIL import Image, ImageColor  # noqa: PLC0415 # an extra

        if self.classes:
            colours = painted_classes(row.pixels[0], row.is_valid[0], self.classes)[..., :_N_COLOURS]
        else:
            bands = [
                stretch.to_greys(pixels) for stretch, pixels in zip(self.stretches, row.pixels, strict=True)
            ]
            colours = _colours(self.style.colormap)[bands[0]] if len(bands) == 1 else np.stack(bands, axis=-1)
        colours[~is_valid] = ImageColor.getrgb(self._no_data)
        return Image.fromarray(np.repeat(np.repeat(colours, self._zoom, axis=0), self._zoom, axis=1))

    def _add_caption(self, picture: "Picture", time: str, failure: str, *, has_gaps: bool) -> "Picture":
        """Return a picture with its caption, which names the colour of pixels without data if there are any.

        Where nothing was read, the reason stands in the middle instead.
        """
        from PIL import Image, ImageDraw  # noqa: PLC0415 # an extra

        whole = Image.new("RGB", self.size, self.theme.background)
        whole.paste(picture, (0, 0))
        canvas = ImageDraw.Draw(whole)
        line, top = self._line_px, picture.height
        if failure:
            middle = (picture.width / 2, picture.height / 2)
            canvas.text(
                middle, failure, fill=self.theme.text, font=_font(failure, picture.width, line), anchor="mm"
            )
        name = self.rows.measurements[0] if len(self.rows.measurements) == 1 else ""
        room = whole.width - (self._entry_px((self._no_data, _NO_DATA)) if has_gaps else 0)
        title = _shorten_title(self.title, "   ".join(filter(None, (time, name))), room, line)
        canvas.text((2, top + 1), title, fill=self.theme.text, font=_font(title, room, line))
        if has_gaps:
            self._draw_entry(whole, (self._no_data, _NO_DATA), left=room, upper=top)
        if self._legend_entries:
            self._draw_legend(whole, top + line)
        elif not self.stretches[0].is_constant:
            self._draw_bar(whole, top + line)
        else:
            value = self._scale_stretches()[0].in_words()
            canvas.text(
                (2, top + line + 1), value, fill=self.theme.text, font=_font(value, whole.width, line)
            )
        return whole

    def _draw_bar(self, whole: "Picture", top: int) -> None:
        """Draw the colour bar with the values at its ends, and their unit."""
        from PIL import Image, ImageDraw  # noqa: PLC0415 # an extra

        line, width = self._line_px, whole.width // 3
        low, high = self._scale_stretches()[0].limits_in_words()
        last = f"{high} {self.scalings[0].unit}".strip()
        font = _font(low + last, whole.width - width - 10, line)
        canvas = ImageDraw.Draw(whole)
        canvas.text((2, top + 1), low, fill=self.theme.text, font=font)
        left = int(font.getlength(low)) + 6
        colours = _colours(self.style.colormap)[np.linspace(0, 255, width).astype(int)]
        whole.paste(Image.fromarray(np.repeat(colours[None], line - 6, axis=0)), (left, top + 3))
        canvas.text((left + width + 4, top + 1), last, fill=self.theme.text, font=font)

    @property
    def _legend_entries(self) -> list["_Entry"]:
        """Return classes, or what red, green and blue are, with their ranges; none for one amount."""
        if self.classes:
            return [(each.colour, each.name) for each in legend_of(self.classes)]
        if len(self.stretches) == 1:
            return []
        ranges = [each.in_words() for each in self._scale_stretches()]
        names = [f"{name} {each}" for name, each in zip(self.rows.measurements, ranges, strict=True)]
        return list(zip(_CHANNELS, names, strict=True))

    @property
    def _legend_lines(self) -> list[list["_Entry"]]:
        """Return the entries of each line of the legend, as many as fit. Other pictures have one line."""
        lines: list[list[_Entry]] = [[]]
        room = width = max(self._picture_size[0], _LEAST_WIDTH_PX) - 4
        for each in self._legend_entries:
            needed = self._entry_px(each)
            if needed > room and lines[-1]:
                lines.append([])
                room = width
            lines[-1].append(each)
            room -= needed
        return lines

    def _entry_px(self, entry: "_Entry") -> int:
        return int(_font("", self._picture_size[0], self._line_px).getlength(entry[1])) + 2 * self._line_px

    def _draw_legend(self, whole: "Picture", top: int) -> None:
        """Draw all entries."""
        for n, entries in enumerate(self._legend_lines):
            left = 2
            for each in entries:
                self._draw_entry(whole, each, left=left, upper=top + n * self._line_px)
                left += self._entry_px(each)

    def _draw_entry(self, whole: "Picture", entry: "_Entry", *, left: int, upper: int) -> None:
        """Draw a colour and its name."""
        from PIL import ImageDraw  # noqa: PLC0415 # an extra

        canvas, line = ImageDraw.Draw(whole), self._line_px
        colour, name = entry
        box = (left, upper + 4, left + line - 8, upper + line - 4)
        canvas.rectangle(box, fill=colour, outline=self.theme.text)
        font = _font(name, whole.width - line, line)
        canvas.text((left + line - 4, upper + 1), name, fill=self.theme.text, font=font)

    def _scale_stretches(self) -> list[Stretch]:
        """Return the stretches of the values that the files mean."""
        return [
            stretch.scaled(each.scale, each.offset)
            for stretch, each in zip(self.stretches, self.scalings, strict=True)
        ]


def _shorten_title(title: str, rest: str, width: int, line_px: int) -> str:
    """Return a title and what follows it. The title loses its end where the font would become too small."""
    for n in range(len(title), 0, -1):
        kept = title if n == len(title) else f"{title[:n]}\u2026"
        if _font(text := f"{kept}   {rest}".rstrip(), width, line_px).size >= min(_LEAST_FONT, line_px - 5):
            return text
    return rest


def _font(text: str, width: int, line_px: int) -> Any:
    """Return the font in which a text fits its line, smaller if the line is short."""
    from PIL import ImageFont  # noqa: PLC0415 # an extra

    size = line_px - 5
    needed = ImageFont.load_default(size=size).getlength(text)
    return ImageFont.load_default(size=max(6, min(size, int(size * (width - 4) / max(needed, 1)))))


def _sample_rows(rows: CubeRows, step: int) -> list[tuple[Image, Mask]]:
    """Return pixels of each measurement, and which are valid, from rows that lie evenly among all."""
    read = rows.of_read_sources()
    some = replace(read, rows=read.rows[:: ceil(len(read.rows) / _SAMPLE_ROWS)])
    sample = list(some.read(step=step * max(1, ceil(max(rows.shape) / step / 256))))
    return [
        (np.stack([row.pixels[band] for row in sample]), np.stack([row.is_valid[band] for row in sample]))
        for band in range(len(rows.measurements))
    ]


def _classes(rows: CubeRows, sample: tuple[Image, Mask]) -> tuple[PixelClass, ...]:
    (name,) = rows.measurements
    return count_classes(name, *sample, meaning=rows.meaning(name))


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


def make_sheet(pictures: Sequence["Picture"], *, background: str) -> "Picture":
    """Return one picture with all of them, in about as many lines as columns."""
    from PIL import Image  # noqa: PLC0415 # an extra

    width, height = pictures[0].size
    n_columns = min(len(pictures), ceil(len(pictures) ** 0.5 * (height / width) ** 0.5))
    gap = 4
    n_lines = ceil(len(pictures) / n_columns)
    sheet = Image.new("RGB", (n_columns * (width + gap) - gap, n_lines * (height + gap) - gap), background)
    for index, picture in enumerate(pictures):
        sheet.paste(picture, (index % n_columns * (width + gap), index // n_columns * (height + gap)))
    return sheet
