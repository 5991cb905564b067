"""``pixel-gather cancel``: stops a gather or table."""

from typing import Any

import click

from pixel_gather_cli.deployment.remote import Target, open_deployment, remote_options
from pixel_gather_cli.deployment.status_text import acted_text
from pixel_gather_cli.json_output import json_option, print_result


@click.command("cancel")
@click.argument("id_", metavar="ID")
@remote_options
@json_option
def cancel_command(*, id_: str, as_json: bool, **options: Any) -> None:
    """Stop a gather or table on AWS. What is committed is kept.

    Workers of a gather end after the shard in hand. The same request goes on, if it is submitted again. A
    table goes on by redrive.

    \b
    pixel-gather cancel 3f9c2ab417d0e865
    """
    line = open_deployment(Target.taken_from(options)).stop(id_)
    print_result(line, acted_text, as_json=as_json)
    if line["state"] != "stopped" and not as_json:
        click.echo("it had already ended", err=True)
