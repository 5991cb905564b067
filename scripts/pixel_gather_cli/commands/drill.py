"""``pixel-gather drill``: one pixel through all files."""

import csv
import json
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from math import isfinite
from typing import Any

import click
from rich.console import Console
from rich.table import Column, Table

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.shown import shown_href
from pixel_gather.core.model.status import Status
from pixel_gather.features.drill.drill import drill_async
from pixel_gather.features.drill.read_pixels import DrilledPixel, Value
from pixel_gather.io.event_loop import run
from pixel_gather_cli.request_options import Numbers, in_home, settings_of, settings_options
from pixel_gather_cli.with_options import other_commands_option

_COLUMNS = ("href", "time", "band", "col", "row", "value", "status")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@click.command("drill")
@click.argument("list_file", metavar="LIST")
@other_commands_option("--sources", "write the list without --sources: pixel-gather drill LIST")
@click.option("--point", type=Numbers("LON,LAT", kind=float), help="Longitude and latitude in degrees.")
@click.option("--xy", type=Numbers("X,Y", kind=float), help="Coordinates in each file's own CRS.")
@click.option("--pixel", type=Numbers("COL,ROW", kind=int), help="Column and row of each file, from 0.")
@click.option("--bands", type=Numbers("1,2,...", kind=int), help="Bands of each file.  [default: all]")
@click.option("--nodata", metavar="TEXT", help="Text for nodata.  [default: the value itself]")
@click.option("--out-of-bounds", default="", metavar="TEXT", help="Text for a pixel outside a file.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV instead of a table.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of a table: one object a line.")
@settings_options
def drill_command(*, list_file: str, as_csv: bool, as_json: bool, **options: Any) -> int:
    """Read one pixel of every file in LIST: a list file, or - for standard input.

    \b
    pixel-gather drill list.txt --point 11.35,46.5
    """
    if as_csv and as_json:
        raise click.UsageError("give --csv or --json, not both")
    place = {name: options.pop(name) for name in ("point", "xy", "pixel")}
    if sum(each is not None for each in place.values()) != 1:
        raise RequestError("give exactly one of --point, --xy and --pixel", field="drill")
    texts = {name: options.pop(name) for name in ("nodata", "out_of_bounds")}
    if as_json and (given := [name for name, text in texts.items() if text]):
        raise RequestError("JSON has is_nodata and status instead: leave it out", field=given[0])
    pixels = drill_async(
        in_home(list_file), **place, bands=options.pop("bands"), settings=settings_of(options)
    )
    hint = "" if place["point"] is None else "; longitude comes first: --point LON,LAT"
    n_failed = run(_print_json(pixels) if as_json else _print(pixels, as_csv=as_csv, hint=hint, **texts))
    return 1 if n_failed else 0


async def _print(
    pixels: AsyncGenerator[DrilledPixel], *, as_csv: bool, nodata: str | None, out_of_bounds: str, hint: str
) -> int:
    """Print each pixel when it arrives, or all of them as a table. Return how many files failed.

    Where the pixel is outside of all files, the hint is given.
    """
    n_failed, n_inside, outside = 0, 0, ""
    rows: list[tuple[str, ...]] = []
    lines = csv.writer(sys.stdout, lineterminator="\n")
    if as_csv:
        lines.writerow(_COLUMNS)
    async with aclosing(pixels):
        async for pixel in pixels:
            n_failed += _has_failed(pixel)
            n_inside += pixel.status is not Status.OUTSIDE
            outside = outside or pixel.reason or ""
            if pixel.reason and pixel.status is not Status.OUTSIDE:
                click.echo(f"{shown_href(pixel.source.href)}: {pixel.reason}", err=True)
            for line in _lines(pixel, nodata, out_of_bounds):
                if as_csv:
                    lines.writerow(line)
                else:
                    rows.append(line)
    if not as_csv:
        _print_table(rows)
    if outside and not n_inside:
        click.echo(f"no file has the pixel: in the first, {outside}{hint}", err=True)
    return n_failed


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table. The folder of all files stands above it, so that a narrow one shows what differs."""
    hrefs = sorted(href for href, *_ in rows) or [""]
    pairs = zip(hrefs[0], hrefs[-1], strict=False)  # what these two share, all do
    shared = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    folder = shared[: shared.rfind("/") + 1]
    table = Table(Column("href", overflow="fold"), *_COLUMNS[1:])
    for href, *others in rows:
        table.add_row(href.removeprefix(folder), *others)
    if folder:
        click.echo(f"files of {folder}")
    Console(width=None if sys.stdout.isatty() else 200, soft_wrap=True).print(table)


async def _print_json(pixels: AsyncGenerator[DrilledPixel]) -> int:
    """Print each pixel as a JSON object when it arrives. Return how many files failed."""
    n_failed = 0
    async with aclosing(pixels):
        async for pixel in pixels:
            n_failed += _has_failed(pixel)
            click.echo(json.dumps(_to_json(pixel), allow_nan=False))
    return n_failed


def _has_failed(pixel: DrilledPixel) -> bool:
    return pixel.status.is_failure and pixel.status is not Status.OUTSIDE


def _to_json(pixel: DrilledPixel) -> dict[str, Any]:
    """Return a pixel as plain values. Numbers that JSON lacks, such as NaN and complex ones, become text."""
    source = pixel.source
    return {
        "href": source.href,
        "time": None if source.time_us is None else _isoformat(source.time_us),
        "band": source.band,
        "col": pixel.col,
        "row": pixel.row,
        "values": {
            str(band): {"value": _plain(value), "is_nodata": pixel.is_nodata(value)}
            for band, value in zip(pixel.bands, pixel.values, strict=True)
        }
        if pixel.status is Status.OK
        else {},
        "status": pixel.status.name.lower(),
        "reason": pixel.reason,
    }


def _plain(value: Value) -> int | float | str:
    return value if isinstance(value, int) or (isinstance(value, float) and isfinite(value)) else str(value)


def _lines(pixel: DrilledPixel, nodata: str | None, out_of_bounds: str) -> Iterator[tuple[str, ...]]:
    source = pixel.source
    time = "" if source.time_us is None else _isoformat(source.time_us)
    if pixel.status is not Status.OK:
        text = out_of_bounds if pixel.status is Status.OUTSIDE else ""
        yield source.href, time, source.band or "", "", "", text, pixel.status.name.lower()
        return
    for band, value in zip(pixel.bands, pixel.values, strict=True):
        is_nodata = pixel.is_nodata(value)
        name = str(band) if source.band is None else source.band
        text = nodata if is_nodata and nodata is not None else str(value)
        status = "nodata" if is_nodata else "ok"
        yield source.href, time, name, str(pixel.col), str(pixel.row), text, status


def _isoformat(time_us: int) -> str:
    with suppress(OverflowError):
        return (_EPOCH + timedelta(microseconds=time_us)).isoformat()
    return str(time_us)
