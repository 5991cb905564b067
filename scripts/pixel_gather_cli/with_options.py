"""Adds several options to a command of click."""

from collections.abc import Callable
from typing import Any

import click

type Option = Callable[[Any], Any]
"""What `click.option` returns: it adds an option to a command."""


def with_options(*options: Option) -> Option:
    """Return what adds these options to a command. Its help shows them in this order."""

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def other_commands_option(name: str, advice: str) -> Option:
    """Return an option that a command does not take and others do: who gives it is told what to do."""

    def refuse(_: click.Context, __: click.Parameter, given: str | None) -> None:
        if given is not None:
            raise click.UsageError(advice)

    return click.option(name, hidden=True, expose_value=False, callback=refuse)
