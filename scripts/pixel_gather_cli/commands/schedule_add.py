"""``pixel-gather schedule add``: a cube that keeps itself up to date."""

import json
from dataclasses import asdict
from typing import Any

import click

from pixel_gather.core.schedule import OVERLAP_DAYS, Schedule
from pixel_gather_cli.deployment.schedules import DeployedSchedules, stack_options
from pixel_gather_cli.request_options import request_of, request_options


@click.command("add")
@click.argument("name")
@request_options
@click.option(
    "--every",
    required=True,
    metavar="WHEN",
    help="'rate(1 day)', 'rate(6 hours)' or 'cron(0 6 * * ? *)', UTC.",
)
@click.option(
    "--overlap-days",
    type=int,
    default=OVERLAP_DAYS,
    show_default=True,
    metavar="N",
    help="Search from N days before the cube's last row, for scenes that arrive late.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was added as a JSON object.")
@stack_options
def schedule_add_command(*, name: str, every: str, overlap_days: int, as_json: bool, **options: Any) -> None:
    """Add a schedule: at each tick, a search is repeated and what is new is appended to a cube.

    REQUEST is a JSON or YAML file, or - for standard input; options replace its fields. The first tick makes
    the cube, of all scenes that the search finds. Later ones search from some days before the cube's last
    row. You need the rights of the policy SchedulePolicyArn of the stack.

    \b
    pixel-gather schedule add daily request.yaml --every 'rate(1 day)' --append-to bolzano
    """
    schedules = DeployedSchedules.taken_from(options)
    request = request_of(options).to_json()
    schedule = Schedule(name=name, every=every, request=request, overlap_days=overlap_days)
    schedules.add(schedule)
    if as_json:
        click.echo(json.dumps(asdict(schedule), indent=2))
    click.echo(f"added {name}: {every}", err=True)
