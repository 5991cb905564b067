"""Adds several options to a command of click."""

from collections.abc import Callable, Sequence
from typing import Any


def with_options[Command: Callable[..., Any]](
    command: Command, options: Sequence[Callable[[Command], Command]]
) -> Command:
    """Return a command with these options. Its help shows them in this order."""
    for option in reversed(options):
        command = option(command)
    return command
