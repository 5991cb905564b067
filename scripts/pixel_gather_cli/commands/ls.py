"""``pixel-gather ls``: a prefix as a list file."""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final

import click

from pixel_gather.adapters.source_list.href_time import AUTO, time_finder
from pixel_gather.adapters.source_list.list_columns import format_time
from pixel_gather.adapters.source_list.listing import ListedObject
from pixel_gather.local.ls import ls
from pixel_gather_cli.request_options import in_home, store_options, stores_of

type _Row = dict[str, str | int | None]

_N_LOOKED_AT: Final = 1000
"""If none of the first objects has a time, the list is printed as text."""


@click.command("ls")
@click.argument("prefix")
@click.option("--glob", metavar="PATTERN", help="Match the path below the prefix, such as '**/*_B4.TIF'.")
@click.option("--regex", metavar="PATTERN", help="Search this regular expression in the whole href.")
@click.option(
    "--time",
    "pattern",
    metavar="PATTERN",
    help="Where the time is in an href: a regular expression with %Y %m %d %j %H %M %S for its "
    "parts, such as _%Y%m%d_.  [default: the names of Landsat, Sentinel, HLS, MODIS and VIIRS products]",
)
@click.option("--long", "is_long", is_flag=True, help="CSV with size and modification time.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a line: href, time, size, modification time."
)
@store_options
def ls_command(
    *,
    prefix: str,
    glob: str | None,
    regex: str | None,
    pattern: str | None,
    is_long: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """List the files below a folder or s3://bucket/prefix, as a list file for other commands.

    If file names contain the time of observation, the list is CSV with a column time, which becomes the
    first axis of a cube. Otherwise it is text.

    \b
    pixel-gather ls s3://bucket/landsat/ --glob '**/*_B4.TIF' > list.csv
    """
    find = time_finder(pattern or AUTO, field="--time")
    found = ls(in_home(prefix), glob=glob, regex=regex, stores=stores_of(options))
    ahead = list(islice(found, _N_LOOKED_AT))
    if not ahead:
        click.echo(f"no file below {prefix} matches", err=True)
        return
    has_time = pattern is not None or any(find(item.href) is not None for item in ahead)
    columns = ["href", *(["time"] if has_time else []), *(["size_bytes", "last_modified"] if is_long else [])]
    timed = _Timed(find if has_time else lambda _: None)
    rows = timed.rows(chain(ahead, found))
    if as_json:
        for row in rows:
            click.echo(json.dumps({name: value for name, value in row.items() if has_time or name != "time"}))
    elif len(columns) == 1:
        for row in rows:
            click.echo(row["href"])
    else:
        lines = csv.DictWriter(sys.stdout, columns, extrasaction="ignore", lineterminator="\n")
        lines.writeheader()
        lines.writerows(rows)
    if has_time and timed.n_timeless:
        click.echo(
            f"{timed.n_timeless:,} of {timed.n:,} hrefs contain no time: a cube has a time axis only if all "
            "rows have a time; see --time",
            err=True,
        )


class _Timed:
    """Finds the time of each object, and counts those without one."""

    def __init__(self, find: Callable[[str], int | None]) -> None:
        self._find = find
        self.n = 0
        self.n_timeless = 0

    def rows(self, found: Iterable[ListedObject]) -> Iterator[_Row]:
        for item in found:
            time_us = self._find(item.href)
            self.n += 1
            self.n_timeless += time_us is None
            yield {
                "href": item.href,
                "time": None if time_us is None else format_time(time_us),
                "size_bytes": item.nbytes,
                "last_modified": item.last_modified.isoformat(),
            }
