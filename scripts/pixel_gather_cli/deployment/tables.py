"""Lets a deployment make a table of points or zones, and waits for it."""

import json
from collections.abc import Mapping
from typing import Any, Final

import click

from pixel_gather.core.request.request import parse_sources
from pixel_gather.tables.image_work import TableKind
from pixel_gather_cli.deployment.list_upload import uploaded_features, uploaded_sources
from pixel_gather_cli.deployment.remote import Target, open_api
from pixel_gather_cli.deployment.watching import EVERY_S, watch
from pixel_gather_cli.table_text import plan_text

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

    Raises:
        RequestError: A file cannot be read, or the deployment refuses the request.
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
        click.echo(json.dumps(plan, indent=2) if as_json else plan_text(plan), nl=as_json)
        return 0
    line = deployment.make_table(body)
    click.echo(f"table job {line['id']}: {line['links']['self']}", err=True)
    return watch(deployment, line["id"], every_s=EVERY_S, quiet=quiet, as_json=as_json, is_new=True)
