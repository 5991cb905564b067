"""The command line imports only what the current command needs."""

import os
import subprocess
import sys
from dataclasses import dataclass

import click
import pytest

from pixel_gather_cli.commands.bench import bench_command
from pixel_gather_cli.lazy_commands import LazyCommands
from pixel_gather_cli.main import command
from support.command_line import leaf_commands

_LIBRARY = ("numpy", "obstore", "imagecodecs", "msgspec", "pydantic", "pixel_gather.features.gather.gather")
_HEAVY = ("rasterio", "zarr", "boto3", "botocore", "xarray")


@dataclass(frozen=True)
class Case:
    """Command lines, and packages and modules that must not be loaded with them."""

    id: str
    lines: tuple[str, ...]
    spared: tuple[str, ...]


CASES = (
    Case("all", ("--help", "--version"), (*_LIBRARY, *_HEAVY, "rich", "yaml")),
    Case("here", ("plan --help", "run --help", "ls --help"), (*_HEAVY, "yaml")),
    Case("status", ("status --help",), (*_HEAVY, "pixel_gather.features.gather.gather")),
    Case("submit", ("submit --help",), _HEAVY),
)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_command_loads_nothing_that_is_not_needed(case: Case) -> None:
    """Help imports only Python and click."""
    program = (
        "import sys; from pixel_gather_cli.main import main\n"
        f"for line in {case.lines!r}:\n"
        "    try: main(line.split())\n"
        "    except SystemExit as ended: assert not ended.code\n"
        "print(*sys.modules)"
    )

    answer = subprocess.run(  # noqa: S603 # our own words
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=dict(os.environ)
    )

    loaded = set(answer.stdout.splitlines()[-1].split())
    assert "pixel_gather_cli.main" in loaded
    assert loaded.isdisjoint(case.spared)


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group in (command, bench_command) for name in group.summaries]
)
def test_summary_is_the_first_sentence_of_the_commands_help(group: LazyCommands, name: str) -> None:
    """The summaries in `--help` equal the first sentences of the commands' own help."""
    found = group.get_command(click.Context(group), name)

    assert found is not None
    assert found.name == name
    for width in (40, 60, 80, 200):
        assert click.Command(name, help=group.summaries[name]).get_short_help_str(width) == (
            found.get_short_help_str(width)
        )


def test_unknown_command_is_bad_usage() -> None:
    """No module is imported for an unknown command."""
    assert command.get_command(click.Context(command), "main") is None


def test_every_command_answers_in_json_and_tells_what_goes_on() -> None:
    """Programs read ``--json``, people ask for ``-v`` or a log file. The script for a shell is no answer."""
    options = {
        name: {flag for each in found.params for flag in each.opts} for name, found in leaf_commands(command)
    }

    assert len(options) > 30
    assert [name for name, flags in options.items() if "--json" not in flags] == ["completion"]
    assert [name for name, flags in options.items() if not {"-v", "--verbose", "--log-file"} <= flags] == []
