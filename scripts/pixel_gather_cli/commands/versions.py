"""``pixel-gather versions``: what each append has added to a cube."""

import json
from collections.abc import Sequence
from typing import Any

import click
from msgspec import to_builtins

from pixel_gather.core.model.plurals import counted
from pixel_gather.features.join.icechunk_repository import JoinedVersion
from pixel_gather.features.join.join import joined_versions
from pixel_gather.features.versions.versions import list_versions
from pixel_gather.in_process.joined_places import is_joined
from pixel_gather_cli.json_output import print_json
from pixel_gather_cli.progress import with_progress
from pixel_gather_cli.request_options import store_options, stores_of


@click.command("versions")
@click.argument("cube")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@store_options
@with_progress("reading")
def versions_command(*, cube: str, as_json: bool, **options: Any) -> None:
    """List the versions of a cube, and what each append has added.

    CUBE is a folder or s3://bucket/prefix, of a cube or of joined cubes. Former versions can be opened in
    Python, by pixel_gather.open_cube(CUBE, version=N) until they are forgotten, or by open_joined.

    \b
    pixel-gather versions out/bolzano.zarr
    """
    stores = stores_of(options)
    if is_joined(cube, stores=stores):
        click.echo(_versions_of_joined(joined_versions(cube, stores=stores), as_json=as_json))
        return
    listed = list_versions(cube, stores=stores)
    found, there = listed.cube.versions, listed.there
    if as_json:
        print_json([each.to_json() | {"is_kept": each.number in there} for each in found])
        return
    click.echo(f"{'version':>7}  {'committed (UTC)':<19}  {'rows':>9}  {'sources':>9}  {'skipped':>7}  what")
    for each in found:
        what = each.kind if each.number in there else f"{each.kind}, forgotten"
        if each.n_retried:
            what += f", {each.n_recovered:,} of {each.n_retried:,} failed sources read,"
        added = f"{each.n_sources:>+9,}  {each.n_skipped:>7,}"
        when = each.committed_at[:19].replace("T", " ")
        click.echo(f"{each.number:>7}  {when}  {each.n_rows:>9,}  {added}  {what} {each.digest[:16]}")
    if n := listed.images_per_chip:
        click.echo(f"each chip has {counted(n, 'row')}, one for each image", err=True)


def _versions_of_joined(found: Sequence[JoinedVersion], *, as_json: bool) -> str:
    """Return the versions of joined cubes, the first one first."""
    oldest_first = found[::-1]
    if as_json:
        return json.dumps(
            [to_builtins(each) | {"at": each.at.isoformat()} for each in oldest_first], indent=2
        )
    head = f"{'version':>7}  {'committed (UTC)':<19}  {'rows':>9}  what"
    lines = [head]
    for each in oldest_first:
        when, n_rows = f"{each.at:%Y-%m-%d %H:%M:%S}", each.added.get("rows", 0)
        lines.append(f"{each.number:>7}  {when}  {n_rows:>+9,}  {each.message} {each.id}")
    return "\n".join(lines)
