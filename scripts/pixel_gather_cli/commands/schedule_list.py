"""``pixel-gather schedule list``: the schedules of a deployment."""

from typing import Any

import click

from pixel_gather.core.text_table import in_columns
from pixel_gather_cli.deployment.remote import stack_options
from pixel_gather_cli.deployment.schedules import DeployedSchedules, ScheduleLine
from pixel_gather_cli.json_output import print_json

_HEAD = ("schedule", "every", "cube", "overlap", "from")


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with the requests.")
@stack_options
def schedule_list_command(*, as_json: bool, **options: Any) -> None:
    """List the schedules of a deployment.

    \b
    pixel-gather schedule list
    """
    found = DeployedSchedules.taken_from(options).list_()
    if as_json:
        print_json({"schedules": found})
    elif found:
        click.echo("\n".join(in_columns([_HEAD, *map(_row, found)])))
    else:
        click.echo("no schedules", err=True)


def _row(each: ScheduleLine) -> tuple[str, ...]:
    every = each.every if each.is_enabled else f"{each.every} (disabled)"
    origin = "settings" if each.is_of_settings else "schedule add"
    return each.name, every, each.cube, f"{each.overlap_days} d", origin
