"""Prepares the windows' pictures: each measurement in grey, and red, green and blue together in colour."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from pixel_gather.core.model.band_meaning import true_colour
from pixel_gather.core.model.shown import shown_href
from pixel_gather.core.results.report_content import MOST_DRAWN, Look, Picture
from pixel_gather.features.report.first_picture import Paint, choose_paint
from pixel_gather.io.pictures.classes import PixelClass, legend_of
from pixel_gather.io.pictures.pictures import (
    ColourChannel,
    Film,
    Rgba,
    make_film,
    picture_uri,
)
from pixel_gather.io.pictures.stretch import Stretch

_MOST_FILM_NBYTES: Final = 1_500_000
"""Limit for all films together."""

_MOST_LOSSLESS: Final = 4
"""With more choices than these, pictures are compressed with a slight loss."""


class PictureView(Struct, frozen=True, kw_only=True):
    """One window of the contact sheet."""

    label: str
    href: str
    uri: str | None
    """None if the window is not shown."""

    missing: str
    """Why it is not shown, in words."""


class FilmView(Struct, frozen=True, kw_only=True):
    """The slider over quicklooks."""

    film: Film
    captions: tuple[dict[str, str], ...]
    """For each frame: ``label``, ``row`` and ``href``."""

    of_rows: str
    """The rows of which the frames are some, in words."""


class ScaleView(Struct, frozen=True, kw_only=True):
    """The colour bar under the pictures."""

    values: tuple[tuple[str, str, str], ...]
    """For each channel: its name, black's value, white's value."""

    unit: str
    words: str
    classes: tuple[tuple[str, str], ...]
    """Colours and names, instead of a scale."""

    is_constant: bool
    step: int


class LookView(Struct, frozen=True, kw_only=True):
    """One choice on the page: a measurement in grey, or three in colour."""

    name: str
    size: tuple[int, int]
    """(width, height) of each picture in pixels."""

    pictures: tuple[PictureView, ...]
    which_rows: str
    """The rows of the cube that the pictures are of, in words. Empty if they are of all."""

    scale: ScaleView
    film: FilmView | None


class _Choice(Struct, frozen=True, kw_only=True):
    """The looks that are shown together: one in grey, or three as red, green and blue."""

    name: str
    looks: tuple[Look, ...]
    indexes: tuple[tuple[int, ...], ...]
    """For each look, the indexes of its quicklooks of rows that all looks have."""


def views_of(looks: Sequence[Look], *, n_rows: int, n_pictured: int, with_film: bool) -> tuple[LookView, ...]:
    """Return the choices of a page of a cube, colour first. Without film, only the first choice.

    Args:
        looks: The pictures of each measurement.
        n_rows: Rows of the cube.
        n_pictured: Its first rows, which the pictures are of.
        with_film: Whether to make films, too.
    """
    choices = _choices(looks)
    shown = choices if with_film else choices[:1]
    return tuple(
        _view(
            each,
            n_rows=n_rows,
            n_pictured=n_pictured,
            is_lossless=len(shown) <= _MOST_LOSSLESS,
            most_film_nbytes=_MOST_FILM_NBYTES // len(shown) if with_film else 0,
        )
        for each in shown
    )


def left_out(looks: Sequence[Look]) -> tuple[str, ...]:
    """Return the measurements that a page has no room for."""
    return tuple(each.measurement for each in looks[MOST_DRAWN:])


def _choices(looks: Sequence[Look]) -> list[_Choice]:
    shown = looks[:MOST_DRAWN]
    alone = [_choice(each.measurement, (each,)) for each in shown]
    by_name = {each.measurement: each for each in looks}
    three = tuple(
        by_name[name] for name in true_colour({name: each.meaning for name, each in by_name.items()})
    )
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


def _view(
    choice: _Choice, *, n_rows: int, n_pictured: int, is_lossless: bool, most_film_nbytes: int
) -> LookView:
    channels = [
        ColourChannel(
            pixels=look.quicklooks.pixels[list(indexes)], is_valid=look.quicklooks.is_valid[list(indexes)]
        )
        for look, indexes in zip(choice.looks, choice.indexes, strict=True)
    ]
    paint, classes, stretches = choose_paint(channels, name=choice.name, meaning=choice.looks[0].meaning)
    scale = _legend_view(choice, classes) if classes else _scale_view(choice, stretches)
    sheets = list(zip(*(each.contact_sheet for each in choice.looks), strict=True))
    of_first = ", of the first gather" if n_pictured < n_rows else ""
    spread = ", spread evenly" if len(sheets) < n_pictured else ""
    film = None
    if most_film_nbytes and len(choice.indexes[0]) > 1:
        film = _film_view(
            choice, paint(channels), of_rows=f"{n_rows:,} rows{of_first}", most_nbytes=most_film_nbytes
        )
    height, width = channels[0].pixels.shape[1:]
    return LookView(
        name=choice.name,
        size=(width, height),
        pictures=tuple(
            _shown(windows, paint, is_lossless=is_lossless or bool(classes)) for windows in sheets
        ),
        which_rows=f"{len(sheets):,} of {n_rows:,} rows{of_first}{spread}; " if len(sheets) < n_rows else "",
        scale=scale,
        film=film,
    )


def _shown(windows: Sequence[Picture], paint: Paint, *, is_lossless: bool) -> PictureView:
    """Return the view of one window."""
    channels = [
        ColourChannel(pixels=each.pixels, is_valid=each.is_valid)
        for each in windows
        if each.pixels is not None and each.is_valid is not None
    ]
    is_whole = len(channels) == len(windows)
    said = next((each.status.replace("_", " ") for each in windows if each.status != "ok"), "ok")
    return PictureView(
        label=windows[0].label,
        href=windows[0].href,
        uri=picture_uri(paint(channels), is_lossless=is_lossless) if is_whole else None,
        missing="" if is_whole else "no quicklook" if said == "ok" else f"not read: {said}",
    )


def _scale_view(choice: _Choice, stretches: Sequence[Stretch]) -> ScaleView:
    scalings = [each.scaling for each in choice.looks]
    values = tuple(
        (look.measurement, *stretch.scaled(look.scaling.scale, look.scaling.offset).limits_in_words())
        for look, stretch in zip(choice.looks, stretches, strict=True)
    )
    return ScaleView(
        values=values,
        unit=" / ".join(dict.fromkeys(each.unit for each in scalings if each.unit)),
        words=stretches[0].words,
        classes=(),
        is_constant=all(each.is_constant for each in stretches),
        step=choice.looks[0].quicklooks.step,
    )


def _legend_view(choice: _Choice, classes: tuple[PixelClass, ...]) -> ScaleView:
    return ScaleView(
        values=(),
        unit="",
        words="classes, the most frequent first",
        classes=tuple((each.colour, each.name) for each in legend_of(classes)),
        is_constant=True,
        step=choice.looks[0].quicklooks.step,
    )


def _film_view(choice: _Choice, pictures: Rgba, *, of_rows: str, most_nbytes: int) -> FilmView:
    film = make_film(pictures, most_nbytes=most_nbytes)
    frames = choice.looks[0].frames
    captions = tuple(
        {
            "label": frames[index].label,
            "row": f"row {frames[index].row:,}",
            "href": shown_href(frames[index].href),
        }
        for index in choice.indexes[0][:: film.every]
    )
    return FilmView(film=film, captions=captions, of_rows=of_rows)
