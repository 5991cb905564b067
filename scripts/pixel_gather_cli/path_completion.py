"""Completion of files and folders by the shell."""

from typing import Final, Literal

import click
from click.shell_completion import CompletionItem

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


class _PathText(click.types.StringParamType):
    """A text that names a file or a folder."""

    def __init__(self, kind: Literal["file", "dir"]) -> None:
        self.kind = kind

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return one item. It tells the shell to complete paths."""
        del ctx, param
        return [CompletionItem(incomplete, type=self.kind)]
