"""A ranking as one self-contained HTML page: pictures, values, and bars with their 95 % intervals."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

import numpy as np

from pixel_gather.core.model.band_meaning import NO_MEANING, true_colour
from pixel_gather.core.model.band_names import COLOURS, is_of_classes
from pixel_gather.core.model.plurals import counted, size
from pixel_gather.core.model.shown import linked
from pixel_gather.features.rank.table import Ranking, tell_once
from pixel_gather.io.pictures.classes import PixelClass, count_classes, legend_of, painted_classes
from pixel_gather.io.pictures.page_style import html_page, write_html
from pixel_gather.io.pictures.pictures import ColourChannel, Rgba, paint_channels, picture_uri
from pixel_gather.io.pictures.stretch import (
    Stretch,
    common_stretches,
    error_in_words,
    number_in_words,
    viridis,
)

type Picture = Mapping[str, np.ndarray[Any, np.dtype[np.floating[Any]]]]

_WIDTH: Final = 360
"""Width of a bar's drawing, in pixels."""

_STYLE: Final = """
td { vertical-align: middle; } small { white-space: nowrap; color: var(--figure-muted); font-size: 0.85rem; }
.dates { white-space: nowrap; } .id { display: inline-block; max-width: 32rem; overflow-wrap: break-word; }
.picture, .missing { width: 7rem; max-height: 9rem; object-fit: contain; } .missing { min-height: 4rem; }
.bars { width: 40%; } .bars svg { display: block; width: 100%; min-width: 8rem; height: 1.5rem; }
@media (max-width: 48rem) {
  .bars, .level { display: none; }
  th, td { padding-right: 0.5rem; }
  .scene { min-width: 6rem; } .id { overflow-wrap: anywhere; }
  .picture, .missing { width: 5rem; }
}
"""


def write_sheet(ranking: Ranking, pictures: Sequence[Picture], path: Path) -> None:
    """Write the page of the first scenes.

    The pictures are the scenes' bands, by the names of the expression. Each is a row of the page, but for
    those that have no value for the same reason as another one: these are told once.

    Raises:
        StoreError: The file cannot be written.
    """
    write_html(sheet_html(ranking, pictures), path)


def sheet_html(ranking: Ranking, pictures: Sequence[Picture]) -> str:
    """Return the page; see `write_sheet`."""
    scenes = ranking.rows()
    images, scale, classes = painted_pictures(ranking, pictures)
    singles, repeated = tell_once(scenes)
    is_single = {id(row) for row in singles}
    pairs = [pair for pair in zip(scenes, images, strict=False) if id(pair[0]) in is_single]
    rows = [row for row, _ in pairs]
    ends = bar_ends(rows)
    request = ranking.request
    text = "" if request.expression is None else request.expression.text
    expression = f"<code>{escape(text)}</code>, " if text not in ("", request.by) else ""
    shown = "pixels" if request.expression is None else request.by
    statistic = request.statistic.text.replace("_", " ").replace(":", " ")
    if not expression:
        statistic = statistic[0].upper() + statistic[1:]
    title = f"Scenes by {request.by}"
    body = "".join(_row(row, image, ends) for row, image in pairs)
    head = (
        "<tr><th class=n scope=col>rank</th><th scope=col>picture</th><th class=scene scope=col>scene</th>"
        "<th class=n scope=col>value</th><th class=bars scope=col>value and 95 % interval</th>"
        "<th class=n scope=col>clear</th><th class=level scope=col>read at</th></tr>"
    )
    table = (
        '<div class="wide" tabindex="0" role="region" aria-label="Scenes"><table><thead>'
        f"{head}</thead><tbody>\n{body}</tbody></table></div>"
    )
    lacking = "".join(f"<p>{escape(each)}.</p>\n" for each in repeated)
    has_ranges = any(row["rank_low"] != row["rank_high"] for row in rows)
    ranks = "A range of ranks says that scenes are within each other's error.\n" if has_ranges else ""
    content = f"""<p>{expression}{escape(statistic)} over the area;
{_part(rows, scenes)} of {counted(len(scenes), "scene")}{_span(rows)}.</p>
{_legend(classes) if classes else _scale(scale, shown)}
{table if rows else ""}
{lacking}<p class="note">{ranks}{size(ranking.nbytes)} in {counted(ranking.requests, "request")}, \
{ranking.seconds:,.1f} s.</p>
"""
    return html_page(content, title=title, head_title=f"{title} \N{EN DASH} Pixel Gather", style=_STYLE)


