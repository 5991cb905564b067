"""``pixel-gather schedule remove``: the end of a schedule."""

import json
from typing import Any

import click

from pixel_gather_cli.deployment.remote import stack_options
from pixel_gather_cli.deployment.schedules import DeployedSchedules


@click.command("remove")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print what was removed as a JSON object.")
@stack_options
def schedule_remove_command(*, name: str, as_json: bool, **options: Any) -> None:
    """Remove a schedule. Its cube stays, and a gather that runs goes on.

    \b
    pixel-gather schedule remove daily
    """
    DeployedSchedules.taken_from(options).remove(name)
    if as_json:
        click.echo(json.dumps({"name": name}))
    click.echo(f"removed {name}", err=True)
