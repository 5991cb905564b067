"""The options of a search for scenes."""

from typing import Any

import click

from pixel_gather_cli.request_options import Numbers, collection_option, read_geojson
from pixel_gather_cli.with_options import with_options

_NAMES = ("bbox", "point", "geojson", "datetime", "where", "collections", "ids", "most")

search_options = with_options(
    click.option("--bbox", type=Numbers("W,S,E,N", kind=float), help="Box in degrees; W > E crosses 180°."),
    click.option("--point", type=Numbers("LON,LAT", kind=float), help="Scenes that hold this point."),
    click.option("--geojson", metavar="FILE", help="Scenes that meet a GeoJSON shape."),
    click.option("--datetime", metavar="TIME", help="Such as 2024, 2024-06/2024-08, 2024-06-01T00:00:00Z/.."),
    click.option(
        "--where", metavar="TEXT", help="Conditions, such as 'eo:cloud_cover<40 and platform=landsat-8'."
    ),
    collection_option,
    click.option(
        "--id", "ids", multiple=True, metavar="ID", help="Only the scene with this ID. Can be repeated."
    ),
    click.option(
        "--most",
        default=100_000,
        type=click.IntRange(min=1),
        show_default=True,
        metavar="N",
        help="Refuse a search that finds more than N scenes.",
    ),
)
"""Adds the options to a command."""


def search_given(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options out of the arguments. Return those given, by the names of `SearchCriteria.of`."""
    given = {name: options.pop(name) for name in _NAMES}
    given["geojson"] = None if given["geojson"] is None else read_geojson(given["geojson"])
    return {name: value for name, value in given.items() if value is not None and value != ()}
