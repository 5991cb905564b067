"""``pixel-gather compact``: the space of shards that appends have continued."""

import json
from dataclasses import asdict
from typing import Any

import click

from pixel_gather.core.model.plurals import counted
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
    new version. Former versions can still be opened. What an abandoned append has left is removed.

    \b
    pixel-gather compact out/bolzano.zarr
    """
    done = compact(cube, stores=stores_of(options))
    if as_json:
        click.echo(json.dumps(asdict(done), indent=2))
        return
    shards = counted(done.n_shards, "shard")
    click.echo(
        f"{shards} written again, {done.freed_nbytes:,} bytes freed; the cube is at version {done.version}"
    )
