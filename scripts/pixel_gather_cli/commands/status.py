"""``pixel-gather status``: how far a gather or table is."""

import json
from typing import Any

import click

from pixel_gather_cli.deployment.remote import Target, open_deployment, remote_options
from pixel_gather_cli.deployment.status_text import status_text


@click.command("status")
@click.argument("id_", metavar="ID")
@remote_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status_command(*, id_: str, as_json: bool, **options: Any) -> None:
    """Show the progress, the cost and the result of a gather or table on AWS.

    \b
    pixel-gather status 3f9c2ab417d0e865
    """
    document = open_deployment(Target.taken_from(options)).status(id_)
    click.echo(json.dumps(document, indent=2) if as_json else status_text(document))
    if "redrive" in document["links"]:
        click.echo(f"to run the missing parts: pixel-gather redrive {id_}", err=True)
