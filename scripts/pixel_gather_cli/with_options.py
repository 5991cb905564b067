"""Adds several options to a command of click."""

from collections.abc import Callable
from typing import Any

type Option = Callable[[Any], Any]
"""What `click.option` returns: it adds an option to a command."""


def with_options(*options: Option) -> Option:
    """Return what adds these options to a command. Its help shows them in this order."""

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add
