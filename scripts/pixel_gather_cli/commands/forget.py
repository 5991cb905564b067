"""``pixel-gather forget``: remove former versions of a cube."""

import json
from typing import Any

import click

from pixel_gather.local.versions import forget
from pixel_gather.model.plurals import counted
from pixel_gather_cli.request_options import store_options, stores_of


@click.command("forget")
@click.argument("cube")
@click.option("--before", required=True, metavar="VERSION|TIME", help="Remove versions before this one.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@store_options
def forget_command(*, cube: str, before: str, as_json: bool, **options: Any) -> None:
    """Remove former versions of a cube, which can then no longer be opened.

    CUBE is a folder or s3://bucket/prefix. The present version and all of its rows stay.

    \b
    pixel-gather forget out/bolzano.zarr --before 2026-01-01
    """
    removed = forget(cube, before, stores=stores_of(options))
    if as_json:
        click.echo(json.dumps([each.to_json() for each in removed], indent=2))
        return
    click.echo(f"{counted(len(removed), 'version')} removed")
