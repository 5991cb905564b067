"""``pixel-gather rank``: which scenes show most of what I look for, and how sure is that."""

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pixel_gather.core.errors import RequestError
from pixel_gather.core.extras import check_extra
from pixel_gather.core.model.plurals import counted, size
from pixel_gather.core.request.request import parse_sources
from pixel_gather.features.rank.rank import catalog_sources, plan_ranking, rank_async
from pixel_gather.features.rank.ranking_body import RankingBody
from pixel_gather.features.rank.ranking_plan import plan_text
from pixel_gather.features.rank.ranking_request import DEFAULT_PRECISION, RankingRequest
from pixel_gather.features.rank.table import COLUMNS, table_text
from pixel_gather.in_process.progress import Progress
from pixel_gather.io.event_loop import run
from pixel_gather_cli.deployment.list_upload import uploaded_sources
from pixel_gather_cli.deployment.remote import Target, open_api, place_options, target_of_options
from pixel_gather_cli.json_output import print_result
from pixel_gather_cli.option_names import is_given
from pixel_gather_cli.progress import open_progress
from pixel_gather_cli.request_options import (
    Numbers,
    check_folders,
    in_home,
    object_in,
    read_geojson,
    read_request_file,
    settings_of,
    settings_options,
)
from pixel_gather_cli.value_options import (
    MASK_OPTION,
    NAME_OPTIONS,
    SCENE_OPTIONS,
    scenes_of_options,
    values_of_options,
)
from pixel_gather_cli.with_options import other_commands_option, with_options

_AREA = (
    click.option("--bbox", type=Numbers("W,S,E,N", kind=float), help="The area, in degrees.  [default: all]"),
    click.option("--geojson", metavar="FILE", help="The area, as a polygon."),
)
_WHAT = (
    MASK_OPTION,
    click.option(
        "--statistic",
        default="mean",
        show_default=True,
        metavar="NAME",
        help="mean, median, p90 or share_above:0.3.",
    ),
    click.option(
        "--precision",
        default=DEFAULT_PRECISION,
        show_default=True,
        metavar="ERROR",
        help="Largest standard error: a number, or a share of the values' spread. Or coarse, exact, every:5.",
    ),
    click.option(
        "--order",
        type=click.Choice(("desc", "asc")),
        default="desc",
        show_default=True,
        help="desc: the highest value first. asc: the lowest.",
    ),
    click.option(
        "--top",
        type=click.IntRange(min=1),
        metavar="N",
        help="How many top ranks have to be decided.  [default: all]",
    ),
    *NAME_OPTIONS,
)
_KEPT = (
    click.option(
        "--statistics",
        metavar="FILE",
        help="Keep statistics here: a later ranking reads only what is not kept.",
    ),
    click.option(
        "--check-kept/--no-check-kept",
        default=None,
        help="Whether to ask first if the files are still the same.  [default: check]",
    ),
)
_LIMITS = (
    click.option(
        "--max-usd",
        type=float,
        metavar="USD",
        help="Refuse a ranking that would cost more, estimated from its first scene.",
    ),
    click.option("--max-seconds", type=float, metavar="S", help="Refuse a ranking that would take longer."),
    click.option(
        "--dry-run", is_flag=True, help="Print the bytes that each overview level would take. Reads no pixel."
    ),
)
_PLACE = place_options("Rank on AWS, next to the data.")
_OUTPUT = (
    click.option("--json", "as_json", is_flag=True, help="JSON instead of a table."),
    click.option("--csv", "as_csv", is_flag=True, help="CSV instead of a table."),
    click.option("--parquet", metavar="FILE", help="Write the table here as well."),
    click.option("--html", metavar="FILE", help="Write a sheet of the top scenes, with pictures."),
    click.option("--quiet", is_flag=True, help="Show no progress."),
)


