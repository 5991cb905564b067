"""``pixel-gather series``: one place through all images, drawn in the terminal."""

import json
from pathlib import Path
from typing import Any

import click

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.shown import value_in_words
from pixel_gather.features.series.series import place_of, series_async, sparkline
from pixel_gather.features.series.series_page import ABOUT, write_page
from pixel_gather.features.series.series_rows import NOWHERE, PlaceSeries, json_time
from pixel_gather.io.event_loop import run
from pixel_gather.tables.table_request import TableRequest
from pixel_gather_cli.progress import open_progress
from pixel_gather_cli.request_options import (
    Numbers,
    check_folders,
    in_home,
    read_geojson,
    settings_of,
    settings_options,
)
from pixel_gather_cli.table_options import IMAGE_OPTIONS, VALUE_OPTIONS
from pixel_gather_cli.value_options import scenes_of_options, values_of_options
from pixel_gather_cli.with_options import with_options

_PLACE = (
    click.option("--point", type=Numbers("LON,LAT", kind=float), help="Longitude and latitude in degrees."),
    click.option(
        "--geojson", metavar="FILE", help="A polygon, instead of the point: the mean of its pixels."
    ),
)
_OUTPUT = (
    click.option("--json", "as_json", is_flag=True, help="JSON instead of a table: one object a line."),
    click.option("--html", metavar="FILE", help="Write a page with a chart of each value as well."),
    click.option("--quiet", is_flag=True, help="Show no progress."),
)


@click.command("series")
@with_options(*_PLACE, *IMAGE_OPTIONS, *VALUE_OPTIONS, *_OUTPUT)
@settings_options
def series_command(**options: Any) -> int:
    """Read one point or polygon through all images, and draw its values by time.

    \b
    pixel-gather series --point 11.35,46.5 --sources list.csv --by ndvi --mask scl:3,8,9,10
    """
    point, geojson, sources = options.pop("point"), options.pop("geojson"), options.pop("sources")
    as_json, html, quiet = (options.pop(name) for name in ("as_json", "html", "quiet"))
    check_folders(html=html)
    if (point is None) == (geojson is None):
        raise RequestError("give one of them", field="--point, --geojson")
    kind, search = scenes_of_options(sources, options, what="--sources", field="sources")
    request = TableRequest.of(
        features=place_of(point=point, geojson=None if geojson is None else read_geojson(geojson)),
        sources=in_home(sources) if kind is None else {kind: search},
        by=options.pop("by"),
        **values_of_options(options),
    )
    settings = settings_of(options)
    with open_progress("series", quiet=quiet, thing="image") as show:
        found = series_async(request, is_point=point is not None, settings=settings, on_progress=show)
        read = run(found)
    if html is not None:
        title = "Series of a polygon" if point is None else f"Series at {point[0]:g}, {point[1]:g}"
        write_page(read.rows, Path(in_home(html)), title=title, units=read.units)
    if as_json:
        for row in read.rows:
            click.echo(json.dumps(row | {"time": _time(row)}))
    else:
        click.echo(series_text(read), nl=False)
    return 1 if any(row["reason"] for row in read.rows) else 0


def series_text(series: PlaceSeries) -> str:
    """Return a line for each image, and below it a sparkline of each value."""
    rows = series.rows
    names = [name for name in (rows[0] if rows else {}) if name not in ABOUT]
    lines = []
    for row in rows:
        values = "  ".join(f"{name} {value_in_words(row[name])}" for name in names if row[name] is not None)
        lines.append(f"{_time(row) or '-':20}  {values or _failure(row)}")
    for name in names:
        known = [row[name] for row in rows if row[name] is not None]
        drawn = sparkline([row[name] for row in rows])
        unit = f" {series.units[name]}" if name in series.units else ""
        ends = [value_in_words(each) for each in (min(known), max(known))] if known else []
        bounds = f"{' to '.join(ends)}{unit}" if ends else "no value"
        lines.append(f"{name}: {drawn}  {bounds}, {counted(len(rows), 'image')}")
    return "".join(f"{line.rstrip()}\n" for line in lines) or f"{NOWHERE}\n"


def _failure(row: dict[str, Any]) -> str:
    return f"{row['status']}: {row['reason']}" if row["reason"] else str(row["status"])


def _time(row: dict[str, Any]) -> str | None:
    return None if row["time"] is None else json_time(row["time"])
