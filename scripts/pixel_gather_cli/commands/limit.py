"""``pixel-gather limit``: changes the number of workers of a running gather or table."""

from typing import Any, Final

import click

from pixel_gather.core.model.plurals import counted
from pixel_gather_cli.deployment.remote import Target, open_deployment, remote_options
from pixel_gather_cli.deployment.status_text import kind_of
from pixel_gather_cli.json_output import json_option, print_result

_UNTIL: Final = {"gather": "from now on", "table": "until its round ends"}


@click.command("limit")
@click.argument("id_", metavar="ID")
@click.option(
    "--workers", type=click.IntRange(1, 10_000), required=True, metavar="N", help="Most workers from now on."
)
@remote_options
@json_option
def limit_command(*, id_: str, workers: int, as_json: bool, **options: Any) -> None:
    """Let a running gather or table have fewer workers, or more, from now on.

    Workers that run go on with their shards, and no new one starts above the number. A lower number leaves
    more of the account to others. To spend nothing more, cancel the gather or table.

    The API takes at most the deployment's max_workers. --direct does not check this. It takes gathers only.

    For a table, the number holds until its round ends. Lost images are read again in a second round, and a
    ranking has a round for each finer level. Each round begins with the number that was planned for it.

    \b
    pixel-gather limit 3f9c2ab417d0e865 --workers 5
    """
    line = open_deployment(Target.taken_from(options)).limit(id_, workers)
    most = f"{id_} has at most {counted(workers, 'worker')}"
    print_result(line, lambda line: f"{most} {_UNTIL[kind_of(line)]}", as_json=as_json)
