"""``pixel-gather rank``: which scenes show most of what I look for, and how sure is that."""

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pixel_gather.adapters.event_loop import run
from pixel_gather.errors import RequestError
from pixel_gather.extras import check_extra
from pixel_gather.local.rank import Ranking, catalog_sources, rank_async
from pixel_gather.model.plurals import counted
from pixel_gather.ranking.ranking_request import RankingRequest
from pixel_gather.ranking.table import COLUMNS, table_text
from pixel_gather_cli.request_options import Numbers, in_home, settings_of, settings_options

_AREA = (
    click.option("--bbox", type=Numbers("W,S,E,N", kind=float), help="The area, in degrees.  [default: all]"),
    click.option("--geojson", metavar="FILE", help="The area, as a polygon."),
)
_WHAT = (
    click.option(
        "--mask", metavar="BAND:VALUES", help="Pixels to drop, such as scl:3,8,9 or qa_pixel:bits=3,4."
    ),
    click.option(
        "--statistic",
        default="mean",
        show_default=True,
        metavar="NAME",
        help="mean, median, p90 or share_above:0.3.",
    ),
    click.option(
        "--precision",
        default="0.01",
        show_default=True,
        metavar="ERROR",
        help="Largest standard error, or coarse, exact, every:5.",
    ),
    click.option("--order", type=click.Choice(("desc", "asc")), default="desc", show_default=True),
    click.option("--top", type=click.IntRange(min=1), metavar="N", help="Places to decide.  [default: all]"),
    click.option("--bands", metavar="NAMES", help="What names in --by are, such as red=B4,nir=B5."),
    click.option("--raw", is_flag=True, help="Leave scale and offset out."),
)
_SCENES = (
    click.option("--catalog", metavar="FILE", help="Scenes of what pixel-gather catalog wrote."),
    click.option("--stac", metavar="URL", help="Scenes of a STAC API."),
    click.option("--datetime", metavar="TIME", help="Of scenes: 2024, 2024-06/2024-08."),
    click.option("--where", metavar="TEXT", help="Of scenes, such as 'eo:cloud_cover<40'."),
    click.option("--collection", "collections", multiple=True, metavar="ID", help="May be given again."),
)
_KEPT = (
    click.option(
        "--statistics", metavar="FILE", help="Keep statistics here: a second ranking reads nothing."
    ),
    click.option("--check-kept", is_flag=True, help="Ask first whether the files are still the same."),
)
_OUTPUT = (
    click.option("--json", "as_json", is_flag=True, help="JSON instead of a table."),
    click.option("--csv", "as_csv", is_flag=True, help="CSV instead of a table."),
    click.option("--parquet", metavar="FILE", help="Write the table here as well."),
    click.option("--html", metavar="FILE", help="Write a sheet of the top scenes, with pictures."),
)


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed((*_AREA, *_WHAT, *_SCENES, *_KEPT, *_OUTPUT)):
        command = option(command)
    return command


@click.command("rank")
@click.argument("list_file", metavar="[LIST]", required=False)
@click.option("--by", required=True, metavar="WHAT", help="ndvi, red, clear, or (nir - red) / (nir + red).")
@_options
@settings_options
def rank_command(*, list_file: str | None, by: str, **options: Any) -> int:
    """Rank scenes by what their pixels show in an area, each rank with its error.

    Names: red, green, blue, brightness, ndvi, ndwi, nbr, clear, valid, cloud. An expression takes names of
    bands, numbers, + - * / ( ) and abs, sqrt, log, min, max.

    \b
    pixel-gather rank list.csv --by ndvi --top 20
    pixel-gather rank --catalog catalog.parquet --bbox 12,55,12.2,55.1 --by ndvi --mask scl:3,8,9,10
    """
    out = {name: options.pop(name) for name in ("as_json", "as_csv", "parquet", "html")}
    if out["as_json"] and out["as_csv"]:
        raise click.UsageError("give --json or --csv, not both")
    if out["html"] is not None:
        check_extra("report", "ranking sheets")
    kept = {name: options.pop(name) for name in ("statistics", "check_kept")}
    if kept["check_kept"] and kept["statistics"] is None:
        raise RequestError("it goes with --statistics", field="--check-kept")
    request = RankingRequest.of(by=by, **_taken(options))
    sources = _sources(list_file, request, options)
    ranking, pictures = run(
        rank_async(
            sources,
            request,
            **kept,
            settings=settings_of(options),
            n_pictures=(request.top or _MOST_PICTURES) if out["html"] else 0,
        )
    )
    _print(ranking, as_json=out["as_json"], as_csv=out["as_csv"])
    for note in ranking.notes:
        click.echo(note, err=True)
    if out["parquet"]:
        from pixel_gather.adapters.rank.parquet_table import write_table  # noqa: PLC0415 # for Parquet alone

        about = {name: value for name, value in ranking.to_json().items() if name != "scenes"}
        write_table(ranking.rows(), Path(in_home(out["parquet"])), about=about)
    if out["html"]:
        from pixel_gather.adapters.rank.sheet import write_sheet  # noqa: PLC0415 # for sheets alone

        write_sheet(ranking, pictures, Path(in_home(out["html"])))
    click.echo(_summary(ranking), err=True)
    return 1 if ranking.n_failed else 0


