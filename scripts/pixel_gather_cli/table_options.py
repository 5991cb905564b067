"""The options of commands that make a table of features and images."""

from pathlib import Path
from typing import Any, Final

import click

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.plurals import counted
from pixel_gather.in_process.table_job import make_table, plan_table
from pixel_gather.io.event_loop import run
from pixel_gather.tables.image_work import TableKind
from pixel_gather.tables.table_page import write_table_page
from pixel_gather.tables.table_request import TableRequest
from pixel_gather.tables.wide_table import write_wide
from pixel_gather_cli.deployment.remote import place_options, target_of_options
from pixel_gather_cli.deployment.tables import table_on_aws
from pixel_gather_cli.json_output import print_result
from pixel_gather_cli.progress import open_progress
from pixel_gather_cli.request_options import check_folders, in_home, settings_of
from pixel_gather_cli.table_text import made_text, plan_text
from pixel_gather_cli.value_options import (
    MASK_OPTION,
    NAME_OPTIONS,
    SCENE_OPTIONS,
    scenes_of_options,
    values_of_options,
)

FEATURE_OPTIONS: Final = (
    click.option("--id", "id_column", metavar="COLUMN", help="Ids of the features.  [default: 1, 2, ...]"),
    click.option(
        "--crs", metavar="CRS", help="CRS of the features.  [default: as the file says, or EPSG:4326]"
    ),
    click.option("--time", "time_column", metavar="COLUMN", help="Times of the features."),
    click.option(
        "--tolerance",
        metavar="DURATION",
        help="With --time: only images this near in time, such as 10d or 36h.",
    ),
)
"""Which columns of the features mean what."""

IMAGE_OPTIONS: Final = (
    click.option("--sources", metavar="LIST", help="The images: a list file, or - for standard input."),
    *SCENE_OPTIONS,
)

VALUE_OPTIONS: Final = (
    click.option(
        "--by",
        metavar="WHAT",
        help="ndvi, or red,nir, or evi=2.5*(nir-red)/(nir+1).  [default: all bands, as they are stored]",
    ),
    MASK_OPTION,
    *NAME_OPTIONS,
)

TABLE_OPTIONS: Final = (
    click.option("--to", metavar="FILE", help="The table, a Parquet file."),
    click.option(
        "--append-to",
        metavar="TABLE",
        help="Add the images that this table lacks, or make it; with --deployed its name.",
    ),
    click.option(
        "--wide",
        metavar="FILE",
        help="Write a wide CSV as well: a line a feature, a column a time. The first value of a time counts.",
    ),
    click.option("--html", metavar="FILE", help="Write a page of the table as well: charts, map, failures."),
    click.option("--max-usd", type=float, metavar="USD", help="Refuse a table that would cost more."),
    click.option("--max-seconds", type=float, metavar="S", help="Refuse a table that would take longer."),
    click.option(
        "--dry-run", is_flag=True, help="Print requests, bytes, seconds and dollars. Reads no pixel."
    ),
    *place_options("Make it on AWS, next to the data. The table stays there."),
    click.option("--json", "as_json", is_flag=True, help="JSON instead of text."),
    click.option("--quiet", is_flag=True, help="Show no progress."),
)


def table_fields(features: str, options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options of a table, and return them as the arguments of `TableRequest.of`."""
    sources = options.pop("sources")
    kind, search = scenes_of_options(sources, options, what="--sources", field="sources")
    limits = {"usd": options.pop("max_usd"), "seconds": options.pop("max_seconds")}
    fields = {
        "features": in_home(features),
        "sources": in_home(sources) if kind is None else {kind: search},
        "id": options.pop("id_column"),
        "x": options.pop("x", None),
        "y": options.pop("y", None),
        "crs": options.pop("crs"),
        "time": options.pop("time_column"),
        "tolerance": options.pop("tolerance"),
        "by": options.pop("by"),
        **values_of_options(options),
        "limits": {name: value for name, value in limits.items() if value is not None},
    }
    return {name: value for name, value in fields.items() if value is not None and value not in ({}, False)}


def run_table(kind: TableKind, features: str, options: dict[str, Any]) -> int:
    """Run a command that makes a table, or its dry run. Return the exit code: 1 if an image was not read."""
    what = kind.about["kind"]
    to, wide, html = (in_home(options.pop(name)) for name in ("to", "wide", "html"))
    append_to = options.pop("append_to")
    check_folders(wide=wide, html=html)
    as_json, is_dry_run, quiet = (options.pop(name) for name in ("as_json", "dry_run", "quiet"))
    target = target_of_options(options)
    fields = table_fields(features, options)
    request = TableRequest.of(**fields)
    # A deployment makes the table, and keeps it.
    if target is not None:
        for name, given in (("to", to), ("wide", wide), ("html", html)):
            if given is not None:
                raise RequestError("a deployment keeps the table on S3: leave it out", field=f"--{name}")
        if append_to is not None:
            fields["append_to"] = append_to
        return table_on_aws(target, kind, fields, is_dry_run=is_dry_run, as_json=as_json, quiet=quiet)
    # Here: a dry run, or the table and what is made of it.
    append_to, settings = in_home(append_to), settings_of(options)
    if is_dry_run:
        found = run(plan_table(kind, request, append_to=append_to, settings=settings)).to_json()
        print_result(found, plan_text, as_json=as_json)
        return 0
    if (to is None) == (append_to is None):
        raise RequestError(
            f"say where the table is written, by --to {what}.parquet or --append-to {what}.parquet",
            field="--to",
        )
    with open_progress(what, quiet=quiet, thing="image") as show:
        made = run(make_table(kind, request, to=to, append_to=append_to, settings=settings, on_progress=show))
    if wide is not None and (n_left_out := write_wide(made.path, Path(wide))):
        click.echo(
            f"{wide} lacks {counted(n_left_out, 'value')}: an earlier image of the same time, or also "
            f"without a time, has one; {made.path} has all",
            err=True,
        )
    if html is not None:
        write_table_page(made.path, html)
    for note in made.notes:
        click.echo(f"warning: {note}", err=True)
    print_result(made.to_json(), made_text(made), as_json=as_json)
    return 1 if made.n_failed else 0
