"""``pixel-gather points``: the values of thousands of images under my points."""

from typing import Any

import click

from pixel_gather.features.points.measure_points import PointTable
from pixel_gather.features.points.point_pixels import Method
from pixel_gather_cli.request_options import settings_options
from pixel_gather_cli.table_options import (
    FEATURE_OPTIONS,
    IMAGE_OPTIONS,
    TABLE_OPTIONS,
    VALUE_OPTIONS,
    run_table,
)
from pixel_gather_cli.with_options import with_options

_METHOD = (
    click.option(
        "--method",
        type=click.Choice(("nearest", "bilinear")),
        default="nearest",
        show_default=True,
        help="nearest: the pixel that holds the point.",
    ),
    click.option(
        "--square",
        type=int,
        default=1,
        metavar="N",
        help="The mean of N x N pixels around the point, and how many of them count: 3, 5, ...",
    ),
)
_XY = (
    click.option("--x", metavar="COLUMN", help="Longitude or easting.  [default: found by name]"),
    click.option("--y", metavar="COLUMN", help="Latitude or northing.  [default: found by name]"),
)


@click.command("points")
@click.argument("features", metavar="FEATURES")
@with_options(*IMAGE_OPTIONS, *FEATURE_OPTIONS, *_XY, *VALUE_OPTIONS, *_METHOD, *TABLE_OPTIONS)
@settings_options
def points_command(*, features: str, **options: Any) -> int:
    """Write the values of all images under the points in FEATURES as a table.

    FEATURES is a CSV file with longitude and latitude, x and y, or WKT, GeoJSON, or GeoParquet. The table has
    one line for each point and image, in the order of points and times. Two more are beside it: the features
    with their own columns, and the images with what became of them. If it is stopped, repeat the command.

    \b
    pixel-gather points plots.csv --sources list.csv --id plot_id --to plots.parquet
    pixel-gather points visits.csv --sources list.csv --time visited --tolerance 10d --to visits.parquet
    """
    kind = PointTable(Method.of(options.pop("method"), options.pop("square")))
    return run_table(kind, features, options)