_MOST_PICTURES = 100


def _taken(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options of a ranking out and return them by the names of `RankingRequest.of`."""
    names = ("bbox", "statistic", "precision", "order", "top", "raw")
    given = {name: options.pop(name) for name in names}
    geojson, mask, bands = (options.pop(name) for name in ("geojson", "mask", "bands"))
    if geojson is not None:
        try:
            given["geojson"] = json.loads(Path(in_home(geojson)).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RequestError(f"{geojson} is no GeoJSON file: {error}", field="--geojson") from error
    if mask is not None:
        given["mask"] = _mask(mask)
    if bands is not None:
        given["bands"] = _bands(bands)
    return given


def _mask(text: str) -> dict[str, Any]:
    band, _, values = text.rpartition(":")
    kind, equals, bits = values.partition("=")
    try:
        numbers = [int(part) for part in (bits if equals else values).split(",")]
    except ValueError:
        numbers = []
    if not band or not numbers or (equals and kind != "bits"):
        raise RequestError(f"{text!r} is not BAND:3,8,9 or BAND:bits=3,4", field="--mask")
    return {"band": band, "bits" if equals else "drop": numbers}


def _bands(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and band.strip() for name, _, band in pairs):
        raise RequestError(f"{text!r} is not such as red=B4,nir=B5", field="--bands")
    return {name.strip(): band.strip() for name, _, band in pairs}


def _sources(list_file: str | None, request: RankingRequest, options: dict[str, Any]) -> Any:
    """Return the list, or the scenes of a catalog or of a STAC API that the area touches."""
    places = {name: options.pop(name) for name in ("catalog", "stac")}
    given = {name: options.pop(name) for name in ("datetime", "where", "collections")}
    given = {name: value for name, value in given.items() if value}
    named = {name: place for name, place in places.items() if place is not None}
    if (list_file is not None) + len(named) != 1:
        raise RequestError("give one of LIST, --catalog and --stac", field="rank")
    if list_file is not None:
        if given:
            raise RequestError("it goes with --catalog or --stac", field=f"--{next(iter(given))}")
        return in_home(list_file)
    ((kind, place),) = named.items()
    where = {"file": in_home(place)} if kind == "catalog" else {"api": place}
    return catalog_sources(request, kind, where | given)


def _print(ranking: Ranking, *, as_json: bool, as_csv: bool) -> None:
    if as_json:
        click.echo(json.dumps(ranking.to_json(), indent=2, allow_nan=False))
    elif as_csv:
        writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, "hrefs": " ".join(row["hrefs"])} for row in ranking.rows())
    else:
        click.echo(table_text(ranking.rows(), most=ranking.request.top), nl=False)


def _summary(ranking: Ranking) -> str:
    failed = f", {ranking.n_failed:,} not read" if ranking.n_failed else ""
    kept = f", {ranking.n_kept:,} from kept statistics" if ranking.n_kept else ""
    return (
        f"{counted(len(ranking.scenes), 'scene')}{failed}{kept}: {ranking.nbytes / 1e6:,.2f} MB in "
        f"{counted(ranking.requests, 'request')}, {ranking.seconds:.2f} s, ${ranking.usd:.6f} on AWS"
    )
