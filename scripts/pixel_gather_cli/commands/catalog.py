"""``pixel-gather catalog``: make scenes searchable."""

import sys
from typing import Any

import click

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.shown import shown_href
from pixel_gather.features.catalog.catalog import MadeCatalog, make_catalog, refresh_catalog, remove_scenes
from pixel_gather_cli.json_output import json_option, print_result
from pixel_gather_cli.progress import open_progress
from pixel_gather_cli.request_options import (
    in_home,
    name_options,
    settings_of,
    settings_options,
    sign_option,
)
from pixel_gather_cli.search_options import search_given, search_options

_KINDS = ("stac", "cmr", "items", "sentinel2_index", "sources", "prefix")
_OF_HEADERS = ("glob", "regex", "time", "band", "sign", "collection_name")


@click.command("catalog")
@click.option("--stac", metavar="URL", help="Search this STAC API.")
@click.option("--cmr", metavar="SHORT_NAME", help="Search NASA's CMR for this collection.")
@click.option(
    "--items", metavar="FILE", help="STAC items: a collection, one a line, Parquet, or a static catalog."
)
@click.option("--sentinel2-index", metavar="CSV", help="The public Sentinel-2 index, gzipped or not.")
@click.option("--sources", metavar="LIST", help="A list file; footprint and bands are read from the headers.")
@click.option("--prefix", metavar="PREFIX", help="A folder or s3://bucket/prefix; headers are read.")
@click.option(
    "--glob", metavar="PATTERN", help="Only files whose path below the prefix matches, such as '**/*.tif'."
)
@click.option("--regex", metavar="PATTERN", help="Only files whose whole href holds a match.")
@name_options
@sign_option
@click.option("--collection-name", metavar="NAME", help="Collection of scenes made from headers.")
@click.option("--to", required=True, metavar="FILE", help="STAC-GeoParquet file to write, here or on S3.")
@click.option(
    "--add", is_flag=True, help="Keep what the catalog holds; new scenes replace those of the same id."
)
@click.option("--refresh", is_flag=True, help="Make the catalog again from where its scenes came from.")
@click.option(
    "--remove",
    is_flag=True,
    help="Remove the scenes that meet all of --id, --where, --datetime, --collection and the place.",
)
@search_options
@settings_options
@json_option
def catalog_command(
    *,
    to: str,
    add: bool,
    refresh: bool,
    remove: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Make a catalog of scenes, which search reads.

    \b
    pixel-gather catalog --prefix s3://bucket/landsat/ --glob '**/*_B?.TIF' --band auto --to catalog.parquet
    pixel-gather catalog --stac https://HOST/v1 --collection sentinel-2-l2a --datetime 2024 --to s2.parquet
    pixel-gather catalog --remove --where 'eo:cloud_cover>90' --to s2.parquet
    pixel-gather search --catalog s2.parquet --bbox 11.2,46.4,11.5,46.6 --assets red > list.csv
    """
    given = {name: in_home(options.pop(name)) for name in _KINDS}
    of_headers = {name: value for name in _OF_HEADERS if (value := options.pop(name)) is not None}
    search = search_given(options)
    named = [name for name in _KINDS if given[name] is not None]
    if len(named) != (0 if refresh or remove else 1) or add + refresh + remove > 1:
        kinds = ", ".join("--" + name.replace("_", "-") for name in _KINDS)
        raise RequestError(f"give one of {kinds}; or --refresh alone, or --remove alone", field="catalog")
    kind = named[0] if named else None
    if of_headers and kind not in ("sources", "prefix"):
        raise RequestError("use it only with --sources or --prefix", field=next(iter(of_headers)))
    if not remove and kind not in ("stac", "cmr") and (unused := search.keys() - {"most"}):
        raise RequestError("use it only with --stac, --cmr or --remove", field=min(unused))
    in_terminal = sys.stderr.isatty()
    of_run: dict[str, Any] = {"to": to, "settings": settings_of(options)}
    progress = _show_scenes if in_terminal else lambda _n: None
    with open_progress("cataloging", quiet=in_terminal):
        if remove:
            made = remove_scenes(**of_run, search=search)
        elif refresh:
            made = refresh_catalog(**of_run, on_progress=progress)
        else:
            of_run["on_progress"] = progress
            scenes = _scenes(named[0], given[named[0]], of_headers, search)
            made = make_catalog(**scenes, **of_run, add=add)
    click.echo("" if in_terminal else counted(made.n_scenes, "scene"), err=True)
    for note in made.notes:
        click.echo(f"warning: {note}", err=True)
    for href, reason in made.left_out:
        click.echo(f"{shown_href(href)}: {reason}", err=True)
    print_result(made, _as_text(made, is_removal=remove), as_json=as_json)
    return 1 if made.n_left_out else 0


def _show_scenes(n: int) -> None:
    click.echo(f"\r{n:,} scenes", err=True, nl=False)


def _scenes(kind: str, place: str, of_headers: dict[str, Any], search: dict[str, Any]) -> dict[str, Any]:
    if kind in ("sources", "prefix"):
        source = "list" if kind == "sources" else kind
        named = {"collection": of_headers.pop("collection_name")} if "collection_name" in of_headers else {}
        return {"kind": "sources", "scenes": {source: place} | of_headers} | named
    if kind in ("stac", "cmr"):
        return {"kind": kind, "scenes": place, "search": search}
    return {"kind": "items_file" if kind == "items" else kind, "scenes": place}


def _as_text(made: MadeCatalog, *, is_removal: bool) -> str:
    figures = {
        "scenes": f"{made.n_scenes:,}",
        "new or described anew": f"{made.n_new:,}",
        "left out": f"{made.n_left_out:,}",
        **({"kept as they were": f"{made.n_kept:,}"} if made.n_kept else {}),
        **({"removed": f"{made.n_removed:,}"} if is_removal else {}),
        "for searches": f"{made.nbytes:,} bytes",
        "catalog": made.place,
    }
    return "\n".join(f"{name:<22} {figure}" for name, figure in figures.items())
