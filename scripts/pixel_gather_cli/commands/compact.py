"""``pixel-gather compact``: the space of shards that appends have continued, and of old tables."""

from typing import Any

import click

from pixel_gather.core.model.plurals import counted
from pixel_gather.features.versions.compact_table import compact_table
from pixel_gather.features.versions.versions import compact
from pixel_gather_cli.json_output import json_option, print_result
from pixel_gather_cli.progress import with_progress
from pixel_gather_cli.request_options import store_options, stores_of


@click.command("compact")
@click.argument("cube")
@json_option
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
        print_result(table, removed, as_json=as_json)
        return
    done = compact(cube, stores=stores)
    shards = f"{counted(done.n_shards, 'shard')} written again, {done.freed_nbytes:,} bytes freed"
    print_result(done, f"{shards}; the cube is at version {done.version}", as_json=as_json)
