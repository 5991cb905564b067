"""``pixel-gather submit``: a gather on AWS."""

from typing import Any

import click

from pixel_gather.core.request.request import GatherRequest, parse_request
from pixel_gather_cli.deployment.list_upload import check_no_rows, with_list_uploaded
from pixel_gather_cli.deployment.remote import Target, open_deployment, remote_options
from pixel_gather_cli.deployment.status_text import acted_text
from pixel_gather_cli.deployment.watching import watch, watch_options
from pixel_gather_cli.json_output import json_option, print_result
from pixel_gather_cli.request_options import request_of, request_options


@click.command("submit")
@request_options
@click.option("--name", metavar="NAME", help="Name of the cube.  [default: made from the request]")
@click.option("--workers", type=int, metavar="N", help="Workers at one time.  [default: the plan decides]")
@click.option(
    "--failed-shards",
    type=float,
    metavar="SHARE",
    help="Largest share of shards that may fail.  [default: 0]",
)
@click.option(
    "--force",
    is_flag=True,
    help="Gather again, to a new cube: needed if the list has changed, or after deleting a cube.",
)
@click.option("--watch", "is_watched", is_flag=True, help="Wait for the end and show progress.")
@watch_options
@remote_options
@json_option
def submit_command(
    *,
    name: str | None,
    workers: int | None,
    failed_shards: float | None,
    force: bool,
    is_watched: bool,
    every_s: float,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Gather on AWS, next to the data. Submitting the same request again returns the first gather.

    REQUEST is a JSON or YAML file, or - for standard input; options replace its fields. A list
    file or an index on this machine is uploaded. The deployment must be allowed to read the files it names.

    AWS makes the plan after this command has said "started". A plan over --max-usd is refused there. So is a
    tile, a band or a point that the files do not have. Then the gather fails. --watch, 'pixel-gather watch'
    and 'pixel-gather status' show the reason. 'pixel-gather plan' shows it before, and starts nothing.

    The environment can name the deployment: PIXEL_GATHER_STACK or PIXEL_GATHER_API; with --direct,
    PIXEL_GATHER_STATE_MACHINE and PIXEL_GATHER_CONTROL_BUCKET.

    \b
    pixel-gather submit --sources list.txt --tile centre --watch
    """
    target = Target.taken_from(options)
    given = request_of(options)
    check_no_rows(given.sources)
    request = _with(given, name=name, workers=workers, failed_shards=failed_shards)
    deployment = open_deployment(target)
    answer = deployment.submit(with_list_uploaded(request, deployment), force=force)
    if is_watched:
        click.echo(f"{answer['id']}: {_said_of(answer)}", err=True)
        return watch(
            deployment,
            answer["id"],
            every_s=every_s,
            quiet=quiet,
            as_json=as_json,
            is_new=answer["is_new"],
        )
    print_result(answer, acted_text, as_json=as_json)
    if not as_json:
        next_ = "status" if answer["state"] == "succeeded" else "watch"
        click.echo(f"{_said_of(answer)}: pixel-gather {next_} {answer['id']}", err=True)
    return 0


def _with(
    request: GatherRequest, *, name: str | None, workers: int | None, failed_shards: float | None
) -> GatherRequest:
    """Return the request with the options that exist only on AWS."""
    given = request.to_json()
    output = {"name": name if request.output.append_to is None else None}
    if name is not None and request.output.append_to is not None:
        raise click.UsageError("give --name for a new cube, or --append-to for an existing one")
    limits = {"workers": workers, "failed_shards": failed_shards}
    for field, options in (("output", output), ("limits", limits)):
        taken = {option: value for option, value in options.items() if value is not None}
        if taken:
            given[field] = given.get(field, {}) | taken
    return parse_request(given)


def _said_of(answer: dict[str, Any]) -> str:
    if answer["is_new"]:
        return "started"
    if answer["state"] == "succeeded":
        return (
            "this request was gathered already; if its list has changed since, or its cube was deleted, "
            "submit with --force"
        )
    return "this request is already being gathered, under the limits that it was started with"
