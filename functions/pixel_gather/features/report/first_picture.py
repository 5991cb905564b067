"""Paints the picture of a cube that is seen first: of one row, in true colour if the cube has it."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.model.band_meaning import NO_MEANING, BandMeaning, true_colour
from pixel_gather.core.results.report_content import Look, MaskedQuicklooks
from pixel_gather.io.pictures.classes import PixelClass, count_classes, painted_classes
from pixel_gather.io.pictures.pictures import ColourChannel, Rgba, paint_channels, picture_file
from pixel_gather.io.pictures.stretch import Stretch, common_stretches

type Paint = Callable[[Sequence[ColourChannel]], Rgba]
"""Makes a picture of some windows."""

_MOST_STRETCHED_ROWS: Final = 9
"""Rows whose values set the stretch, as in the viewer."""


class FirstPicture(Struct, frozen=True, kw_only=True, eq=False):
    """The picture of a row."""

    row: int
    image: Rgba
    is_of_classes: bool


def bands_of_first_picture(meanings: Mapping[str, BandMeaning]) -> tuple[str, ...]:
    """Return which measurements make the picture: those of true colour, or else the first one."""
    return true_colour(meanings) or tuple(meanings)[:1]


def first_picture_of(
    quicklooks: Sequence[MaskedQuicklooks], *, meaning: BandMeaning = NO_MEANING, chunk_rows: int
) -> FirstPicture | None:
    """Return the picture of the first row that all measurements have a quicklook of; None if there is none.

    The stretch is that of the rows that readers read at one time.
    """
    rows = sorted(set.intersection(*(set(each.rows.tolist()) for each in quicklooks))) if quicklooks else []
    if not rows:
        return None
    beside = [row for row in rows if row // chunk_rows == rows[0] // chunk_rows]
    beside = beside[:: -(-len(beside) // _MOST_STRETCHED_ROWS)]
    around = [_channel(each, beside) for each in quicklooks]
    shown = [_channel(each, rows[:1]) for each in quicklooks]
    paint, classes, _ = choose_paint(around, name=quicklooks[0].measurement, meaning=meaning)
    return FirstPicture(row=int(rows[0]), image=paint(shown)[0], is_of_classes=bool(classes))


def choose_paint(
    channels: Sequence[ColourChannel], *, name: str, meaning: BandMeaning
) -> tuple[Paint, tuple[PixelClass, ...], tuple[Stretch, ...]]:
    """Return what paints windows like some that are given, and their classes or their stretches.

    Args:
        channels: One measurement, or red, green and blue. One measurement may have classes.
        name: Of the first measurement.
        meaning: Of the first measurement.
    """
    if len(channels) == 1:
        (one,) = channels
        if classes := count_classes(name, one.pixels, one.is_valid, meaning=meaning):
            return lambda shown: painted_classes(shown[0].pixels, shown[0].is_valid, classes), classes, ()
    stretches = common_stretches([each.pixels for each in channels], [each.is_valid for each in channels])
    return partial(paint_channels, stretches=stretches), (), stretches


def preview_file(looks: Sequence[Look], measurements: Sequence[str]) -> bytes | None:
    """Return the picture that ``view.html`` begins with, as WebP: of row 0. None if it was not read."""
    by_name = {each.measurement: each for each in looks}
    names = bands_of_first_picture(
        {name: by_name[name].meaning if name in by_name else NO_MEANING for name in measurements}
    )
    shown = [by_name[name] for name in names if name in by_name]
    if len(shown) < len(names):
        return None
    found = first_picture_of(
        [each.quicklooks for each in shown],
        meaning=shown[0].meaning,
        chunk_rows=shown[0].chunk_rows,
    )
    if found is None or found.row:
        return None
    return picture_file(found.image, is_lossless=found.is_of_classes)


def _channel(quicklooks: MaskedQuicklooks, rows: Sequence[Any]) -> ColourChannel:
    at = np.searchsorted(quicklooks.rows, rows)
    return ColourChannel(pixels=quicklooks.pixels[at], is_valid=quicklooks.is_valid[at])
