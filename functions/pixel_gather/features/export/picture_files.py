"""Writes pictures of a cube's rows: an animation as GIF or MP4, or all of them on one sheet as PNG."""

from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any, Final

import numpy as np

from pixel_gather.core.errors import RequestError
from pixel_gather.features.export.pictures import Drawing, sheet_of

_MOST_GIF_NBYTES: Final = 2**30
_MOST_SHEET_PIXELS: Final = 100_000_000


def write_gif(drawing: Drawing, path: Path, *, frames_per_second: float) -> None:
    """Write an animation that repeats.

    Raises:
        RequestError: All pictures together have more than 1 GiB. MP4 has no such limit.
    """
    width, height = drawing.size
    if (n_nbytes := len(drawing.rows.rows) * width * height) > _MOST_GIF_NBYTES:
        raise RequestError(
            f"the pictures have {n_nbytes / 2**30:,.1f} GiB, too much for a GIF: "
            "choose rows by where, or write .mp4",
            field="to",
        )
    pictures = drawing.pictures()
    first = next(pictures)
    first.save(
        path,
        format="GIF",
        save_all=True,
        append_images=pictures,
        duration=max(20, round(1000 / frames_per_second)),
        loop=0,
    )


def write_mp4(drawing: Drawing, path: Path, *, frames_per_second: float) -> None:
    """Write a film, H.264 in the pixel format yuv420p, which browsers and slides play."""
    from fractions import Fraction  # noqa: PLC0415 # for films alone

    import av  # noqa: PLC0415 # an extra

    with av.open(str(path), mode="w", format="mp4", options={"movflags": "faststart"}) as film:
        stream: Any = film.add_stream("libx264", rate=Fraction(frames_per_second).limit_denominator(1000))
        stream.width, stream.height = drawing.size
        stream.pix_fmt = "yuv420p"
        stream.options = {"crf": "18"}
        for picture in drawing.pictures():
            film.mux(stream.encode(av.VideoFrame.from_ndarray(np.asarray(picture), format="rgb24")))
        film.mux(stream.encode())


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
            f"choose at most {n_fit:,} rows by where, or write .mp4",
            field="to",
        )
    sheet_of(list(islice(drawing.pictures(), n_rows))).save(path, format="PNG", optimize=True)
