"""Lets a deployment make a table of points or zones, or a ranking, and waits for it."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from pixel_gather.core.errors import DeploymentError
from pixel_gather.core.request.request import parse_sources
from pixel_gather.in_process.progress import Progress
from pixel_gather.tables.image_work import TableKind
from pixel_gather_cli.deployment.list_upload import uploaded_features, uploaded_sources
from pixel_gather_cli.deployment.remote import Target, open_api
from pixel_gather_cli.deployment.watching import EVERY_S, looks, watch
from pixel_gather_cli.json_output import print_result
from pixel_gather_cli.option_names import with_option
from pixel_gather_cli.table_text import plan_text

if TYPE_CHECKING:
    from pixel_gather_cli.deployment.api_deployment import ApiDeployment

_SEARCHES: Final = frozenset({"catalog", "stac"})


def table_on_aws(
    target: Target,
    kind: TableKind,
    fields: Mapping[str, Any],
    *,
    is_dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Make a table, or price it. A list and features of this machine are uploaded.

    Returns:
        The exit code, as that of `watch`.
    """
    deployment = open_api(target)
    body = dict(fields)
    about = dict(kind.about)
    body[about.pop("kind")] = uploaded_features(body.pop("features"), deployment)
    sources = body["sources"]
    if not (isinstance(sources, Mapping) and _SEARCHES & sources.keys()):
        uploaded = uploaded_sources(parse_sources(sources), deployment)
        body["sources"] = uploaded.model_dump(mode="json", exclude_defaults=True)
    body |= about
    if is_dry_run:
        plan = deployment.plan_table(body)
        print_result(plan, plan_text, as_json=as_json)
        return 0
    line = deployment.make_table(body)
    click.echo(f"table job {line['id']}: {line['links']['self']}", err=True)
    return watch(deployment, line["id"], every_s=EVERY_S, quiet=quiet, as_json=as_json, is_new=True)


_RUNNING: Final = "running"


def rank_on_aws(
    deployment: "ApiDeployment", body: Mapping[str, Any], *, on_progress: Callable[[Progress], None]
) -> dict[str, Any]:
    """Return the table of a ranking. A large one is watched until it ends.

    Progress is that of the current round.

    Raises:
        DeploymentError: The ranking failed or was refused.
    """
    answer = deployment.rank(body)
    if "id" not in answer:
        return answer
    id_ = answer["id"]
    click.echo(f"large ranking {id_}: {answer['links']['self']}", err=True)
    document: Mapping[str, Any] = answer
    look = partial(deployment.table, id_)
    try:
        for document in looks(look, every_s=EVERY_S, is_new=True, on_failure=partial(click.echo, err=True)):
            scenes = document["scenes"]
            if document["state"] == _RUNNING and scenes:
                on_progress(Progress(n_sources=scenes["wanted"], n_done=scenes["read"]))
    except KeyboardInterrupt:
        click.echo(f"stopped watching; the ranking continues: pixel-gather watch {id_}", err=True)
        raise
    if document.get("ranking") is None:
        error = document["error"] or {"type": document["state"], "detail": "it has no table"}
        more = f"; pixel-gather redrive {id_} goes on with it" if "redrive" in document["links"] else ""
        said = with_option(error["detail"])
        raise DeploymentError(f"the ranking {id_} has failed ({error['type']}): {said}{more}")
    table: dict[str, Any] = document["ranking"]
    return table
