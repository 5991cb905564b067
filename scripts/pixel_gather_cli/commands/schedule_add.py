"""``pixel-gather schedule add``: a cube or a table that keeps itself up to date."""

from typing import Any

import click

from pixel_gather.core.errors import RequestError
from pixel_gather.core.schedule import OVERLAP_DAYS, TABLES, Schedule
from pixel_gather_cli.deployment.remote import stack_options
from pixel_gather_cli.deployment.schedules import DeployedSchedules
from pixel_gather_cli.json_output import print_json
from pixel_gather_cli.option_names import is_given
from pixel_gather_cli.request_options import read_request_file, request_of, request_options


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
    """Add a schedule: at each tick, a search is repeated and what is new is appended to a cube or a table.

    REQUEST is a JSON or YAML file, or - for standard input; options replace its fields. That of a table is
    the body of POST /tables, with points or zones; only --append-to is added to it. The first tick makes the
    cube or table, of all scenes that the search finds. Later ones search from some days before its last row.
    You need the rights of the policy SchedulePolicyArn of the stack.

    \b
    pixel-gather schedule add daily request.yaml --every 'rate(1 day)' --append-to bolzano
    pixel-gather schedule add fields zones.yaml --every 'rate(5 days)' --append-to ndvi
    """
    schedules = DeployedSchedules.taken_from(options)
    given = read_request_file(options["request_file"], fields="sources and window")
    is_table = any(each in given for each in TABLES)
    request = _table_request(given, options) if is_table else request_of(options, given).to_json()
    schedule = Schedule(name=name, every=every, request=request, overlap_days=overlap_days)
    schedules.add(schedule)
    if as_json:
        print_json(schedule)
    click.echo(f"added {name}: {every}", err=True)


def _table_request(given: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return the request of a table. Only the option --append-to is added to what the file holds."""
    for name in options:
        if name not in ("request_file", "append_to") and is_given(name):
            raise RequestError("write what a table takes into REQUEST", field=f"--{name.replace('_', '-')}")
    append_to = options["append_to"]
    return given if append_to is None else given | {"append_to": append_to}
