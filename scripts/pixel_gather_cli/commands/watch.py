"""``pixel-gather watch``: a gather or table on AWS, until it ends."""

from typing import Any

import click

from pixel_gather_cli.deployment.remote import Target, open_deployment, remote_options
from pixel_gather_cli.deployment.watching import watch, watch_options


@click.command("watch")
@click.argument("id_", metavar="ID")
@watch_options
@remote_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
def watch_command(*, id_: str, every_s: float, quiet: bool, as_json: bool, **options: Any) -> int:
    """Show a gather or table on AWS until it ends. Ctrl-C stops only the watching.

    Exit code: 0 all read, 1 finished with failed sources, 2 failed, refused or stopped.

    \b
    pixel-gather watch 3f9c2ab417d0e865
    """
    deployment = open_deployment(Target.taken_from(options))
    return watch(deployment, id_, every_s=every_s, quiet=quiet, as_json=as_json)
