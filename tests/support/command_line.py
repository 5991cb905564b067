"""Runs the command line in this process, and lists its commands."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pixel_gather_cli.main import main


def run(*arguments: str | int | Path) -> int:
    """Run ``pixel-gather`` with these arguments and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    code = ended.value.code
    assert isinstance(code, int)
    return code


def succeed(*arguments: str | int | Path) -> None:
    """Run ``pixel-gather`` with these arguments, for a test that looks at what it did."""
    assert run(*arguments) == 0


def leaf_commands(group: click.Group, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its full name."""
    for each in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), each)
        assert found is not None
        if isinstance(found, click.Group):
            yield from leaf_commands(found, f"{name}{each} ")
        else:
            yield f"{name}{each}", found
