"""``pixel-gather search``: which images lie in my area, and when."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import click

from pixel_gather.core.area import finite
from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.scenes.folders import unlisted_folders
from pixel_gather.core.scenes.item import common_names, find_asset, scene_key, wanted_assets
from pixel_gather.core.scenes.scene_sources import Address, address_of, asset_choices, band_numbers
from pixel_gather.core.text_table import in_columns
from pixel_gather.core.time_range import format_moment
from pixel_gather.features.catalog.catalog import write_items
from pixel_gather.features.catalog.search import N_LISTINGS, FoundScenes, Item, SearchCriteria, found_scenes
from pixel_gather.in_process.places import check_parquet_place
from pixel_gather_cli.progress import with_progress
from pixel_gather_cli.request_options import store_options, stores_of
from pixel_gather_cli.search_options import search_given, search_options

_FORMATS = ("csv", "hrefs", "json", "jsonl", "table", "parquet")
_MOST_NAMED: Final = 30


@click.command("search")
@click.option(
    "--catalog", metavar="FILE", help="A file that pixel-gather catalog wrote, on this machine or S3."
)
@click.option("--stac", metavar="URL", help="Search a STAC API instead.")
@search_options
@click.option("--assets", metavar="NAMES", help="Print one line per asset, such as red,nir or visual:2.")
@click.option(
    "--address",
    type=click.Choice(("asset", "s3", "https")),
    default="asset",
    show_default=True,
    help="Which of an asset's addresses to print.",
)
@click.option(
    "--duplicates",
    type=click.Choice(("latest", "all", "fail")),
    default="latest",
    show_default=True,
    help="For scenes processed several times: keep the latest or all, or fail.",
)
@click.option(
    "--duplicates-by",
    metavar="NAMES",
    help="Properties by which scenes are one, such as grid:code,datetime.",
)
@click.option("--expand", is_flag=True, help="List the folders of scenes that name no images.")
@click.option(
    "--listings",
    default=N_LISTINGS,
    type=click.IntRange(1, 1000),
    show_default=True,
    metavar="N",
    help="Folders listed at one time.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(_FORMATS),
    help="How to print what is found.  [default: csv with --assets, otherwise table]",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--to", metavar="FILE", help="Parquet file to write with --format parquet.")
@store_options
@with_progress("searching")
def search_command(**options: Any) -> int:
    """Find the scenes in an area and a time range.

    With --assets it prints a list file for plan, run and submit. With --expand, the end of a file's name is
    the name of its band, such as B04. A folder that cannot be listed is named on standard error, and so is an
    item that cannot be used. The exit code is then 1.

    \b
    pixel-gather search --catalog catalog.parquet --bbox 11.2,46.4,11.5,46.6 --datetime 2024
    pixel-gather search --catalog catalog.parquet --point 11.35,46.5 --assets red,nir > list.csv
    """
    # What to ask, and how to print it.
    names = (
        *("catalog", "stac", "assets", "address", "duplicates", "duplicates_by", "expand", "listings"),
        *("format_", "as_json", "to"),
    )
    given = {name: options.pop(name) for name in names}
    assets = _names(given["assets"])
    format_ = _format(given["format_"], as_json=given["as_json"]) or ("csv" if assets else "table")
    _check_to(given["to"], format_)
    stores = stores_of(options)
    wanted = SearchCriteria.of(**search_given(options))
    found = found_scenes(
        wanted,
        catalog=given["catalog"],
        stac=given["stac"],
        duplicates=given["duplicates"],
        duplicates_by=_names(given["duplicates_by"]),
        expand=given["expand"],
        n_listings=given["listings"],
        stores=stores,
    )
    # Standard error tells what may be wrong, and what is left out or lacking.
    for note in () if wanted.area is None else wanted.area.notes:
        click.echo(f"warning: {note}", err=True)
    for scene, instead in found.dropped:
        click.echo(f"{scene['id']}: left out, {instead['id']} is the same scene processed later", err=True)
    for name, reason in found.skipped:
        click.echo(f"{name}: {reason}", err=True)
    if found.n_skipped:
        click.echo(f"{counted(found.n_skipped, 'item')} left out that cannot be used", err=True)
    if not found.items:
        click.echo("no scenes found", err=True)
    for name in _missing(found, assets):
        click.echo(f"no scene has {name!r}; {_list_assets(found)}", err=True)
    unlisted = [each for item in found.items for each in unlisted_folders(item)]
    for each in unlisted:
        click.echo(f"{each['href']}: {each['status']}: {each['reason']}", err=True)
    # The scenes themselves.
    if format_ == "parquet":
        write_items(found.items, given["to"], stores=stores)
    else:
        for line in _lines(found, format_, assets, given["address"]):
            click.echo(line, nl=False)
    return 1 if unlisted or found.n_skipped else 0


def _format(format_: str | None, *, as_json: bool) -> str | None:
    if as_json and format_ not in (None, "json"):
        raise click.UsageError("give --json or --format, not both")
    return "json" if as_json else format_


def _check_to(to: str | None, format_: str) -> None:
    if (format_ == "parquet") != (to is not None):
        raise RequestError("--format parquet and --to go together", field="--to")
    if to is not None:
        check_parquet_place(to, what="the list of scenes")


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _missing(found: FoundScenes, assets: tuple[str, ...]) -> Iterator[str]:
    """Yield the wanted assets that none of the scenes has."""
    if not (assets and found.items):
        return
    for choice in asset_choices(assets):
        if all(find_asset(item["assets"], choice.asset) is None for item in found.items):
            yield choice.asset


def _list_assets(found: FoundScenes) -> str:
    """Say which names the assets of the scenes have, those that they call by common names, too."""
    keys = dict.fromkeys(key for item in found.items for key in item["assets"])
    named = dict.fromkeys(
        name
        for item in found.items
        for asset in item["assets"].values()
        if isinstance(asset, Mapping)
        for name in common_names(asset)
    )
    names = [*keys, *(name for name in named if name not in keys)]
    more = ", ..." if len(names) > _MOST_NAMED else ""
    return f"they have {', '.join(names[:_MOST_NAMED])}{more}" if names else "they have no assets"


def _lines(found: FoundScenes, format_: str, assets: tuple[str, ...], address: Address) -> Iterator[str]:
    if format_ == "json":
        yield json.dumps({"type": "FeatureCollection", "features": list(found.items)}, indent=2) + "\n"
    elif format_ == "jsonl":
        yield from (json.dumps(item) + "\n" for item in found.items)
    elif format_ == "hrefs":
        yield from (f"{href}\n" for href in _hrefs(found, assets, address))
    elif format_ == "csv" and assets:
        yield _as_csv(list(_source_rows(found, assets, address)))
    elif format_ == "csv":
        yield _as_csv(list(_scene_rows(found.items)))
    else:
        yield from _as_table(list(_scene_rows(found.items)))


def _source_rows(found: FoundScenes, assets: tuple[str, ...], address: Address) -> Iterator[dict[str, Any]]:
    """Yield the lines of a list file, all with the same columns; a missing asset has no line."""
    _refuse_bands(assets)
    sources = [each for each in found.sources(assets, address=address) if each.href is not None]
    columns = dict.fromkeys(name for each in sources for name in each.columns)
    for each in sources:
        fixed = {
            "href": each.href,
            "time": format_moment(each.time_us),
            "band": each.band,
            "scene": each.scene,
        }
        yield fixed | {name: each.columns.get(name) for name in columns}


def _hrefs(found: FoundScenes, assets: tuple[str, ...], address: Address) -> Iterator[str]:
    if assets:
        _refuse_bands(assets)
    for item in found.items:
        for _, asset in wanted_assets(item, assets):
            yield address_of(asset, address)


def _refuse_bands(assets: tuple[str, ...]) -> None:
    if band_numbers(asset_choices(assets)):
        raise RequestError(
            "a list names whole files; "
            "gather a band of an asset by run --catalog or --stac with the same --assets",
            field="--assets",
        )


def _scene_rows(items: Iterable[Item]) -> Iterator[dict[str, Any]]:
    for item in items:
        key = scene_key(item, name="item")
        cloud = finite(item["properties"].get("eo:cloud_cover"))
        yield {
            "time": format_moment(key.start_us),
            "collection": key.collection,
            "id": key.id,
            "cloud_cover": "" if cloud is None else f"{cloud:g}",
            "bbox": " ".join(f"{side:g}" for side in key.box),
            "assets": len(item["assets"]),
        }


def _as_csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()


def _as_table(rows: list[dict[str, Any]]) -> Iterator[str]:
    names = [list(row) for row in rows[:1]]
    cells = [[str(value) for value in row.values()] for row in rows]
    yield from (f"{line}\n" for line in in_columns(names + cells))
