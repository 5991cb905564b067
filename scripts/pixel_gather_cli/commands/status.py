"""``pixel-gather status``: how far a gather or table is."""

from typing import Any

import click

from pixel_gather_cli.deployment.remote import Target, open_deployment, remote_options
from pixel_gather_cli.deployment.status_text import status_text
from pixel_gather_cli.json_output import json_option, print_result


@click.command("status")
@click.argument("id_", metavar="ID")
@remote_options
@json_option
def status_command(*, id_: str, as_json: bool, **options: Any) -> None:
    """Show the progress, the cost and the result of a gather or table on AWS.

    \b
    pixel-gather status 3f9c2ab417d0e865
    """
    document = open_deployment(Target.taken_from(options)).status(id_)
    print_result(document, status_text, as_json=as_json)
    if "redrive" in document["links"]:
        click.echo(f"to run the missing parts: pixel-gather redrive {id_}", err=True)
