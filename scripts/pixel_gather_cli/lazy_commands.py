"""A click group that imports a command only when it is used: most imports take 0.2 s."""

import sys
from collections.abc import Callable, Mapping
from copy import copy
from importlib import import_module
from typing import Any, Final, Literal, override

import click
from click.shell_completion import CompletionItem

from pixel_gather_cli.log_options import log_options
from pixel_gather_cli.option_names import naming_options


class LazyCommands(click.Group):
    """Finds the command ``name`` as ``name_command`` in ``pixel_gather_cli.commands.name``."""

    def __init__(
        self,
        *arguments: Any,
        summaries: Mapping[str, str],
        prefix: str = "",
        default: str | None = None,
        before_import: Callable[[], None] = lambda: None,
        **options: Any,
    ) -> None:
        """Import nothing.

        Args:
            arguments: Arguments of `click.Group`.
            summaries: First sentence of each command's help, by name. A test compares them.
            prefix: Of the modules' and the commands' names: ``bench_`` for the module ``bench_name``.
            default: The command to run if the first argument is not a command. Its options are shown in the
                group's help.
            before_import: Called before a command is imported. May raise.
            options: Options of `click.Group`.
        """
        super().__init__(*arguments, **options)
        self.summaries = summaries
        self.prefix = prefix
        self.default = default
        self.before_import = before_import

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and write all of its results before it counts as done."""
        answer = super().invoke(ctx)
        sys.stdout.flush()
        return answer

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.summaries)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.summaries:
            return None
        self.before_import()
        name = f"{self.prefix}{cmd_name}"
        module = import_module(f"pixel_gather_cli.commands.{name}")
        found: click.Command = getattr(module, f"{name}_command")
        if not isinstance(found, click.Group) and all(each.name != "log_file" for each in found.params):
            found.params += log_options(found)
            if found.callback is not None:
                found.callback = naming_options(found.callback)
            complete_paths(found)
            name_numbers(found)
        return found

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Use the default command if the first argument is neither a command nor a help option."""
        is_known = not args or args[0] in self.summaries or args[0] in ctx.help_option_names
        if self.default is not None and not is_known:
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. Of an unknown one, say which name is like it."""
        from difflib import get_close_matches  # noqa: PLC0415 # takes 20 ms, for a mistake alone

        likely = [] if args[0] in self.summaries else get_close_matches(args[0], self.summaries, n=1)
        if likely and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {likely[0]}?")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin like this, and the group's own options. Imports no command."""
        commands = [
            CompletionItem(name, help=summary)
            for name, summary in sorted(self.summaries.items())
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the default command's options, if there is one, and then the commands."""
        default = None if self.default is None else self.get_command(ctx, self.default)
        if default is None:
            super().format_options(ctx, formatter)
            return
        default.format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write names and summaries without importing the commands."""
        stand_ins = [click.Command(name, help=summary) for name, summary in self.summaries.items()]
        click.Group(commands=stand_ins).format_commands(ctx, formatter)


_KINDS: Final[dict[str, Literal["file", "dir"]]] = {
    "CSV": "file",
    "FILE": "file",
    "LIST": "file",
    "REQUEST": "file",
    "CUBE": "dir",
    "DIR": "dir",
    "FOLDER": "dir",
    "PLACE": "dir",
    "PREFIX": "dir",
}
"""What the shell completes for a parameter, by the parameter's name in the help."""


def complete_paths(command: click.Command) -> None:
    """Let the shell complete the parameters that take a path. All of them also take an address on S3."""
    for parameter in command.params:
        name = (parameter.metavar or parameter.name or "").strip("[].").upper()
        if name in _KINDS and isinstance(parameter.type, click.types.StringParamType):
            parameter.type = _PathText(_KINDS[name])


_NUMBERS: Final = ((click.types.IntParamType, "whole number"), (click.types.FloatParamType, "number"))
"""What errors call the kinds of numbers, with and without a range."""


def name_numbers(command: click.Command) -> None:
    """Let errors say that a text is no whole number, where click says that it is no integer range."""
    for parameter in command.params:
        for kind, name in _NUMBERS:
            if isinstance(parameter.type, kind):
                parameter.type = copy(parameter.type)  # click uses one object for all options of int
                parameter.type.name = name


class _PathText(click.types.StringParamType):
    """A text that names a file or a folder."""

    def __init__(self, kind: Literal["file", "dir"]) -> None:
        self.kind = kind

    @override
    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type=self.kind)]  # tells the shell to complete paths
