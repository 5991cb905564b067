"""Prepares the windows' pictures: each measurement in grey, and red, green and blue together in colour.

Each picture exists in two scales: one for all windows, to compare them, and one of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pixel_gather.core.model.band_names import red_green_blue
from pixel_gather.core.results.evidence import Look, Picture, SourceRow
from pixel_gather.io.pictures.pictures import Channel, Film, film_of, painted, picture_uri
from pixel_gather.io.pictures.stretch import Stretch, common_stretches

_MOST_LOOKS: Final = 24
"""Most measurements whose windows a page shows."""

_MOST_FILM_NBYTES: Final = 1_500_000
"""Limit for all films together."""

_MOST_LOSSLESS: Final = 4
"""With more choices than these, pictures are compressed with a slight loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureView:
    """One window of the contact sheet."""

    role: str
    uri: str | None
    """In the scale for all windows. None if the window is not shown."""

    own_uri: str | None
    """In a scale of its own."""

    own_scale: str
    """The range of that scale, as text."""

    size: tuple[int, int]
    """(width, height) of the picture in pixels."""

    source: SourceRow
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilmView:
    """The slider over quicklooks."""

    film: Film
    """Frames in the scale for all, and each in its own."""

    captions: tuple[dict[str, str], ...]
    """For each frame: ``label``, ``row``, ``href`` and ``scale``, the range of its own scale."""

    n_quicklooks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleView:
    """The colour bar under the pictures."""

    values: tuple[tuple[str, str, str], ...]
    """For each channel: its name, black's value, white's value."""

    words: str
    is_constant: bool
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LookView:
    """One choice on the page: a measurement in grey, or three in colour."""

    name: str
    pictures: tuple[PictureView, ...]
    scale: ScaleView
    film: FilmView | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """The looks that are shown together: one in grey, or three as red, green and blue."""

    name: str
    looks: tuple[Look, ...]
    indexes: tuple[tuple[int, ...], ...]
    """For each look, the indexes of its quicklooks of rows that all looks have."""


def views_of(looks: Sequence[Look], *, with_film: bool) -> tuple[LookView, ...]:
    """Return the choices of a page, colour first. Without film, only the first choice."""
    choices = _choices(looks)
    shown = choices if with_film else choices[:1]
    return tuple(
        _view(
            each,
            is_lossless=len(shown) <= _MOST_LOSSLESS,
            most_film_nbytes=_MOST_FILM_NBYTES // len(shown) if with_film else 0,
        )
        for each in shown
    )


def left_out(looks: Sequence[Look]) -> tuple[str, ...]:
    """Return the measurements that a page has no room for."""
    return tuple(each.measurement for each in looks[_MOST_LOOKS:])


def _choices(looks: Sequence[Look]) -> list[_Choice]:
    shown = looks[:_MOST_LOOKS]
    alone = [_choice(each.measurement, (each,)) for each in shown]
    by_name = {each.measurement: each for each in looks}
    three = tuple(by_name[name] for name in red_green_blue(tuple(by_name)))
    if len({each.quicklooks.pixels.shape[1:] for each in three}) == 1:
        in_colour = _choice("RGB: " + ", ".join(each.measurement for each in three), three)
        return [in_colour, *alone] if in_colour.indexes[0] else alone
    return alone


def _choice(name: str, looks: tuple[Look, ...]) -> _Choice:
    rows = set.intersection(*({int(row) for row in each.quicklooks.rows} for each in looks))
    indexes = tuple(
        tuple(index for index, row in enumerate(each.quicklooks.rows) if int(row) in rows) for each in looks
    )
    return _Choice(name=name, looks=looks, indexes=indexes)


def _view(choice: _Choice, *, is_lossless: bool, most_film_nbytes: int) -> LookView:
    channels = [
        Channel(
            pixels=look.quicklooks.pixels[list(indexes)], is_valid=look.quicklooks.is_valid[list(indexes)]
        )
        for look, indexes in zip(choice.looks, choice.indexes, strict=True)
    ]
    stretches = common_stretches([each.pixels for each in channels], [each.is_valid for each in channels])
    sheets = zip(*(each.contact_sheet for each in choice.looks), strict=True)
    film = None
    if most_film_nbytes and len(choice.indexes[0]) > 1:
        film = _film_view(choice, channels, stretches, most_nbytes=most_film_nbytes)
    return LookView(
        name=choice.name,
        pictures=tuple(_shown(windows, stretches, is_lossless=is_lossless) for windows in sheets),
        scale=_scale_view(choice, stretches),
        film=film,
    )


def _shown(windows: Sequence[Picture], stretches: Sequence[Stretch], *, is_lossless: bool) -> PictureView:
    """Return the view of one window.

    Args:
        windows: The window's picture in each channel.
        stretches: Stretches of each channel, for all windows.
        is_lossless: Whether the image is exact.
    """
    first = windows[0]
    view = PictureView(
        role=first.role,
        uri=None,
        own_uri=None,
        own_scale="",
        size=(1, 1),
        source=first.source,
        note=first.note,
    )
    channels = [
        Channel(pixels=each.pixels, is_valid=each.is_valid)
        for each in windows
        if each.pixels is not None and each.is_valid is not None
    ]
    if len(channels) < len(windows):
        return view
    own = [each.stretch() for each in channels]
    height, width = channels[0].pixels.shape
    return replace(
        view,
        uri=picture_uri(painted(channels, stretches), is_lossless=is_lossless),
        own_uri=picture_uri(painted(channels, own), is_lossless=is_lossless),
        own_scale=_in_words(own),
        size=(width, height),
    )


def _in_words(stretches: Sequence[Stretch]) -> str:
    return "; ".join(each.in_words() for each in stretches)


def _scale_view(choice: _Choice, stretches: Sequence[Stretch]) -> ScaleView:
    values = tuple(
        (look.measurement, *stretch.limits_in_words())
        for look, stretch in zip(choice.looks, stretches, strict=True)
    )
    return ScaleView(
        values=values,
        words=stretches[0].words,
        is_constant=all(each.is_constant for each in stretches),
        step=choice.looks[0].quicklooks.step,
    )


def _film_view(
    choice: _Choice, channels: Sequence[Channel], stretches: Sequence[Stretch], *, most_nbytes: int
) -> FilmView:
    of_frames = [
        [Channel(pixels=each.pixels[index], is_valid=each.is_valid[index]) for each in channels]
        for index in range(len(channels[0].pixels))
    ]
    own = [[each.stretch() for each in frame] for frame in of_frames]
    own_frames = np.stack([painted(frame, its) for frame, its in zip(of_frames, own, strict=True)])
    film = film_of([painted(channels, stretches), own_frames], most_nbytes=most_nbytes)
    frames = choice.looks[0].frames
    captions = tuple(
        {
            "label": frames[index].label,
            "row": f"row {frames[index].row:,}",
            "href": frames[index].href,
            "scale": _in_words(its),
        }
        for index, its in list(zip(choice.indexes[0], own, strict=True))[:: film.every]
    )
    return FilmView(film=film, captions=captions, n_quicklooks=len(choice.indexes[0]))
