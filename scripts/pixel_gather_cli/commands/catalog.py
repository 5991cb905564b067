"""``pixel-gather catalog``: make scenes searchable."""

import json
from dataclasses import asdict
from typing import Any

import click

from pixel_gather.adapters.catalog.cmr import CMR, CmrSearch, cmr_items
from pixel_gather.adapters.catalog.json_http import JsonClient, same_host_only
from pixel_gather.errors import RequestError
from pixel_gather.local.catalog import MadeCatalog, make_catalog
from pixel_gather.local.search import SceneSearch, items_of_api
from pixel_gather_cli.request_options import settings_of, settings_options
from pixel_gather_cli.search_options import search_of, search_options

_KINDS = ("stac", "cmr", "items", "sentinel2_index", "list", "prefix")


@click.command("catalog")
@click.option("--stac", metavar="URL", help="Search this STAC API.")
@click.option("--cmr", metavar="SHORT_NAME", help="Search NASA's CMR for this collection.")
@click.option(
    "--items", metavar="FILE", help="STAC items: a collection, one a line, Parquet, or a static catalog."
)
@click.option("--sentinel2-index", metavar="CSV", help="The public Sentinel-2 index, gzipped or not.")
@click.option("--list", metavar="LIST", help="A list file; footprint and bands are read from the headers.")
@click.option("--prefix", metavar="PREFIX", help="A folder or s3://bucket/prefix; headers are read.")
@click.option("--glob", metavar="PATTERN", help="Of the path below the prefix, such as '**/*.tif'.")
@click.option("--collection-name", default="images", metavar="NAME", help="Of scenes made from headers.")
@click.option("--to", required=True, metavar="FILE", help="STAC-GeoParquet file to write, here or on S3.")
@click.option(
    "--add", is_flag=True, help="Keep what the catalog holds; new scenes replace those of the same id."
)
@search_options
@settings_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def catalog_command(*, to: str, add: bool, collection_name: str, as_json: bool, **options: Any) -> int:
    """Make a catalog of scenes, which search answers from in a millisecond.

    \b pixel-gather catalog --prefix s3://bucket/landsat/ --glob '**/*_B4.TIF' --to catalog.parquet
    pixel-gather catalog --stac https://HOST/v1 --collection sentinel-2-l2a --datetime 2024 --to
    catalog.parquet pixel-gather search --catalog catalog.parquet --bbox 11.2,46.4,11.5,46.6 --assets red >
    list.csv
    """
    given = {name: options.pop(name) for name in _KINDS}
    glob, wanted = options.pop("glob"), search_of(options)
    named = [name for name in _KINDS if given[name] is not None]
    if len(named) != 1:
        raise RequestError(
            f"give one of {', '.join('--' + name.replace('_', '-') for name in _KINDS)}", field="catalog"
        )
    made = make_catalog(
        **_scenes(given, glob, wanted),
        to=to,
        add=add,
        collection=collection_name,
        settings=settings_of(options),
        on_progress=lambda n: click.echo(f"\r{n:,} scenes", err=True, nl=False),
    )
    click.echo("", err=True)
    for href, reason in made.left_out:
        click.echo(f"{href}: {reason}", err=True)
    click.echo(json.dumps(asdict(made), indent=2) if as_json else _as_text(made))
    return 1 if made.n_left_out else 0


def _scenes(given: dict[str, Any], glob: str | None, wanted: SceneSearch) -> dict[str, Any]:
    if given["stac"] is not None:
        return {"items": items_of_api(wanted, given["stac"])}
    if given["cmr"] is not None:
        client = JsonClient(same_host_only(CMR, field="cmr"))
        asked = CmrSearch(short_name=given["cmr"], area=wanted.area, times=wanted.times, most=wanted.most)
        return {"items": cmr_items(asked, client)}
    if given["items"] is not None:
        return {"items_file": given["items"]}
    if given["sentinel2_index"] is not None:
        return {"sentinel2_index": given["sentinel2_index"]}
    if given["list"] is not None:
        return {"sources": given["list"]}
    return {"sources": {"prefix": given["prefix"], "glob": glob}}


def _as_text(made: MadeCatalog) -> str:
    figures = {
        "scenes": f"{made.n_scenes:,}",
        "new or described anew": f"{made.n_new:,}",
        "left out": f"{made.n_left_out:,}",
        "for searches": f"{made.nbytes:,} bytes",
        "catalog": made.place,
    }
    return "\n".join(f"{name:<22} {figure}" for name, figure in figures.items())