def _part(rows: Sequence[Mapping[str, Any]], scenes: Sequence[Mapping[str, Any]]) -> str:
    """Return how many scenes the page shows. They are the first if it leaves out others that have a rank."""
    n_ranked, n_shown = (sum(row["rank"] is not None for row in some) for some in (scenes, rows))
    return f"{'the first ' if n_shown < n_ranked else ''}{len(rows):,}"


def _span(rows: Sequence[Mapping[str, Any]]) -> str:
    dates = sorted(row["time"][:10] for row in rows if row["time"])
    if not dates:
        return ""
    ends = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    return f', <span class="dates">{ends}</span>'


def _scale(stretches: Sequence[Stretch], shown: str) -> str:
    """Return the colour bars of all pictures; empty if there is no picture. A single value has none."""
    if not stretches:
        return ""
    looks = [("viridis", escape(shown))] if len(stretches) == 1 else [(each, each) for each in COLOURS]
    bars = []
    for (look, name), stretch in zip(looks, stretches, strict=True):
        low, high = stretch.limits_in_words()
        bar = (
            f'{low}<span class="bar {look}" role="img" aria-label="Colour bar from {low} to {high}"></span>'
            f"{high}"
        )
        limits = low if stretch.is_constant else bar
        bars.append(f'<span>{name}</span><span class="limits">{limits}</span>')
    note = f"{escape(stretches[0].words)}, the same for all scenes; hatched: no data"
    return f'<div class="scale">{"".join(bars)}<span class="note">{note}</span></div>'


def _legend(classes: Sequence[PixelClass]) -> str:
    """Return the colour and the name of each class of all pictures."""
    entries = "".join(
        f'<span class="limits"><span class="swatch" style="background: {each.colour}"></span>'
        f"{escape(each.name)}</span>"
        for each in legend_of(tuple(classes))
    )
    return f'<div class="scale">{entries}<span class="note">classes; hatched: no data</span></div>'


def _row(row: Mapping[str, Any], image: Rgba | None, ends: tuple[float, float]) -> str:
    within = (
        ""
        if row["rank_low"] == row["rank_high"]
        else f"<br><small>{row['rank_low']}-{row['rank_high']}</small>"
    )
    said = escape(row["reason"] or "")
    scene, date = escape(row["id"]), (row["time"] or "")[:10]
    picture = f'<p class="missing">not read{": " if said else ""}{said}</p>'
    if image is not None:
        height, width = image.shape[:2]
        picture = (
            f'<img class="picture hatched" alt="{scene}, {date}" width="{width}" height="{height}" '
            f'style="height: auto" src="{picture_uri(image, is_lossless=True)}">'
        )
    value = number_in_words(row["value"]) if row["value"] is not None else "" if image is None else said
    error = "" if not row["error"] else f"<br><small>± {error_in_words(1.96 * row['error'])}</small>"
    clear = "" if row["clear"] is None else f"{100 * row['clear']:.0f} %"
    return (
        f"<tr><td class=n>{row['rank'] or ''}{within}</td><td>{picture}</td>"
        f'<td class=scene><span class="id">{linked(row["id"], next(iter(row["hrefs"]), None))}</span><br>'
        f"<small>{date}</small></td>"
        f"<td class=n>{value}{error}</td><td class=bars>{_bar(row, ends)}</td><td class=n>{clear}</td>"
        f"<td class=level><small>{escape(row['level'] or '')}</small></td></tr>\n"
    )


