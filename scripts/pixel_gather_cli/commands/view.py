"""``pixel-gather view``: a cube's pixels in a browser."""

import json
import re
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from pixel_gather.core.errors import RequestError
from pixel_gather.features.view.view import serving_cube
from pixel_gather_cli.request_options import store_options, stores_of

_ID: Final = re.compile(r"[\w.-]*[0-9a-f]{16}(-\d{1,2})?")


@click.command("view")
@click.argument("cube")
@click.option("--no-open", is_flag=True, help="Print the address, but open no browser.")
@click.option("--group", metavar="NAME", help="Name of the group, if joined cubes have several.")
@click.option("--stack", metavar="NAME", help="If CUBE is a gather on AWS: the stack of its deployment.")
@click.option("--json", "as_json", is_flag=True, help="Print the address as a JSON object.")
@store_options
def view_command(
    *, cube: str, no_open: bool, group: str | None, stack: str | None, as_json: bool, **options: Any
) -> int:
    """Show a cube's pixels in a browser.

    CUBE is a folder or s3://bucket/prefix of a cube, of joined cubes or of a virtual cube, or the ID of a
    gather on AWS. A small server on this machine reads it with your credentials, until Ctrl-C. It answers
    only requests from this machine that know the printed address, and it writes nothing.

    \b
    pixel-gather view out/bolzano.zarr
    pixel-gather view 3f9c2ab417d0e865
    """
    place = _cube_of(cube, stack, options) if stack is not None or _is_gather(cube) else cube
    with serving_cube(place, group=group, stores=stores_of(options)) as server:
        click.echo(json.dumps({"url": server.url, "cube": place}) if as_json else server.url)
        click.echo("Ctrl-C ends.", err=True)
        if not no_open and not webbrowser.open(server.url):
            click.echo("no browser found: open the address yourself", err=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0


def _is_gather(cube: str) -> bool:
    return _ID.fullmatch(cube) is not None and not Path(cube).exists()


def _cube_of(gather: str, stack: str | None, options: dict[str, Any]) -> str:
    """Return where the cube of a gather on AWS is."""
    from pixel_gather_cli.deployment.remote import Target, open_deployment  # noqa: PLC0415 # only for these

    access = {name: options[name] for name in ("region", "profile", "endpoint")}
    document = open_deployment(Target(stack=stack, **access)).status(gather)
    if document["cube"] is None:
        raise RequestError(f"the gather {gather} has no cube yet", field="CUBE")
    return str(document["cube"])
