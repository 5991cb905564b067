"""A series as one self-contained HTML page: a chart of each value, and a table of the images."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pixel_gather.core.errors import StoreError
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.shown import linked
from pixel_gather.core.time_range import format_moment
from pixel_gather.features.series.series_rows import json_time, time_us
from pixel_gather.io.pictures.chart import (
    Chart,
    line_marks,
    named_with_unit,
    number_ticks,
    path,
    time_ticks,
    with_unit,
)
from pixel_gather.io.pictures.page_style import page_style

ABOUT: Final = ("time", "scene", "href", "valid", "status", "reason")
"""Fields of a row that are no values."""

NO_UNITS: Final[Mapping[str, str]] = MappingProxyType({})

_ROOM: Final = 0.06
_MARK: Final = 60
_STYLE: Final = """
.wide { margin-top: 1.5rem; }
.drawing { height: 14rem; } .drawing .gap { stroke: var(--figure-vermilion); stroke-width: 2; }
.swatch.gap { background: var(--figure-vermilion); } td:first-child { white-space: nowrap; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
"""

type Row = Mapping[str, Any]


def write_page(rows: Sequence[Row], path: Path, *, title: str, units: Mapping[str, str] = NO_UNITS) -> None:
    """Write the page.

    Args:
        rows: Of `series`.
        path: A local file. It is replaced.
        title: Says which place it is.
        units: Of values, by name. Those without one are left out.

    Raises:
        StoreError: The file cannot be written.
    """
    try:
        path.write_text(page_html(rows, title=title, units=units), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error


def page_html(rows: Sequence[Row], *, title: str, units: Mapping[str, str] = NO_UNITS) -> str:
    """Return the page; see `write_page`."""
    names = [name for name in (rows[0] if rows else {}) if name not in ABOUT]
    charts = "".join(_chart(rows, name, units.get(name, "")) for name in names)
    head = "".join(
        f'<th class="n">{escape(named_with_unit(name, units.get(name, "")))}</th>' for name in names
    )
    lines = "".join(_line(row, names) for row in rows)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<style>{page_style()}{_STYLE}</style></head><body><main>\n<h1>{escape(title)}</h1>\n{charts}"
        '<div class="wide" tabindex="0" role="region" aria-label="Images">'
        f"<table><thead><tr><th>time</th>{head}<th>status</th><th>image</th></tr></thead>"
        f"<tbody>{lines}</tbody></table></div>\n</main></body></html>\n"
    )


def _chart(rows: Sequence[Row], name: str, unit: str) -> str:
    """Return a figure: a dot for each value, and a short line at the bottom where there is none."""
    times = np.array([time_us(row["time"]) for row in rows if row["time"] is not None])
    values = np.array(
        [np.nan if row[name] is None else row[name] for row in rows if row["time"] is not None], "float64"
    )
    is_known = np.isfinite(values)
    found = f"{counted(int(is_known.sum()), 'value')} of {counted(len(rows), 'image')}"
    title = f"{named_with_unit(name, unit)}, {found}"
    if not is_known.any():
        return f"<figure><figcaption>{escape(title)}: no value has a time</figcaption></figure>\n"
    first, last = int(times[0]), int(times[-1])
    low, high = float(values[is_known].min()), float(values[is_known].max())
    room = (high - low) * _ROOM or abs(high) * _ROOM or 0.5
    bottom, top = low - room, high + room
    x = (times - first) / (last - first) if last > first else np.full(len(times), 0.5)
    y = (values - bottom) / (top - bottom)
    dots = "".join(
        f'<path class="dots" d="{path([(x[n], y[n])])}h0"><title>{format_moment(int(times[n]))}: '
        f"{with_unit(f'{values[n]:.6g}', unit)}</title></path>"
        for n in np.flatnonzero(is_known)
    )
    gaps = "".join(f"{path([(x[n], 0)])}v-{_MARK}" for n in np.flatnonzero(~is_known))
    chart = Chart(
        title=title,
        said=f"{name} from {low:.6g} to {with_unit(f'{high:.6g}', unit)}",
        marks=f'<path class="gap" d="{gaps}"/>{line_marks(x, y)[0]}{dots}',
        x_ticks=time_ticks(first, last) if last > first else ((0.5, format_moment(first)[:10]),),
        y_ticks=number_ticks(bottom, top, most=4),
        legend=(("gap", "no value"),) if gaps else (),
    )
    return f"{chart.html(2)}\n"


def _line(row: Row, names: Sequence[str]) -> str:
    values = "".join(
        f'<td class="n">{"" if row[name] is None else format(row[name], ".6g")}</td>' for name in names
    )
    time = "" if row["time"] is None else json_time(row["time"])
    said = escape(row["status"] if row["reason"] is None else f"{row['status']}: {row['reason']}")
    return f"<tr><td>{time}</td>{values}<td>{said}</td><td>{linked(row['scene'], row['href'])}</td></tr>\n"
