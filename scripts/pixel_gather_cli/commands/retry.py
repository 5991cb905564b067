"""``pixel-gather retry``: the failed sources of a cube are read again."""

import json
from typing import Any

import click

from pixel_gather.core.model.plurals import counted
from pixel_gather.features.gather.retry_failed import retry_failed
from pixel_gather_cli.commands.run import gathered_to_json
from pixel_gather_cli.json_output import json_option, print_result
from pixel_gather_cli.progress import open_progress
from pixel_gather_cli.request_options import settings_of, settings_options


@click.command("retry")
@click.argument("cube")
@settings_options
@json_option
@click.option("--quiet", is_flag=True, help="Show no progress.")
def retry_command(*, cube: str, as_json: bool, quiet: bool, **options: Any) -> int:
    """Read the failed sources of a cube again, and put their pixels in their rows.

    CUBE is a folder or s3://bucket/prefix. Every failed source is read, whatever its status, and however
    often it was tried. What is read now becomes a new version. Appends do the same by themselves, five times
    in all, for sources that may be there at the next try.

    \b
    pixel-gather retry out/bolzano.zarr
    """
    with open_progress("reading again", quiet=quiet) as show:
        gathered = retry_failed(cube, settings=settings_of(options), on_progress=show)
    if gathered is None:
        none = json.dumps({"cube": cube, "retried": 0, "recovered": 0})
        click.echo(none if as_json else f"{cube}: no source has failed that could be read again")
        return 0
    tried, n_left = counted(gathered.n_retried, "failed source"), gathered.report.n_failed
    left = f"{n_left:,} {'is' if n_left == 1 else 'are'} left"
    said = f"{gathered.n_recovered:,} of {tried} could be read now; {left}"
    print_result(gathered_to_json(gathered), said, as_json=as_json)
    return 1 if n_left else 0
