"""``pixel-gather list``: the gathers or tables of a deployment."""

from typing import Any

import click

from pixel_gather_cli.deployment.deployment import Kind, RemoteDeployment
from pixel_gather_cli.deployment.remote import Target, open_deployment, remote_options
from pixel_gather_cli.deployment.status_text import list_text
from pixel_gather_cli.json_output import json_option, print_json

_LARGEST_PAGE = 100


@click.command("list")
@click.option(
    "--state",
    type=click.Choice(["running", "succeeded", "failed", "stopped", "timed_out"]),
    help="Only those in this state.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    metavar="N",
    help="List at most N.",
)
@click.option("--tables", "of_tables", is_flag=True, help="Tables and large rankings instead of gathers.")
@remote_options
@json_option
def list_command(*, state: str | None, limit: int, of_tables: bool, as_json: bool, **options: Any) -> None:
    """List the gathers on AWS, latest first, or the tables. Each is listed for 90 days after its end.

    \b
    pixel-gather list --state running
    """
    kind: Kind = "table" if of_tables else "gather"
    found = _find_gathers(open_deployment(Target.taken_from(options)), limit=limit, state=state, kind=kind)
    if as_json:
        print_json(found)
    elif found[f"{kind}s"]:
        click.echo(list_text(found[f"{kind}s"], kind=kind))
    else:
        click.echo(f"no {kind}s", err=True)


def _find_gathers(
    deployment: RemoteDeployment, *, limit: int, state: str | None, kind: Kind
) -> dict[str, Any]:
    """Return this many gathers or tables, read page by page."""
    lines: list[dict[str, Any]] = []
    token: str | None = None
    while len(lines) < limit:
        page = deployment.list_(
            limit=min(limit - len(lines), _LARGEST_PAGE), token=token, state=state, kind=kind
        )
        lines += page[f"{kind}s"]
        token = page["next"]
        if token is None:
            break
    return {f"{kind}s": lines, "next": token}
