"""The options of commands that make a table of features and images."""

import json
from pathlib import Path
from typing import Any, Final

import click

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.plurals import counted
from pixel_gather.in_process.table_job import MadeTable, make_table, plan_table
from pixel_gather.io.event_loop import run
from pixel_gather.tables.image_work import TableKind
from pixel_gather.tables.table_request import TableRequest
from pixel_gather.tables.wide_table import write_wide
from pixel_gather_cli.progress import open_progress
from pixel_gather_cli.request_options import in_home, settings_of
from pixel_gather_cli.value_options import SCENE_OPTIONS, bands_option, mask_option, scenes_of_options

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
    click.option(
        "--mask", metavar="BAND:VALUES", help="Pixels to drop, such as scl:3,8,9 or qa_pixel:bits=3,4."
    ),
    click.option(
        "--bands", metavar="NAMES", help="Bands that the names in --by stand for, such as red=B4,nir=B5."
    ),
    click.option("--raw", is_flag=True, help="Use stored values, without scale and offset."),
)

TABLE_OPTIONS: Final = (
    click.option("--to", metavar="FILE", help="The table, a Parquet file."),
    click.option(
        "--wide", metavar="FILE", help="Write a wide CSV as well: a line a feature, a column a time."
    ),
    click.option("--max-usd", type=float, metavar="USD", help="Refuse a table that would cost more."),
    click.option("--max-seconds", type=float, metavar="S", help="Refuse a table that would take longer."),
    click.option(
        "--dry-run", is_flag=True, help="Print requests, bytes, seconds and dollars. Reads no pixel."
    ),
    click.option("--json", "as_json", is_flag=True, help="JSON instead of text."),
    click.option("--quiet", is_flag=True, help="Show no progress."),
)


def table_request(features: str, options: dict[str, Any]) -> TableRequest:
    """Remove the options of a table, and return what it is asked for.

    Raises:
        RequestError: It names what is wrong.
    """
    sources = options.pop("sources")
    kind, search = scenes_of_options(sources, options, what="--sources", field="sources")
    mask, bands = options.pop("mask"), options.pop("bands")
    return TableRequest.of(
        features=in_home(features),
        sources=in_home(sources) if kind is None else {kind: search},
        id=options.pop("id_column"),
        x=options.pop("x", None),
        y=options.pop("y", None),
        crs=options.pop("crs"),
        time=options.pop("time_column"),
        tolerance=options.pop("tolerance"),
        by=options.pop("by"),
        mask=None if mask is None else mask_option(mask),
        bands=None if bands is None else bands_option(bands),
        raw=options.pop("raw"),
        limits={"usd": options.pop("max_usd"), "seconds": options.pop("max_seconds")},
    )


def run_table(kind: TableKind, features: str, options: dict[str, Any]) -> int:
    """Run a command that makes a table, or its dry run. Return the exit code: 1 if an image was not read.

    Args:
        kind: What is computed.
        features: As it was given.
        options: Of the command, without its own ones.

    Raises:
        RequestError: It names what is wrong.
    """
    what = kind.about["kind"]
    to, wide = in_home(options.pop("to")), in_home(options.pop("wide"))
    as_json, is_dry_run, quiet = (options.pop(name) for name in ("as_json", "dry_run", "quiet"))
    request = table_request(features, options)
    settings = settings_of(options)
    if is_dry_run:
        found = run(plan_table(kind, request, settings=settings))
        click.echo(json.dumps(found.to_json(), indent=2) if as_json else found.text, nl=as_json)
        return 0
    if to is None:
        raise RequestError(f"say where the table is written, such as --to {what}.parquet", field="--to")
    with open_progress(what, quiet=quiet, thing="image") as show:
        made = run(make_table(kind, request, to=to, settings=settings, on_progress=show))
    if wide is not None:
        write_wide(made.path, Path(wide))
    for note in made.notes:
        click.echo(note, err=True)
    click.echo(json.dumps(made.to_json(), indent=2) if as_json else made_text(made), nl=as_json)
    return 1 if made.n_failed else 0


def made_text(made: MadeTable) -> str:
    """Return what was made, in words."""
    statuses = ", ".join(f"{n:,} {name}" for name, n in made.n_by_status.items())
    failed = f", {made.n_failed:,} not read" if made.n_failed else ""
    far = f", {made.n_far:,} not opened" if made.n_far else ""
    return (
        f"{made.path}: {counted(made.n_lines, 'line')} of {counted(made.n_features, 'feature')} on "
        f"{counted(made.n_images, 'image')}{failed}{far}\n"
        f"{statuses}\n"
        f"{counted(made.n_requests, 'request')}, {made.nbytes / 1e6:,.2f} MB, {made.seconds:.2f} s\n"
    )
