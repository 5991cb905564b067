"""``pixel-gather view``: a cube's pixels in a browser."""

import webbrowser
from typing import Any

import click

from pixel_gather.local.view import serving_cube
from pixel_gather_cli.request_options import store_options, stores_of


@click.command("view")
@click.argument("cube")
@click.option("--no-open", is_flag=True, help="Print the address, but open no browser.")
@click.option("--group", metavar="NAME", help="Of joined cubes of several kinds: the group.")
@store_options
def view_command(*, cube: str, no_open: bool, group: str | None, **options: Any) -> int:
    """Show a cube's pixels in a browser.

    CUBE is a folder or s3://bucket/prefix of a cube or of joined cubes. A small server on this machine reads
    it with your credentials, until Ctrl-C. It answers only requests from this machine that know the printed
    address, and it writes nothing.

    \b
    pixel-gather view out/bolzano.zarr
    """
    with serving_cube(cube, group=group, stores=stores_of(options)) as server:
        click.echo(server.url)
        click.echo("Ctrl-C ends.", err=True)
        if not no_open and not webbrowser.open(server.url):
            click.echo("no browser found: open the address yourself", err=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0
