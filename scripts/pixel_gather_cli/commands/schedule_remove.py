"""``pixel-gather schedule remove``: the end of a schedule."""

from typing import Any

import click

from pixel_gather_cli.deployment.schedules import Schedules, stack_options


@click.command("remove")
@click.argument("name")
@stack_options
def schedule_remove_command(*, name: str, **options: Any) -> None:
    """Remove a schedule. Its cube stays, and a gather that runs goes on.

    \b
    pixel-gather schedule remove daily
    """
    Schedules.taken_from(options).remove(name)
    click.echo(f"removed {name}", err=True)
