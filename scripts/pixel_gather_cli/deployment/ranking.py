"""Sends a ranking to a deployment, and waits for its table."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from pixel_gather.core.errors import DeploymentError
from pixel_gather.in_process.progress import Progress
from pixel_gather_cli.deployment.watching import EVERY_S, looks

if TYPE_CHECKING:
    from pixel_gather_cli.deployment.api_deployment import ApiDeployment

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
        raise DeploymentError(f"the ranking {id_} has failed ({error['type']}): {error['detail']}{more}")
    table: dict[str, Any] = document["ranking"]
    return table
