"""Writes the pages of docs/ that are made from the code: commands, Python names and the request's schema."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from pixel_gather.core.request.request import request_schema
from pixel_gather_cli.main import command
from python_docs import python_text

DOCS = Path(__file__).parents[1] / "docs"
_WIDTH = 100
_COMMANDS_HEAD = """# Commands

For whoever looks up an option: the `--help` of every command. `uv run python scripts/write_docs.py` makes
this page. A test compares it with the code.
"""


def schema_text() -> str:
    """Return docs/request.schema.json."""
    return json.dumps(request_schema(), indent=2) + "\n"


def commands_text() -> str:
    """Return docs/cli.md."""
    parts = [_COMMANDS_HEAD]
    parts += [
        f"## {' '.join(('pixel-gather', *names))}\n\n```text\n{help_text(*names)}```\n"
        for names in command_names(command)
    ]
    return "\n".join(parts)


def command_names(group: click.Group, *above: str) -> Iterator[tuple[str, ...]]:
    """Yield the full names of a group and of all commands in it, in alphabetical order."""
    yield above
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from command_names(found, *above, name)
        else:
            yield (*above, name)


def help_text(*names: str) -> str:
    """Return the --help of a command as a terminal of 100 columns shows it."""
    result = CliRunner().invoke(
        command, [*names, "--help"], prog_name="pixel-gather", terminal_width=_WIDTH, max_content_width=_WIDTH
    )
    return result.output


def write() -> None:
    """Write all pages."""
    (DOCS / "request.schema.json").write_text(schema_text())
    (DOCS / "cli.md").write_text(commands_text())
    (DOCS / "python.md").write_text(python_text())
    click.echo("wrote docs/request.schema.json, docs/cli.md and docs/python.md")


if __name__ == "__main__":
    write()