@click.command("rank")
@click.argument("list_file", metavar="[LIST]", required=False)
@other_commands_option("--sources", "write the list without --sources: pixel-gather rank LIST")
@click.option("--by", metavar="WHAT", help="ndvi, red, clear, or (nir - red) / (nir + red).")
@click.option(
    "--request", "request_file", metavar="FILE", help="Ranking as JSON or YAML; options replace its fields."
)
@with_options(*_AREA, *_WHAT, *SCENE_OPTIONS, *_KEPT, *_LIMITS, *_PLACE, *_OUTPUT)
@settings_options
def rank_command(*, list_file: str | None, by: str | None, request_file: str | None, **options: Any) -> int:
    """Rank scenes by what their pixels show in an area, each rank with its error.

    Names: red, green, blue, brightness, ndvi, ndwi, nbr, clear, valid, cloud. An expression takes names of
    bands, numbers, + - * / ( ) and abs, sqrt, log, min, max.

    With --deployed, a deployment ranks next to the data. It is named as for submit.

    The file of --request has the fields of POST /rankings, and says which scenes are ranked and how. Options
    replace its fields; LIST, --catalog and --stac replace its scenes.

    \b
    pixel-gather rank list.csv --by ndvi --top 20
    pixel-gather rank --catalog catalog.parquet --bbox 12,55,12.2,55.1 --by ndvi --mask scl:3,8,9,10
    """
    # Do the options fit together? Nothing is read before that is known.
    out = {name: options.pop(name) for name in ("as_json", "as_csv", "parquet", "html")}
    if out["as_json"] and out["as_csv"]:
        raise click.UsageError("give --json or --csv, not both")
    check_folders(parquet=out["parquet"], html=out["html"])
    target = target_of_options(options)
    kept = {name: options.pop(name) for name in ("statistics", "check_kept")}
    is_dry_run = options.pop("dry_run")
    _check_place(target, kept, out)
    if is_dry_run:
        _check_dry_run(target, out)
    if out["html"] is not None:
        check_extra("report", "ranking sheets")
    body = _body(request_file, list_file, {"by": by, "check_kept": kept.pop("check_kept")} | options)
    asked = RankingBody.of(body)
    if is_dry_run:
        plan = run(plan_ranking(asked.sources, asked.request, settings=settings_of(options))).to_json()
        print_result(plan, plan_text(plan).rstrip("\n"), as_json=out["as_json"])
        return 0
    # Rank here or on AWS. Only what is ranked here has pictures.
    with open_progress("ranking", quiet=options.pop("quiet"), thing="scene") as show:
        if target is not None:
            table = _on_aws(target, body, show=show)
        else:
            ranking, pictures = run(
                rank_async(
                    asked.sources,
                    asked.request,
                    **kept,
                    check_kept=asked.checks_kept is not False,
                    limits=asked.limits,
                    settings=settings_of(options),
                    n_pictures=(asked.request.top or _MOST_PICTURES) if out["html"] else 0,
                    on_progress=show,
                )
            )
            table = ranking.to_json()
    # The table goes to standard output, all else to files and standard error.
    _print(table, as_json=out["as_json"], as_csv=out["as_csv"])
    for note in table["notes"]:
        click.echo(f"warning: {note}", err=True)
    if out["parquet"]:
        from pixel_gather.features.rank.parquet_table import write_table  # noqa: PLC0415 # for Parquet alone

        about = {name: value for name, value in table.items() if name != "scenes"}
        write_table(table["scenes"], Path(in_home(out["parquet"])), about=about)
    if out["html"]:
        from pixel_gather.features.rank.ranking_page import write_sheet  # noqa: PLC0415 # for sheets alone

        write_sheet(ranking, pictures, Path(in_home(out["html"])))
    click.echo(_summary(table), err=True)
    return 1 if table["totals"]["failed"] else 0


def _check_place(target: Target | None, kept: dict[str, Any], out: dict[str, Any]) -> None:
    """Refuse options that do not go together."""
    if target is None:
        if kept["check_kept"] is not None and kept["statistics"] is None:
            name = "--check-kept" if kept["check_kept"] else "--no-check-kept"
            raise RequestError("use it only with --statistics", field=name)
    elif kept["statistics"] is not None:
        raise RequestError("a deployment keeps its own statistics: leave it out", field="--statistics")
    elif out["html"] is not None:
        raise RequestError("a deployment returns no pictures: rank here for a sheet", field="--html")


