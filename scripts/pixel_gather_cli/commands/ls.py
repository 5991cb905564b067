"""``pixel-gather ls``: a prefix as a list file."""

import csv
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import click

from pixel_gather.adapters.source_list.listing import list_objects
from pixel_gather.request.href import IN_PROCESS
from pixel_gather_cli.request_options import store_options, stores_of


@click.command("ls")
@click.argument("prefix")
@click.option("--glob", metavar="PATTERN", help="Of the path below the prefix, such as '**/*_B4.TIF'.")
@click.option("--regex", metavar="PATTERN", help="Searched for in the whole href.")
@click.option("--long", "is_long", is_flag=True, help="CSV with size and time of change instead of text.")
@store_options
def ls_command(*, prefix: str, glob: str | None, regex: str | None, is_long: bool, **options: Any) -> None:
    """List what lies below a folder or s3://bucket/prefix, as a list file for plan, run and drill.

    \b
    pixel-gather ls s3://bucket/landsat/ --glob '**/*_B4.TIF' > list.txt
    """
    found = list_objects(
        prefix,
        glob=glob,
        regex=regex,
        policy=IN_PROCESS.within(str(Path.cwd())),
        settings=stores_of(options),
    )
    first = next(found, None)
    if first is None:
        click.echo(f"nothing below {prefix} matches", err=True)
        return
    found = chain((first,), found)
    if not is_long:
        for item in found:
            click.echo(item.href)
        return
    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(["href", "size_bytes", "last_modified"])
    lines.writerows([item.href, item.nbytes, item.last_modified.isoformat()] for item in found)
