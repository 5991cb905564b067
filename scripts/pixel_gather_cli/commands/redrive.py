"""``pixel-gather redrive``: runs the missing parts of a gather or table."""

from typing import Any

import click

from pixel_gather_cli.deployment.remote import Target, open_deployment, remote_options
from pixel_gather_cli.deployment.status_text import acted_text
from pixel_gather_cli.deployment.watching import watch, watch_options
from pixel_gather_cli.json_output import json_option, print_result


@click.command("redrive")
@click.argument("id_", metavar="ID")
@click.option("--watch", "is_watched", is_flag=True, help="Wait for the end and show progress.")
@watch_options
@remote_options
@json_option
def redrive_command(
    *, id_: str, is_watched: bool, every_s: float, quiet: bool, as_json: bool, **options: Any
) -> int:
    """Run what is missing of a gather or table that failed within 14 days.

    Also of a table that was cancelled. A cancelled gather goes on if its request is submitted again.

    \b
    pixel-gather redrive 3f9c2ab417d0e865 --watch
    """
    deployment = open_deployment(Target.taken_from(options))
    former_end = deployment.status(id_).get("ended_at") if is_watched else None
    line = deployment.redrive(id_)
    if is_watched:
        return watch(
            deployment,
            id_,
            every_s=every_s,
            quiet=quiet,
            as_json=as_json,
            is_new=True,
            former_end=former_end,
        )
    print_result(line, acted_text, as_json=as_json)
    if not as_json:
        click.echo(f"runs the missing parts; to watch it: pixel-gather watch {id_}", err=True)
    return 0
