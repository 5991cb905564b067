"""A ranking as one self-contained HTML page: pictures, values, and bars with their 95 % intervals."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

import numpy as np

from pixel_gather.core.errors import StoreError
from pixel_gather.core.model.band_names import red_green_blue
from pixel_gather.features.rank.table import Ranking
from pixel_gather.io.pictures.pictures import picture_uri

type Picture = Mapping[str, np.ndarray[Any, np.dtype[np.floating[Any]]]]
type Rgba = np.ndarray[Any, np.dtype[np.uint8]]

_PERCENTILES: Final = (2, 98)
_VIRIDIS: Final = np.array([(68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37)])
_WIDTH: Final = 360
"""Width of a bar's drawing, in pixels."""

_STYLE: Final = """
body { font: 15px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 62em; color: #1c2530; }
h1 { font-size: 1.4em; } p { color: #4a5766; } table { border-collapse: collapse; width: 100%; }
td, th { padding: .35em .6em; text-align: left; border-bottom: 1px solid #e3e8ee; vertical-align: middle; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
img { width: 96px; max-height: 120px; object-fit: contain; image-rendering: pixelated; display: block; }
small { color: #6b7887; } code { font-size: .95em; }
"""


def write_sheet(ranking: Ranking, pictures: Sequence[Picture], path: Path) -> None:
    """Write the page of the first scenes.

    Args:
        ranking: What was found.
        pictures: The bands of the first scenes, by the names of the expression. Each is a row of the page.
        path: A local file. It is replaced.

    Raises:
        StoreError: The file cannot be written.
    """
    try:
        path.write_text(sheet_html(ranking, pictures), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error


def sheet_html(ranking: Ranking, pictures: Sequence[Picture]) -> str:
    """Return the page; see `write_sheet`."""
    rows = ranking.rows()[: len(pictures)]
    images = painted_pictures(ranking, pictures)
    ends = bar_ends(rows)
    request = ranking.request
    expression = "" if request.expression is None else f"<code>{escape(request.expression.text)}</code>, "
    title = f"Scenes by {escape(request.by)}"
    body = "".join(_row(row, image, ends) for row, image in zip(rows, images, strict=True))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style></head><body>
<h1>{title}</h1>
<p>{expression}{escape(request.statistic.text)} over the area;
{len(rows):,} of {len(ranking.scenes):,} scenes.
Lines are 95 % intervals. A range of ranks says that scenes are within each other's error.
{ranking.nbytes / 1e6:,.2f} MB in {ranking.requests:,} requests, {ranking.seconds:,.1f} s.</p>
<table><tr><th>rank</th><th></th><th>scene</th><th>value</th><th></th><th>clear</th><th>read at</th></tr>
{body}</table></body></html>
"""


def _row(row: Mapping[str, Any], image: Rgba | None, ends: tuple[float, float]) -> str:
    within = (
        ""
        if row["rank_low"] == row["rank_high"]
        else f"<br><small>{row['rank_low']}-{row['rank_high']}</small>"
    )
    picture = "" if image is None else f'<img alt="" src="{picture_uri(image, is_lossless=True)}">'
    said = escape(row["reason"] or "")
    value = said if row["value"] is None else f"{row['value']:.4g}"
    error = "" if not row["error"] else f"<br><small>± {1.96 * row['error']:.2g}</small>"
    clear = "" if row["clear"] is None else f"{100 * row['clear']:.0f} %"
    return (
        f"<tr><td class=n>{row['rank'] or ''}{within}</td><td>{picture}</td>"
        f"<td>{escape(row['id'])}<br><small>{(row['time'] or '')[:10]}</small></td>"
        f"<td class=n>{value}{error}</td><td>{_bar(row, ends)}</td><td class=n>{clear}</td>"
        f"<td><small>{escape(row['level'] or '')}</small></td></tr>\n"
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
    whisker = ""
    if row["error"]:
        left, right = x(row["low"]), x(row["high"])
        whisker = (
            f'<path d="M{left} 12H{right}M{left} 7V17M{right} 7V17" stroke="#1c2530" stroke-width="1.5"/>'
        )
    return (
        f'<svg width="{_WIDTH}" height="24" role="img" aria-label="{row["value"]:.4g}">'
        f'<rect x="{start}" y="5" width="{max(stop - start, 1)}" height="14" fill="#5b9e6f"/>{whisker}</svg>'
    )


def painted_pictures(ranking: Ranking, pictures: Sequence[Picture]) -> list[Rgba | None]:
    """Return a picture of each scene, all in the same colours; None where there is no pixel.

    Red, green and blue bands make a picture in true colours. Everything else is shown by its value.
    """
    names = [red_green_blue(tuple(picture)) for picture in pictures]
    if all(three for picture, three in zip(pictures, names, strict=True) if picture):
        layers = [[picture[name] for name in three] for picture, three in zip(pictures, names, strict=True)]
    else:
        layers = [[picture_values(ranking, picture)] if picture else [] for picture in pictures]
    each = [np.concatenate([layer.ravel() for layer in layer_of]) for layer_of in layers if layer_of]
    finite = np.concatenate(each) if each else np.zeros(0)
    finite = finite[np.isfinite(finite)]
    if not finite.size:
        return [None] * len(pictures)
    low, high = (float(value) for value in np.percentile(finite, _PERCENTILES))
    return [
        _painted(layer_of, low, high if high > low else low + 1) if layer_of else None for layer_of in layers
    ]


def picture_values(ranking: Ranking, picture: Picture) -> np.ndarray[Any, np.dtype[np.floating[Any]]]:
    """Return what a picture shows of the values that a ranking is by; else its first band."""
    expression = ranking.request.expression
    return next(iter(picture.values())) if expression is None else expression.evaluate(picture)


def _painted(layers: Sequence[np.ndarray[Any, Any]], low: float, high: float) -> Rgba:
    shares = [np.clip(np.nan_to_num((layer - low) / (high - low)), 0, 1) for layer in layers]
    is_valid = np.logical_and.reduce([np.isfinite(layer) for layer in layers])
    if len(shares) == 1:
        at = np.linspace(0, 1, len(_VIRIDIS))
        colours = [np.interp(shares[0], at, _VIRIDIS[:, channel]) for channel in range(3)]
    else:
        colours = [255 * share for share in shares]
    return np.stack([*colours, np.where(is_valid, 255, 0)], axis=-1).round().astype(np.uint8)
