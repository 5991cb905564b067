"""Write the parts of docs/ that the code itself tells: the commands' help and the request's schema."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from handlers.api.openapi import OPENAPI_FILE, openapi_text
from pixel_gather.request.request import request_schema
from pixel_gather_cli.main import command

DOCS = Path(__file__).parents[1] / "docs"
_WIDTH = 100


def schema_text() -> str:
    """Return docs/request.schema.json."""
    return json.dumps(request_schema(), indent=2) + "\n"


def commands_text() -> str:
    """Return docs/commands.md."""
    parts = ["# Commands\n\nWritten by `uv run python scripts/write_docs.py`; a test keeps it true.\n"]
    parts += [
        f"## {' '.join(('pixel-gather', *names))}\n\n```text\n{help_text(*names)}```\n"
        for names in command_names(command)
    ]
    return "\n".join(parts)


def command_names(group: click.Group, *above: str) -> Iterator[tuple[str, ...]]:
    """Yield a group's own name and those of all commands in it, whole, in the order of the alphabet."""
    yield above
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from command_names(found, *above, name)
        else:
            yield (*above, name)


def help_text(*names: str) -> str:
    """Return the --help of a command, by its whole name, as a terminal of 100 columns shows it."""
    result = CliRunner().invoke(
        command, [*names, "--help"], prog_name="pixel-gather", terminal_width=_WIDTH, max_content_width=_WIDTH
    )
    return result.output


def write() -> None:
    """Write them all."""
    OPENAPI_FILE.write_text(openapi_text())
    (DOCS / "request.schema.json").write_text(schema_text())
    (DOCS / "commands.md").write_text(commands_text())
    click.echo("wrote docs/request.schema.json, docs/commands.md and the functions' openapi.json")


if __name__ == "__main__":
    write()
