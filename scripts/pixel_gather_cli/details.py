"""What plan and run print: few lines, and with --verbose everything."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from pixel_gather_cli.log_options import log_if

WARNING: Final = "warning"
"""The label of a warning."""

_BAND: Final = re.compile(r" of band (\S+?)(?=[:,]?(?:\s|$))")
_EXAMPLE: Final = re.compile(r"such as \S+|of its pixels outside \S+")

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
    """Return the first remarks, and how many more there are: at most so many lines.

    What is said of several bands is said once. The gravest come first, as plans and reports have them.
    """
    lines = _join_bands(remarks)
    if len(lines) <= most:
        return lines
    kept, left = lines[: most - 1], lines[most - 1 :]
    labels = {label for label, _ in left}
    return [
        *kept,
        (labels.pop() if len(labels) == 1 else "more", f"{len(left):,} more, which --verbose shows"),
    ]


def _join_bands(remarks: Sequence[Line]) -> list[Line]:
    """Join remarks that differ in the name of a band, and in the file that is an example."""
    bands: dict[Line, list[str]] = {}
    first: dict[Line, Line] = {}
    for label, text in remarks:
        found = _BAND.search(text)
        key = (label, text) if found is None else (label, _EXAMPLE.sub("", _BAND.sub("", text, count=1)))
        first.setdefault(key, (label, text))
        bands.setdefault(key, []).extend([] if found is None else [found[1]])
    return [
        (
            label,
            _BAND.sub(f" of bands {', '.join(bands[key])}", text, count=1) if len(bands[key]) > 1 else text,
        )
        for key, (label, text) in first.items()
    ]
