"""``pixel-gather index``: a header index of a list."""

from typing import Any

import click
from msgspec import to_builtins

from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.shown import shown_href
from pixel_gather.features.index.index import Indexed, index
from pixel_gather_cli.json_output import json_option, print_result
from pixel_gather_cli.progress import open_progress
from pixel_gather_cli.request_options import in_home, settings_of, settings_options, sign_option
from pixel_gather_cli.with_options import other_commands_option


@click.command("index")
@click.argument("list_file", metavar="LIST")
@other_commands_option("--sources", "write the list without --sources: pixel-gather index LIST")
@click.option("--to", required=True, metavar="FILE", help="Parquet file to write, local or on S3.")
@click.option("--overview", type=click.IntRange(0, 63), metavar="N", help="Index this overview's tiles.")
@sign_option
@settings_options
@json_option
@click.option("--quiet", is_flag=True, help="Show no progress.")
def index_command(
    *,
    list_file: str,
    to: str,
    overview: int | None,
    sign: str | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Save the header of every file in LIST, so that gathers need not read it again.

    LIST is a list file, or - for standard input. Gathers take the index by --index; every gather also writes
    one of its own, headers.parquet in the cube.

    \b
    pixel-gather index list.txt --to headers.parquet
    pixel-gather run --sources list.txt --tile centre --index headers.parquet --to cube.zarr
    """
    settings, place = settings_of(options), in_home(list_file)
    sources = place if sign is None else {"list": place, "sign": sign}
    with open_progress("indexing", quiet=quiet) as show:
        indexed = index(sources, to=to, overview=overview, settings=settings, on_progress=show)
    for href, reason in indexed.failed:
        click.echo(f"{shown_href(href)}: {reason}", err=True)
    told = to_builtins(indexed) | {"n_failed": indexed.n_failed}
    print_result(told, _as_text(indexed), as_json=as_json)
    return 1 if indexed.n_failed else 0


def _left_out(indexed: Indexed) -> dict[str, str]:
    n = indexed.n_sources - indexed.n_failed - indexed.n_indexed
    return {"read as without it": f"{n:,}: only GDAL reads them, or their store has no versions"} if n else {}


def _as_text(indexed: Indexed) -> str:
    figures = {
        "sources indexed": f"{indexed.n_indexed:,} of {indexed.n_sources:,}",
        "bytes received": f"{indexed.fetched_nbytes:,} in {counted(indexed.requests, 'request')}",
        "wall time": f"{indexed.wall_s:,.2f} s",
        "failed": f"{indexed.n_failed:,}",
        **_left_out(indexed),
        "index": indexed.place or "nothing to write",
    }
    return "\n".join(f"{name:<22} {figure}" for name, figure in figures.items())
