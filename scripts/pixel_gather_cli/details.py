"""What plan and run print: ten lines, and with --verbose everything."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from pixel_gather_cli.log_options import log_if

type Line = tuple[str, str]
"""A label and what it says."""


def details_option[Command: Callable[..., Any]](command: Command) -> Command:
    """Add ``--verbose``, which the command gets as ``verbose``."""
    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        callback=log_if,
        help="Print all figures, and log to standard error.",
    )(command)


def nothing_appended(place: str, *, has_chips: bool) -> str:
    """Return what run and plan say of an append whose sources, or chips, the cube has."""
    return f"{place} has all of these {'chips' if has_chips else 'sources'} already: nothing to append"


def in_few_lines(remarks: Sequence[Line], *, most: int) -> list[Line]:
    """Return the first remarks, and how many more there are: at most so many lines."""
    if len(remarks) <= most:
        return list(remarks)
    n_more = len(remarks) - most + 1
    return [*remarks[: most - 1], (remarks[-1][0], f"{n_more:,} more, which --verbose shows")]
