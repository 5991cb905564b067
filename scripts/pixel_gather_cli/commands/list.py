"""``pixel-gather list``: the gathers of a deployment."""

import json
from typing import Any

import click

from pixel_gather_cli.deployment.deployment import RemoteDeployment
from pixel_gather_cli.deployment.remote import Target, open_deployment, remote_options
from pixel_gather_cli.deployment.status_text import list_text

_LARGEST_PAGE = 100


@click.command("list")
@click.option(
    "--state",
    type=click.Choice(["running", "succeeded", "failed", "stopped", "timed_out"]),
    help="Only gathers in this state.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    metavar="N",
    help="List at most N gathers.",
)
@remote_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_command(*, state: str | None, limit: int, as_json: bool, **options: Any) -> None:
    """List the gathers on AWS, latest first. A gather is listed for 90 days after its end.

    \b
    pixel-gather list --state running
    """
    found = _found(open_deployment(Target.taken_from(options)), limit=limit, state=state)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif found["gathers"]:
        click.echo(list_text(found["gathers"]))
    else:
        click.echo("no gathers", err=True)


def _found(deployment: RemoteDeployment, *, limit: int, state: str | None) -> dict[str, Any]:
    """Return this many gathers, read page by page."""
    gathers: list[dict[str, Any]] = []
    token: str | None = None
    while len(gathers) < limit:
        page = deployment.list_(limit=min(limit - len(gathers), _LARGEST_PAGE), token=token, state=state)
        gathers += page["gathers"]
        token = page["next"]
        if token is None:
            break
    return {"gathers": gathers, "next": token}
