"""``pixel-gather join``: many cubes as one array."""

from typing import Any, Final

import click

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.plurals import counted, size
from pixel_gather.features.join.join import Joined, JoinMode, join
from pixel_gather_cli.json_output import json_option, print_result
from pixel_gather_cli.progress import with_progress
from pixel_gather_cli.request_options import store_options, stores_of

_MODES: Final[tuple[JoinMode, ...]] = ("add", "replace", "copy")


@click.command("join")
@click.argument("cubes", nargs=-1, required=True)
@click.option("--to", required=True, metavar="PLACE", help="A folder or s3://bucket/prefix.")
@click.option("--add", is_flag=True, help="Add the cubes to those that are joined at PLACE.")
@click.option("--replace", is_flag=True, help="Join anew at PLACE. Former versions stay.")
@click.option("--copy", is_flag=True, help="Copy the shards: PLACE becomes a plain Zarr cube.")
@click.option(
    "--any-grid", is_flag=True, help="Also join windows that have the same size but lie at different places."
)
@click.option("--keep", metavar="NAME[,NAME]", help="More coordinates of the rows to keep in the array.")
@click.option("--list-shards", is_flag=True, help="Take the shards as they are now: for copied cubes.")
@json_option
@store_options
@with_progress("joining")
def join_command(*, cubes: tuple[str, ...], as_json: bool, keep: str | None, **options: Any) -> None:
    """Join many cubes into one array by their metadata. No pixel is read.

    CUBES are folders, s3://bucket/prefix, or patterns such as s3://bucket/tiles/*.zarr. Two small files of
    each are read. PLACE becomes an Icechunk repository whose arrays refer to the shards of the cubes. The
    cubes must stay where they are. Cubes of another grid, dtype, codec or shard shape become groups of their
    own.

    \b
    pixel-gather join out/tiles/*.zarr --to out/world.icechunk
    pixel-gather join out/new.zarr --add --to out/world.icechunk
    """
    modes: list[JoinMode] = [mode for mode in _MODES if options.pop(mode)]
    if len(modes) > 1:
        raise RequestError("give one of --add, --replace and --copy", field="join")
    joined = join(
        cubes,
        mode=modes[0] if modes else "new",
        keep=[] if keep is None else keep.split(","),
        stores=stores_of(options),
        **options,
    )
    print_result(joined, _text, as_json=as_json)
    for warning in joined.warnings:
        click.echo(f"warning: {warning}", err=True)


def _text(joined: Joined) -> str:
    what = (
        f"{counted(joined.n_members, 'cube')} with {counted(joined.n_rows, 'row')} joined in {joined.place}"
    )
    how = (
        f"{counted(joined.n_shards, 'shard')}, {counted(joined.n_requests, 'request')} to the cubes, "
        f"{size(joined.fetched_nbytes)} read, no pixel"
    )
    version = "" if joined.version is None else f"; version {joined.version}"
    groups = f"; groups {', '.join(joined.groups)}" if len(joined.groups) > 1 else ""
    return f"{what}: {how}{version}{groups}"