def bar_ends(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Return the values at the left and right end of all bars; 0 is between them."""
    found = [0.0]
    for row in rows:
        if row["value"] is not None:
            found += [row[name] for name in ("value", "low", "high") if row[name] is not None]
    low, high = min(found), max(found)
    return (low, high) if low < high else (low, low + 1)


def _bar(row: Mapping[str, Any], ends: tuple[float, float]) -> str:
    if row["value"] is None:
        return ""
    low, high = ends

    def x(value: float) -> float:
        return round((value - low) / (high - low) * (_WIDTH - 8) + 4, 1)

    start, stop = sorted((x(0.0), x(row["value"])))
    value = number_in_words(row["value"])
    whisker = ""
    if row["error"]:
        left, right = x(row["low"]), x(row["high"])
        whisker = (
            f'<path d="M{left} 12H{right}M{left} 7V17M{right} 7V17" stroke="var(--figure-text)" '
            'stroke-width="1.5"/>'
        )
    return (
        f'<svg viewBox="0 0 {_WIDTH} 24" preserveAspectRatio="none" role="img" '
        f'aria-label="{value}"><rect x="{start}" y="5" width="{max(stop - start, 1)}" '
        f'height="14" fill="var(--figure-green)"/>{whisker}</svg>'
    )


def painted_pictures(
    ranking: Ranking, pictures: Sequence[Picture]
) -> tuple[list[Rgba | None], tuple[Stretch, ...], tuple[PixelClass, ...]]:
    """Return a picture of each scene, None where there is no pixel, and their common stretch or classes.

    Red, green and blue bands make a picture in true colours. Everything else is shown by its value: classes
    by their colours.
    """
    names = [true_colour(dict.fromkeys(picture, NO_MEANING)) for picture in pictures]
    if all(three for picture, three in zip(pictures, names, strict=True) if picture):
        layers = [[picture[name] for name in three] for picture, three in zip(pictures, names, strict=True)]
    else:
        layers = [[picture_values(ranking, picture)] if picture else [] for picture in pictures]
    drawn = [layer_of for layer_of in layers if layer_of]
    bands = [np.concatenate([layer.ravel() for layer in band]) for band in zip(*drawn, strict=True)]
    if not any(np.isfinite(band).any() for band in bands):
        return [None] * len(pictures), (), ()
    if len(bands) == 1 and (classes := _classes_of(ranking, pictures, bands[0])):
        images = [
            painted_classes(_as_whole(layer[0]), np.isfinite(layer[0]), classes) if layer else None
            for layer in layers
        ]
        return images, (), classes
    stretches = common_stretches(bands, [np.isfinite(band) for band in bands])
    return [_paint_layers(layer_of, stretches) if layer_of else None for layer_of in layers], stretches, ()


def _classes_of(
    ranking: Ranking, pictures: Sequence[Picture], values: np.ndarray[Any, Any]
) -> tuple[PixelClass, ...]:
    """Return the classes of a ranking that is by one band of classes, by its name; none of another."""
    names = {name for picture in pictures for name in picture}
    expression = ranking.request.expression
    name = next(iter(names)) if len(names) == 1 else ""
    if not is_of_classes(name) or (expression is not None and expression.text.strip() != name):
        return ()
    is_valid = np.isfinite(values)
    return count_classes(name, _as_whole(values), is_valid)


def _as_whole(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    whole: np.ndarray[Any, Any] = np.nan_to_num(values, nan=0, posinf=0, neginf=0).astype("int64")
    return whole


def picture_values(ranking: Ranking, picture: Picture) -> np.ndarray[Any, np.dtype[np.floating[Any]]]:
    """Return what a picture shows of the values that a ranking is by; else its first band."""
    expression = ranking.request.expression
    return next(iter(picture.values())) if expression is None else expression.evaluate(picture)


def _paint_layers(layers: Sequence[np.ndarray[Any, Any]], stretches: Sequence[Stretch]) -> Rgba:
    channels = [ColourChannel(pixels=layer, is_valid=np.isfinite(layer)) for layer in layers]
    image = paint_channels(channels, stretches)
    if len(layers) == 1:
        image[..., :3] = viridis(image[..., 0] / 255)
    return image
