"""Opening a report in the user's browser."""

import webbrowser
from pathlib import Path

import click

open_option = click.option("--open", "opens", is_flag=True, help="Open the report in a browser.")


def open_page(page: str | None) -> None:
    """Open a page of this machine, or say where it is to be found.

    Args:
        page: Its path or href; None where there is none.
    """
    if page is None:
        click.echo("there is no report to open", err=True)
    elif "://" in page:
        click.echo(f"a browser cannot open {page}: copy it to this machine first", err=True)
    elif not webbrowser.open(Path(page).resolve().as_uri()):
        click.echo(f"no browser was found: open {page} yourself", err=True)
