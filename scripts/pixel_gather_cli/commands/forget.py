"""``pixel-gather forget``: remove former versions of a cube."""

import sys
from typing import Any

import click

from pixel_gather.core.model.plurals import counted
from pixel_gather.features.versions.versions import ListedVersions, forget, list_versions
from pixel_gather_cli.json_output import print_result
from pixel_gather_cli.request_options import store_options, stores_of


@click.command("forget")
@click.argument("cube")
@click.option("--before", required=True, metavar="VERSION|TIME", help="Remove versions before this one.")
@click.option("--yes", is_flag=True, help="Do not ask, also if no former version is left.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@store_options
def forget_command(*, cube: str, before: str, yes: bool, as_json: bool, **options: Any) -> int:
    """Remove former versions of a cube, which can then no longer be opened.

    CUBE is a folder or s3://bucket/prefix. The present version and all of its rows stay. If no former version
    would be left, it asks first.

    \b
    pixel-gather forget out/bolzano.zarr --before 2026-01-01
    """
    stores = stores_of(options)
    if not yes and not _may_go(cube, before, list_versions(cube, stores=stores)):
        click.echo("nothing was removed", err=True)
        return 1
    removed = forget(cube, before, stores=stores)
    said = f"{counted(len(removed), 'version')} removed"
    print_result([each.to_json() for each in removed], said, as_json=as_json)
    return 0


def _may_go(cube: str, before: str, listed: ListedVersions) -> bool:
    """Ask before the last former version goes."""
    removed = listed.before(before)
    if not removed or len(removed) < len(listed.there) - 1:
        return True
    n = counted(len(removed), "former version")
    said = f"{cube} keeps only its present version: {n} cannot be opened again"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{said}; give --yes")
    return click.confirm(f"{said}. Go on?", err=True)
