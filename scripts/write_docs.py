"""Write the parts of docs/ that the code itself tells: the commands' help and the request's schema."""

import json
from pathlib import Path

import click
from click.testing import CliRunner

from handlers.openapi import OPENAPI_FILE, openapi_text
from pixel_gather.request import request_schema
from pixel_gather_cli.main import SUMMARIES, command

DOCS = Path(__file__).parents[1] / "docs"
_WIDTH = 100


def schema_text() -> str:
    """Return docs/request.schema.json."""
    return json.dumps(request_schema(), indent=2) + "\n"


def commands_text() -> str:
    """Return docs/commands.md."""
    parts = ["# Commands\n\nWritten by `uv run python scripts/write_docs.py`; a test keeps it true.\n"]
    parts += [
        f"## {f'pixel-gather {name}'.strip()}\n\n```text\n{help_text(name)}```\n"
        for name in ("", *sorted(SUMMARIES))
    ]
    return "\n".join(parts)


def help_text(name: str) -> str:
    """Return one command's --help as a terminal of 100 columns shows it."""
    arguments = [name, "--help"] if name else ["--help"]
    result = CliRunner().invoke(
        command, arguments, prog_name="pixel-gather", terminal_width=_WIDTH, max_content_width=_WIDTH
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
