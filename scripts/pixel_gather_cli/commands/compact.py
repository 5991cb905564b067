"""``pixel-gather compact``: the space of shards that appends have continued, and of old tables."""

import json
from typing import Any

import click
from msgspec import to_builtins

from pixel_gather.core.model.plurals import counted
from pixel_gather.features.versions.compact_table import compact_table
from pixel_gather.features.versions.versions import compact
from pixel_gather_cli.progress import with_progress
from pixel_gather_cli.request_options import store_options, stores_of


@click.command("compact")
@click.argument("cube")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_options
@with_progress("compacting")
def compact_command(*, cube: str, as_json: bool, **options: Any) -> None:
    """Free the space of chunks that later appends have replaced.

    CUBE is a folder or s3://bucket/prefix. Shards with such chunks are written again, and the cube gets a
    new version. Former versions can still be opened. What an abandoned append has left is removed,
    but for objects of a cube without shards.

    CUBE may also be the folder of a deployment's table. Then all versions but the last two are removed.

    \b
    pixel-gather compact out/bolzano.zarr
    pixel-gather compact s3://my-cubes/tables/zones-ndvi
    """
    stores = stores_of(options)
    if (table := compact_table(cube, stores=stores)) is not None:
        removed = (
            f"{counted(table.n_removed, 'old version')} removed; the table is at version {table.version}"
        )
        click.echo(json.dumps(to_builtins(table), indent=2) if as_json else removed)
        return
    done = compact(cube, stores=stores)
    if as_json:
        click.echo(json.dumps(to_builtins(done), indent=2))
        return
    shards = counted(done.n_shards, "shard")
    click.echo(
        f"{shards} written again, {done.freed_nbytes:,} bytes freed; the cube is at version {done.version}"
    )
