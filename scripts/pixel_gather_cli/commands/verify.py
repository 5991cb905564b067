"""``pixel-gather verify``: compare a cube or a table with its receipt."""

from typing import Any

import click
from msgspec import to_builtins

from pixel_gather.core.model.plurals import counted
from pixel_gather.features.verify.check_cube import Verified
from pixel_gather.features.verify.check_table import VerifiedTable
from pixel_gather.features.verify.verify import find_table, verify, verify_table
from pixel_gather_cli.json_output import json_option, print_result
from pixel_gather_cli.progress import with_progress
from pixel_gather_cli.request_options import store_options, stores_of


@click.command("verify")
@click.argument("cube")
@json_option
@store_options
@with_progress("verifying")
def verify_command(*, cube: str, as_json: bool, **options: Any) -> int:
    """Read a cube or a table and compare it with its receipt.

    CUBE is a folder or s3://bucket/prefix. It may also be a table, whose name ends with .parquet, or the
    folder of a deployment's table or of one of its versions. Pixels and files are compared with the digests
    in its receipt.json, coordinates with rows.parquet, metadata and pages with their checksums. Of a table,
    all its files are compared. Every difference is one line. The exit code is 0 if there is none, 1 if there
    are some, and 2 if it cannot be read or has no receipt.

    \b
    pixel-gather verify out/bolzano.zarr
    pixel-gather verify plots.parquet
    pixel-gather verify s3://my-cubes/tables/zones-ndvi
    """
    stores = stores_of(options)
    found: Verified | VerifiedTable
    table = cube if cube.endswith(".parquet") else find_table(cube, stores=stores)
    if table is not None:
        found = verify_table(table, stores=stores)
        text = _table_text(found)
    else:
        found = verify(cube, stores=stores)
        text = _text(found)
    print_result(to_builtins(found) | {"is_same": found.is_same}, text, as_json=as_json)
    return 0 if found.is_same else 1


def _table_text(found: VerifiedTable) -> str:
    images = counted(found.n_images, "image")
    read = f"{counted(found.n_lines, 'line')} of {images} compared with the receipt: "
    if found.is_same:
        return f"{read}the same"
    return "\n".join([*found.differences, f"{read}{counted(len(found.differences), 'difference')}"])


def _text(found: Verified) -> str:
    coordinates = counted(found.n_coordinates, "coordinate")
    files = f"{coordinates} and {counted(found.n_files, 'file')} compared with the receipt: "
    if found.is_lossless:
        summary = f"{found.n_compared:,} of {counted(found.n_shards, 'shard')}, {files}"
    else:
        shards = counted(found.n_shards, "shard")
        summary = f"{shards} decoded, but not compared, because the pixels were stored with loss; {files}"
    if found.is_same:
        return f"{summary}the same"
    return "\n".join([*found.differences, f"{summary}{counted(len(found.differences), 'difference')}"])
