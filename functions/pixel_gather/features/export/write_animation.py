"""Writes pictures of a cube's rows: an animation, or all of them on one sheet as PNG."""

from itertools import islice
from math import ceil
from pathlib import Path
from typing import Final

from PIL import Image

from pixel_gather.core.errors import RequestError
from pixel_gather.features.export.draw_pictures import Drawing, make_sheet

_FORMATS: Final = {".webp": "WEBP", ".gif": "GIF", ".apng": "PNG"}
"""Pillow's name for each suffix."""

_MOST_NBYTES: Final = 2**30
_KEPT: Final = {".webp": 0, ".gif": 1, ".apng": 3}
"""Bytes of each pixel that Pillow keeps until the last picture. Of WebP it keeps compressed pictures."""

_MOST_SHEET_PIXELS: Final = 100_000_000


class _Film(Image.Image):
    """An image of many frames. Each is drawn when Pillow asks for it."""

    def __init__(self, drawing: Drawing) -> None:
        super().__init__()
        self._drawing, self._frame = drawing, -1
        self._mode, self._size = "RGB", drawing.size
        self.n_frames = len(drawing.rows.rows)
        self.seek(0)

    def seek(self, frame: int) -> None:
        """Draw a frame: the next one, or again the first one."""
        if frame == self._frame:
            return
        if frame >= self.n_frames:
            raise EOFError  # as Pillow's iterators expect
        if frame == 0:
            self._pictures = self._drawing.pictures()
        self._frame = frame
        self.im = next(self._pictures).im

    def tell(self) -> int:
        """Return the number of the frame."""
        return self._frame


def write_animation(drawing: Drawing, path: Path, *, frames_per_second: float) -> None:
    """Write an animation that repeats, in the format of the suffix.

    Raises:
        RequestError: All pictures together have more than 1 GiB. WebP has no such limit.
    """
    suffix = path.suffix.lower()
    width, height = drawing.size
    if (n_nbytes := len(drawing.rows.rows) * width * height * _KEPT[suffix]) > _MOST_NBYTES:
        raise RequestError(
            f"the pictures have {n_nbytes / 2**30:,.1f} GiB, too much for {suffix}: "
            "choose rows by where, or write .webp",
            field="to",
        )
    _Film(drawing).save(
        path,
        format=_FORMATS[suffix],
        save_all=True,
        duration=max(20, round(1000 / frames_per_second)),
        loop=0,
    )


def write_png(drawing: Drawing, path: Path) -> None:
    """Write all pictures on one sheet.

    Raises:
        RequestError: The sheet would have more than 100 million pixels.
    """
    width, height = drawing.size
    n_rows = len(drawing.rows.rows)
    if (n_pixels := n_rows * width * height) > _MOST_SHEET_PIXELS:
        n_fit = _MOST_SHEET_PIXELS // (width * height)
        raise RequestError(
            f"a sheet of {n_rows:,} rows would have {ceil(n_pixels / 1e6):,} million pixels; "
            f"choose at most {n_fit:,} rows by where, or write .webp",
            field="to",
        )
    pictures = list(islice(drawing.pictures(), n_rows))
    make_sheet(pictures, background=drawing.theme.background).save(path, format="PNG", optimize=True)
