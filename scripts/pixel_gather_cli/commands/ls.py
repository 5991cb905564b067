"""``pixel-gather ls``: a prefix as a list file."""

import csv
import sys
from itertools import chain, islice
from typing import Any, Final

import click

from pixel_gather.adapters.href_time import AUTO, time_finder
from pixel_gather.adapters.source_list.list_columns import format_time
from pixel_gather.ls_in_process import ls
from pixel_gather_cli.request_options import in_home, store_options, stores_of

_N_LOOKED_AT: Final = 1000
"""Objects after which a list without any time is printed as text."""


@click.command("ls")
@click.argument("prefix")
@click.option("--glob", metavar="PATTERN", help="Of the path below the prefix, such as '**/*_B4.TIF'.")
@click.option("--regex", metavar="PATTERN", help="Searched for in the whole href.")
@click.option(
    "--time",
    "pattern",
    metavar="PATTERN",
    help="Where hrefs tell the time: a regular expression in which %Y %m %d %j %H %M %S stand for its "
    "parts, such as _%Y%m%d_.  [default: the names of Landsat, Sentinel, HLS, MODIS and VIIRS products]",
)
@click.option("--long", "is_long", is_flag=True, help="CSV with size and time of change.")
@store_options
def ls_command(
    *, prefix: str, glob: str | None, regex: str | None, pattern: str | None, is_long: bool, **options: Any
) -> None:
    """List what lies below a folder or s3://bucket/prefix, as a list file for plan, run and drill.

    Where file names tell the time of observation, the list is CSV with a column time, which becomes the first
    axis of a cube. Otherwise it is text.

    \b
    pixel-gather ls s3://bucket/landsat/ --glob '**/*_B4.TIF' > list.csv
    """
    find = time_finder(pattern or AUTO, field="--time")
    found = ls(in_home(prefix), glob=glob, regex=regex, stores=stores_of(options))
    ahead = list(islice(found, _N_LOOKED_AT))
    if not ahead:
        click.echo(f"nothing below {prefix} matches", err=True)
        return
    has_time = pattern is not None or any(find(item.href) is not None for item in ahead)
    n, n_timeless = 0, 0
    lines = csv.writer(sys.stdout, lineterminator="\n")
    columns = ["href", *(["time"] if has_time else []), *(["size_bytes", "last_modified"] if is_long else [])]
    if len(columns) > 1:
        lines.writerow(columns)
    for item in chain(ahead, found):
        time_us = find(item.href) if has_time else None
        n, n_timeless = n + 1, n_timeless + (time_us is None)
        time = "" if time_us is None else format_time(time_us)
        values = {
            "href": item.href,
            "time": time,
            "size_bytes": item.nbytes,
            "last_modified": item.last_modified.isoformat(),
        }
        if len(columns) > 1:
            lines.writerow([values[column] for column in columns])
        else:
            click.echo(item.href)
    if has_time and n_timeless:
        click.echo(
            f"{n_timeless:,} of {n:,} hrefs tell no time: a cube has a time axis only where all rows have "
            "one; see --time",
            err=True,
        )