def _check_dry_run(target: Target | None, out: dict[str, Any]) -> None:
    """Refuse options that a dry run does not have."""
    if target is not None:
        raise RequestError("it is computed on this machine: leave --deployed out", field="--dry-run")
    for name in ("csv", "parquet", "html"):
        if out.get(name) or out.get(f"as_{name}"):
            raise RequestError("a dry run ranks nothing: leave it out", field=f"--{name}")


def _on_aws(target: Target, body: dict[str, Any], *, show: Callable[[Progress], None]) -> dict[str, Any]:
    """Return the table of a ranking by a deployment. A list of this machine is uploaded."""
    from pixel_gather_cli.deployment.tables import rank_on_aws  # noqa: PLC0415 # only where it is asked for

    deployment = open_api(target)
    if "sources" in body:
        uploaded = uploaded_sources(parse_sources(body["sources"]), deployment)
        body = body | {"sources": uploaded.model_dump(mode="json", exclude_defaults=True)}
    return rank_on_aws(deployment, body, on_progress=show)


def _body(request_file: str | None, list_file: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """Return what ``POST /rankings`` takes: the fields of a file, and of the options that replace them."""
    if options["by"] is None and request_file is None:
        raise click.UsageError("Missing option '--by'.")
    body = read_request_file(request_file, fields="by, and scenes or sources")
    limits = {"usd": options["max_usd"], "seconds": options["max_seconds"]}
    limits = {name: value for name, value in limits.items() if value is not None}
    asked = _fields_of_options(options)
    if request_file is not None:  # a default replaces nothing
        asked = {name: value for name, value in asked.items() if is_given(name)}
    if area := {name: asked.pop(name) for name in ("bbox", "geojson") if name in asked}:
        asked["area"] = area
    if limits:
        asked["limits"] = {**object_in(body, "limits"), **limits}
    body |= asked
    if request_file is None or list_file is not None or any(options[name] for name in _SCENES):
        body = {name: value for name, value in body.items() if name not in ("scenes", "sources")}
        fields = {name: value for name, value in body.items() if name not in ("limits", "check_kept")}
        sources = parse_sources(_sources(list_file, RankingRequest.from_json(fields), options))
        body["sources"] = sources.model_dump(mode="json", exclude_defaults=True)
    return body


_SCENES = ("catalog", "stac", "datetime", "where", "collections")
_MOST_PICTURES = 100


def _fields_of_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that options say, by the options' names."""
    names = ("by", "check_kept", "bbox", "statistic", "precision", "order", "top")
    asked = {name: options[name] for name in names} | values_of_options(options)
    if (geojson := options["geojson"]) is not None:
        asked["geojson"] = read_geojson(geojson)
    if not asked["raw"]:
        del asked["raw"]
    return {name: value for name, value in asked.items() if value is not None}


def _sources(list_file: str | None, request: RankingRequest, options: dict[str, Any]) -> Any:
    """Return the list, or the scenes of a catalog or of a STAC API that the area touches."""
    kind, given = scenes_of_options(list_file, options, what="LIST", field="rank")
    return in_home(list_file) if kind is None else catalog_sources(request, kind, given)


def _print(table: dict[str, Any], *, as_json: bool, as_csv: bool) -> None:
    rows = table["scenes"]
    if as_json:
        click.echo(json.dumps(table, indent=2, allow_nan=False))
    elif as_csv:
        writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, "hrefs": " ".join(row["hrefs"])} for row in rows)
    else:
        click.echo(table_text(rows, most=table["top"]), nl=False)
    if "table" in table:
        click.echo(f"the whole table: {table['table']}", err=True)


def _summary(table: dict[str, Any]) -> str:
    totals = table["totals"]
    failed = f", {totals['failed']:,} not read" if totals["failed"] else ""
    kept = f", {totals['kept']:,} from kept statistics" if totals["kept"] else ""
    return (
        f"{counted(totals['scenes'], 'scene')}{failed}{kept}: {size(totals['bytes'])} in "
        f"{counted(totals['requests'], 'request')}, {totals['seconds']:.2f} s, ${totals['usd']:.6f} on AWS"
    )
