"""A series as one self-contained HTML page: a chart of each value, and a table of the images."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any, Final

from pixel_gather.core.errors import StoreError
from pixel_gather.core.model.plurals import counted
from pixel_gather.features.series.series_rows import json_time
from pixel_gather.io.pictures.page_style import page_style

ABOUT: Final = ("time", "scene", "href", "valid", "status", "reason")
"""Fields of a row that are no values."""

_WIDTH, _HEIGHT, _MARGIN = 960, 200, 8
_STYLE: Final = """
svg { display: block; width: 100%; height: auto; }
.line { fill: none; stroke: currentColor; stroke-width: 1.5; opacity: 0.5; }
.value { fill: currentColor; } .none { stroke: currentColor; stroke-width: 1; opacity: 0.4; }
.ends { display: flex; justify-content: space-between; color: var(--figure-muted); font-size: 0.85rem; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
"""

type Row = Mapping[str, Any]


def write_page(rows: Sequence[Row], path: Path, *, title: str) -> None:
    """Write the page.

    Args:
        rows: Of `series`.
        path: A local file. It is replaced.
        title: Says which place it is.

    Raises:
        StoreError: The file cannot be written.
    """
    try:
        path.write_text(page_html(rows, title=title), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error


def page_html(rows: Sequence[Row], *, title: str) -> str:
    """Return the page; see `write_page`."""
    names = [name for name in (rows[0] if rows else {}) if name not in ABOUT]
    charts = "".join(_chart(rows, name) for name in names)
    head = "".join(f'<th class="n">{escape(name)}</th>' for name in names)
    lines = "".join(_line(row, names) for row in rows)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{page_style()}{_STYLE}</style></head><body><main>\n<h1>{escape(title)}</h1>\n{charts}"
        '<div class="wide" tabindex="0" role="region" aria-label="Images">'
        f"<table><thead><tr><th>time</th>{head}<th>status</th><th>image</th></tr></thead>"
        f"<tbody>{lines}</tbody></table></div>\n</main></body></html>\n"
    )


def _chart(rows: Sequence[Row], name: str) -> str:
    """Return a figure: a dot for each value, and a short line at the bottom where there is none."""
    timed = [row for row in rows if row["time"] is not None]
    known = [row for row in timed if row[name] is not None]
    caption = f"<figcaption>{escape(name)}, {counted(len(known), 'value')} of {counted(len(rows), 'image')}"
    if not known:
        return f"<figure>{caption}: no value has a time</figcaption></figure>\n"
    first, last = timed[0]["time"], timed[-1]["time"]
    low, high = min(row[name] for row in known), max(row[name] for row in known)

    def x(time: datetime) -> float:
        share = (time - first) / (last - first) if last > first else 0.5
        return round(_MARGIN + share * (_WIDTH - 2 * _MARGIN), 1)

    def y(value: float) -> float:
        share = (value - low) / (high - low) if high > low else 0.5
        return round(_HEIGHT - 2 * _MARGIN - share * (_HEIGHT - 3 * _MARGIN), 1)

    at = [(x(row["time"]), y(row[name]), row) for row in known]
    points = " ".join(f"{left},{top}" for left, top, _ in at)
    dots = "".join(
        f'<circle class="value" cx="{left}" cy="{top}" r="3"><title>{json_time(row["time"])}: '
        f"{row[name]:.6g}</title></circle>"
        for left, top, row in at
    )
    gaps = "".join(
        f'<line class="none" x1="{left}" x2="{left}" y1="{_HEIGHT - _MARGIN}" y2="{_HEIGHT}"/>'
        for left in (x(row["time"]) for row in timed if row[name] is None)
    )
    said = f"{name} from {low:.6g} to {high:.6g}"
    return (
        f"<figure>{caption}: {low:.6g} to {high:.6g}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(said)}">'
        f'<polyline class="line" points="{points}"/>{dots}{gaps}</svg>'
        f'<div class="ends"><span>{json_time(first)}</span><span>{json_time(last)}</span></div></figure>\n'
    )


def _line(row: Row, names: Sequence[str]) -> str:
    values = "".join(
        f'<td class="n">{"" if row[name] is None else format(row[name], ".6g")}</td>' for name in names
    )
    time = "" if row["time"] is None else json_time(row["time"])
    said = escape(row["status"] if row["reason"] is None else f"{row['status']}: {row['reason']}")
    return f"<tr><td>{time}</td>{values}<td>{said}</td><td>{escape(row['scene'])}</td></tr>\n"
