"""``pixel-gather ls``: a prefix as a list file."""

import csv
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final

import click

from pixel_gather.core.time_range import format_moment
from pixel_gather.features.ls.ls import ls
from pixel_gather.io.lists.href_band import (
    FindBand,
    band_finder,
    note_of_equal_times,
    note_of_names,
    note_of_words,
)
from pixel_gather.io.lists.href_time import AUTO, guess_pattern, time_finder
from pixel_gather.io.lists.list_prefix import ListedObject
from pixel_gather_cli.request_options import in_home, store_options, stores_of

type _Row = dict[str, str | int | None]

_N_LOOKED_AT: Final = 1000
"""If none of the first objects has a time, the list is printed as text."""

_MOST_TIMES: Final = 100_000
"""Later times are not compared, so that the memory for a long listing is bounded."""

_MOST_OF_ONE_TIME: Final = 50
_MOST_SHOWN: Final = 20


@click.command("ls")
@click.argument("prefix")
@click.option("--glob", metavar="PATTERN", help="Match the path below the prefix, such as '**/*_B4.TIF'.")
@click.option("--regex", metavar="PATTERN", help="Search this regular expression in the whole href.")
@click.option(
    "--time",
    "pattern",
    metavar="PATTERN",
    help="Where the time is in an href: a regular expression with %Y %m %d %j %H %M %S for its "
    "parts, such as _%Y%m%d_; or auto, for the names of Landsat, Sentinel, HLS, MODIS, VIIRS, OPERA, "
    "ECOSTRESS, EMIT, Planet and NAIP products.  [default: auto]",
)
@click.option(
    "--band",
    "band_pattern",
    metavar="PATTERN",
    help="Where the band is in an href: a regular expression with the band in parentheses, such as "
    r"'_(B\d+)\.tif'; or auto, for the names of Landsat, Sentinel, HLS, OPERA and ECOSTRESS products. "
    "Files whose hrefs differ in nothing else are one scene. With a group (?P<scene>...), those are in which "
    "it matches the same text.",
)
@click.option("--long", "is_long", is_flag=True, help="CSV with size and modification time.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="One JSON object a line: href, time, band, scene, size, modification time.",
)
@store_options
def ls_command(
    *,
    prefix: str,
    glob: str | None,
    regex: str | None,
    pattern: str | None,
    band_pattern: str | None,
    is_long: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """List the files below a folder or s3://bucket/prefix, as a list file for other commands.

    If file names contain the time of observation, the list is CSV with a column time, which becomes the
    first axis of a cube. Otherwise it is text. With --band it has columns band and scene: each band becomes
    an array of the cube, and files of one scene share a row.

    \b
    pixel-gather ls s3://bucket/landsat/ --glob '**/*_B4.TIF' > list.csv
    pixel-gather ls s3://bucket/landsat/ --glob '**/*_SR_B?.TIF' --band auto > list.csv
    """
    find = time_finder(pattern or AUTO, field="--time")
    find_band = None if band_pattern is None else band_finder(band_pattern, field="--band")
    found = ls(in_home(prefix), glob=glob, regex=regex, stores=stores_of(options))
    ahead = list(islice(found, _N_LOOKED_AT))
    if not ahead:
        click.echo(f"no file below {prefix} matches", err=True)
        return
    has_time = pattern is not None or any(find(item.href) is not None for item in ahead)
    of_names = [*(["time"] if has_time else []), *(["band", "scene"] if find_band else [])]
    columns = ["href", *of_names, *(["size_bytes", "last_modified"] if is_long else [])]
    named = _Named(find if has_time else lambda _: None, find_band)
    rows = named.rows(chain(ahead, found))
    if as_json:
        shown = ["href", *of_names, "size_bytes", "last_modified"]
        for row in rows:
            click.echo(json.dumps({name: row[name] for name in shown}))
    elif len(columns) == 1:
        for row in rows:
            click.echo(row["href"])
    else:
        lines = csv.DictWriter(sys.stdout, columns, extrasaction="ignore", lineterminator="\n")
        lines.writeheader()
        lines.writerows(rows)
    for note in _notes(
        named, [item.href for item in ahead], has_time=has_time, has_bands=find_band is not None
    ):
        click.echo(f"warning: {note}", err=True)


def _notes(named: "_Named", hrefs: list[str], *, has_time: bool, has_bands: bool) -> Iterator[str]:
    if not has_time:
        pattern = guess_pattern(hrefs)
        way = "say where it is by --time, such as _%Y%m%d_"
        if pattern is not None:
            way = f"try --time {shlex.quote(pattern)}"
        yield f"no time was found in the names: {way}; see ls --help"
    if has_time and named.n_timeless:
        yield (
            f"{named.n_timeless:,} of {named.n:,} hrefs contain no time: a cube has a time axis only if all "
            "rows have a time; see --time"
        )
    if has_bands and named.n_bandless:
        yield (
            f"{named.n_bandless:,} of {named.n:,} hrefs contain no band, and a list has bands in all lines "
            "or in none: leave these files out by --glob, or see --band"
        )
    if has_bands:
        return
    of_words = None if has_time else note_of_words(hrefs)
    if (note := note_of_names(hrefs) or named.equal_times(hrefs) or of_words) is not None:
        yield note


class _Named:
    """Says what the names of files tell, and counts what is missing or repeated."""

    def __init__(self, find_time: Callable[[str], int | None], find_band: FindBand | None) -> None:
        self._find_time, self._find_band = find_time, find_band
        self._first: dict[int, str] = {}
        self._same_time: dict[int, list[str]] = {}
        self.n = self.n_timeless = self.n_bandless = self._n_equal = 0

    def rows(self, found: Iterable[ListedObject]) -> Iterator[_Row]:
        for item in found:
            time_us = self._find_time(item.href)
            said = None if self._find_band is None else self._find_band(item.href)
            self.n += 1
            self.n_timeless += time_us is None
            self.n_bandless += said is None
            if self._find_band is None and time_us is not None:
                self._note_time(item.href, time_us)
            yield {
                "href": item.href,
                "time": None if time_us is None else format_moment(time_us),
                "band": None if said is None else said.band,
                "scene": None if said is None else said.scene,
                "size_bytes": item.nbytes,
                "last_modified": item.last_modified.isoformat(),
            }

    def _note_time(self, href: str, time_us: int) -> None:
        if (first := self._first.get(time_us)) is None:
            if len(self._first) < _MOST_TIMES:
                self._first[time_us] = href
            return
        same = self._same_time.get(time_us)
        self._n_equal += 1 if same is not None else 2
        if same is None:
            same = self._same_time[time_us] = [first]
        if len(same) < _MOST_OF_ONE_TIME:
            same.append(href)

    def equal_times(self, sample: Sequence[str]) -> str | None:
        """Return a remark on files of one time, or None. A sample of all hrefs checks its advice."""
        some = list(islice(self._same_time.values(), _MOST_SHOWN))
        return note_of_equal_times(self._n_equal, self.n, some, sample=sample) if some else None
