"""``pixel-gather completion``: let the shell complete commands, options and files."""

import os
from pathlib import PurePath

import click
from click.shell_completion import get_completion_class

from pixel_gather.core.errors import RequestError

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", required=False, type=click.Choice(_SHELLS))
def completion_command(*, shell: str | None) -> None:
    """Print a script that lets the shell complete commands, options and files.

    Without SHELL, it is for the shell that the variable SHELL names. Put the line into the start file of your
    shell: ~/.bashrc, ~/.zshrc or ~/.config/fish/config.fish.

    \b
    eval "$(pixel-gather completion)"
    pixel-gather completion fish | source
    """
    name = shell or PurePath(os.environ.get("SHELL", "")).name
    kind = get_completion_class(name) if name in _SHELLS else None
    if kind is None:
        raise RequestError(f"say which shell: {', '.join(_SHELLS)}", field="SHELL")
    program = click.get_current_context().find_root().command
    click.echo(kind(program, {}, "pixel-gather", "_PIXEL_GATHER_COMPLETE").source())
