"""``pixel-gather versions``: what each append has added to a cube."""

import json
from typing import Any

import click

from pixel_gather.local.versions import kept, versions
from pixel_gather_cli.request_options import store_options, stores_of


@click.command("versions")
@click.argument("cube")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@store_options
def versions_command(*, cube: str, as_json: bool, **options: Any) -> None:
    """List the versions of a cube, and what each append has added.

    CUBE is a folder or s3://bucket/prefix. Former versions can be opened in Python, by
    pixel_gather.open_cube(CUBE, version=N), until they are forgotten.

    \b
    pixel-gather versions out/bolzano.zarr
    """
    stores = stores_of(options)
    found, there = versions(cube, stores=stores), kept(cube, stores=stores)
    if as_json:
        told = [each.to_json() | {"is_kept": each.number in there} for each in found]
        click.echo(json.dumps(told, indent=2))
        return
    click.echo(f"{'version':>7}  {'committed (UTC)':<19}  {'rows':>9}  {'sources':>9}  {'skipped':>7}  what")
    for each in found:
        what = each.kind if each.number in there else f"{each.kind}, forgotten"
        added = f"{each.n_sources:>+9,}  {each.n_skipped:>7,}"
        when = each.committed_at[:19].replace("T", " ")
        click.echo(f"{each.number:>7}  {when}  {each.n_rows:>9,}  {added}  {what} {each.digest[:16]}")
