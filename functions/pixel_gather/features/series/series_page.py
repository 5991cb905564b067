"""A series as one self-contained HTML page: a chart of each value, and a table of the images."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.shown import linked, value_in_words
from pixel_gather.core.time_range import format_moment
from pixel_gather.features.series.series_rows import NOWHERE, json_time, time_us
from pixel_gather.io.pictures.chart import (
    Chart,
    across,
    line_marks,
    named_with_unit,
    number_ticks,
    path,
    ticks_across,
    with_room,
    with_unit,
)
from pixel_gather.io.pictures.page_style import html_page, write_html

ABOUT: Final = ("time", "scene", "href", "valid", "status", "reason")
"""Fields of a row that are no values."""

NO_UNITS: Final[Mapping[str, str]] = MappingProxyType({})

_MARK: Final = 60
_STYLE: Final = """
.wide { margin-top: 1.5rem; }
.drawing { height: 14rem; } .drawing .gap { stroke: var(--figure-vermilion); stroke-width: 2; }
.swatch.gap { background: var(--figure-vermilion); } td:first-child { white-space: nowrap; }
"""

type Row = Mapping[str, Any]


def write_page(rows: Sequence[Row], path: Path, *, title: str, units: Mapping[str, str] = NO_UNITS) -> None:
    """Write the page.

    The file is replaced. Values without a unit are not in ``units``.

    Raises:
        StoreError: The file cannot be written.
    """
    write_html(page_html(rows, title=title, units=units), path)


def page_html(rows: Sequence[Row], *, title: str, units: Mapping[str, str] = NO_UNITS) -> str:
    """Return the page; see `write_page`."""
    if not rows:
        return html_page(f"<p>{NOWHERE[0].upper()}{NOWHERE[1:]}.</p>\n", title=title, style=_STYLE)
    names = [name for name in rows[0] if name not in ABOUT]
    charts = "".join(_chart(rows, name, units.get(name, "")) for name in names)
    head = "".join(
        f'<th class="n">{escape(named_with_unit(name, units.get(name, "")))}</th>' for name in names
    )
    lines = "".join(_line(row, names) for row in rows)
    table = (
        '<div class="wide" tabindex="0" role="region" aria-label="Images">'
        f"<table><thead><tr><th>time</th>{head}<th>status</th><th>image</th></tr></thead>"
        f"<tbody>{lines}</tbody></table></div>\n"
    )
    return html_page(charts + table, title=title, style=_STYLE)


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
    low, high = float(values[is_known].min()), float(values[is_known].max())
    bottom, top = with_room(low, high)
    x = across(times)
    y = (values - bottom) / (top - bottom)
    dots = "".join(
        f'<path class="dots" d="{path([(x[n], y[n])])}h0"><title>{format_moment(int(times[n]))}: '
        f"{with_unit(value_in_words(values[n]), unit)}</title></path>"
        for n in np.flatnonzero(is_known)
    )
    gaps = "".join(f"{path([(x[n], 0)])}v-{_MARK}" for n in np.flatnonzero(~is_known))
    chart = Chart(
        title=title,
        said=f"{name} from {value_in_words(low)} to {with_unit(value_in_words(high), unit)}",
        marks=f'<path class="gap" d="{gaps}"/>{line_marks(x, y)[0]}{dots}',
        x_ticks=ticks_across(times),
        y_ticks=number_ticks(bottom, top, most=4),
        legend=(("gap", "no value"),) if gaps else (),
    )
    return f"{chart.html(2)}\n"


def _line(row: Row, names: Sequence[str]) -> str:
    values = "".join(
        f'<td class="n">{"" if row[name] is None else value_in_words(row[name])}</td>' for name in names
    )
    time = "" if row["time"] is None else json_time(row["time"])
    said = escape(row["status"] if row["reason"] is None else f"{row['status']}: {row['reason']}")
    return f"<tr><td>{time}</td>{values}<td>{said}</td><td>{linked(row['scene'], row['href'])}</td></tr>\n"
