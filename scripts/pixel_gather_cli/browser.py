"""Opening a report in the user's browser."""

import webbrowser
from pathlib import Path

import click

open_option = click.option("--open", "opens", is_flag=True, help="Open the report in a browser.")


def open_page(page: str | None) -> None:
    """Open a local page in a browser, or print where it is."""
    if page is None:
        click.echo("there is no report to open", err=True)
    elif "://" in page:
        click.echo(f"a browser cannot open {page}: copy it to this machine first", err=True)
    elif not webbrowser.open(Path(page).resolve().as_uri()):
        click.echo(f"no browser found: open {page} yourself", err=True)
