"""A group of commands, each imported only when it is asked for: most need what takes a fifth of a second."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyCommands(click.Group):
    """Finds the command ``name`` as ``name_command`` in ``pixel_gather_cli.name_command``."""

    def __init__(self, *arguments: Any, summaries: Mapping[str, str], **options: Any) -> None:
        """Import nothing.

        Args:
            arguments: Of `click.Group`.
            summaries: First sentence of each command's help, by name; a test keeps them equal.
            options: Of `click.Group`.
        """
        super().__init__(*arguments, **options)
        self.summaries = summaries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names in the order of the alphabet."""
        del ctx
        return sorted(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command and return it, or None where there is no such."""
        del ctx
        if cmd_name not in self.summaries:
            return None
        found: click.Command = getattr(
            import_module(f"pixel_gather_cli.{cmd_name}_command"), f"{cmd_name}_command"
        )
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write names and summaries, as click does for commands that are imported."""
        stand_ins = [click.Command(name, help=summary) for name, summary in self.summaries.items()]
        click.Group(commands=stand_ins).format_commands(ctx, formatter)
