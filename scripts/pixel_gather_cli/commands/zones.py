"""``pixel-gather zones``: statistics of thousands of images in my polygons."""

from typing import Any

import click

from pixel_gather.features.zones.measure_zones import ZoneTable
from pixel_gather_cli.request_options import settings_options
from pixel_gather_cli.table_options import (
    FEATURE_OPTIONS,
    IMAGE_OPTIONS,
    TABLE_OPTIONS,
    VALUE_OPTIONS,
    run_table,
)
from pixel_gather_cli.with_options import with_options

_RULE = (
    click.option(
        "--statistics",
        default="mean,stdev,count",
        show_default=True,
        metavar="NAMES",
        help="count, sum, mean, stdev, cv, min, max, median, p10, majority, minority, variety, frac_4.",
    ),
    click.option(
        "--coverage",
        type=click.Choice(("fraction", "centre", "touched")),
        default="fraction",
        show_default=True,
        help="Which pixels count: each by its covered share, those whose middle is covered, or all touched.",
    ),
    click.option(
        "--merge/--no-merge",
        default=True,
        show_default=True,
        help="Write one line for a polygon that lies on several images of one satellite pass.",
    ),
)


@click.command("zones")
@click.argument("features", metavar="FEATURES")
@with_options(*IMAGE_OPTIONS, *FEATURE_OPTIONS, *VALUE_OPTIONS, *_RULE, *TABLE_OPTIONS)
@settings_options
def zones_command(*, features: str, **options: Any) -> int:
    """Write statistics of all images in the polygons in FEATURES as a table.

    FEATURES is GeoParquet, GeoJSON, or a CSV file with WKT. The table has one line for each polygon and
    image, in the order of polygons and times. Two more are beside it: the polygons with their own columns,
    and the images with what became of them. If it is stopped, repeat the command.

    \b
    pixel-gather zones fields.parquet --sources list.csv --by ndvi --id field --to fields-2024.parquet
    pixel-gather zones fields.geojson --sources scl.csv --statistics majority,frac_4 --to classes.parquet
    """
    kind = ZoneTable.of(options.pop("statistics"), options.pop("coverage"), options.pop("merge"))
    return run_table(kind, features, options)
