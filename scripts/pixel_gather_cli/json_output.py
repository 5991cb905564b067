"""The option ``--json``, and what it prints."""

import json
from collections.abc import Callable
from typing import Any

import click
from msgspec import to_builtins

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
"""Adds the option to a command."""


def print_json(value: Any) -> None:
    """Print a value, or a struct, as indented JSON."""
    click.echo(json.dumps(to_builtins(value), indent=2))


def print_result(value: Any, text: str | Callable[[Any], str], *, as_json: bool) -> None:
    """Print a result, as JSON or in words, which a function may make of it."""
    if as_json:
        print_json(value)
    else:
        click.echo(text(value) if callable(text) else text)
