"""``pixel-gather schedule``: cubes of a deployment that keep themselves up to date."""

import click

from pixel_gather.core.extras import check_extra
from pixel_gather_cli.lazy_commands import LazyCommands

SUMMARIES = {
    "add": "Add a schedule: at each tick, a search is repeated and what is new is appended to a cube.",
    "list": "List the schedules of a deployment.",
    "remove": "Remove a schedule. Its cube stays.",
}
"""The commands, each with the first sentence of its help."""


@click.group(
    "schedule",
    cls=LazyCommands,
    summaries=SUMMARIES,
    prefix="schedule_",
    before_import=lambda: check_extra("aws", "schedules on AWS"),
)
def schedule_command() -> None:
    """Keep cubes of a deployment up to date: search and append, at fixed times.

    \b
    pixel-gather schedule list
    """
