"""The group ``pixel-gather bench``: which command an argument means, and what the group says of each."""

import click
import pytest

from pixel_gather_cli.commands.bench import bench_command


@pytest.mark.parametrize(
    ("arguments", "name", "rest"),
    [
        (["list.txt", "--first", "2"], "suite", ["list.txt", "--first", "2"]),
        (["--first", "2", "list.txt"], "suite", ["--first", "2", "list.txt"]),
        (["-"], "suite", ["-"]),
        (["suite", "ingest"], "suite", ["ingest"]),
        (["ingest", "s3://bucket/key"], "ingest", ["s3://bucket/key"]),
    ],
)
def test_what_is_no_command_is_a_list_for_the_suite(arguments: list[str], name: str, rest: list[str]) -> None:
    """A LIST needs no word before it; one that is called like a command is given to suite by name."""
    assert isinstance(bench_command, click.Group)
    context = click.Context(bench_command)

    bench_command.parse_args(context, arguments)

    assert [*context._protected_args, *context.args] == [name, *rest]
