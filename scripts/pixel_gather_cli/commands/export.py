"""``pixel-gather export``: a cube in another format."""

from pathlib import PurePath
from typing import Any, Final

import click

from pixel_gather.core.errors import RequestError
from pixel_gather.core.model.plurals import counted
from pixel_gather.features.chips.chip_dataset import open_chips
from pixel_gather.features.export.export import PICTURES, export
from pixel_gather.features.export.picture_style import FRAMES_PER_SECOND, PictureStyle
from pixel_gather_cli.json_output import json_option, print_json
from pixel_gather_cli.progress import with_progress
from pixel_gather_cli.request_options import Numbers, store_options, stores_of

_SHEET: Final = ".png"


@click.command("export")
@click.argument("cube")
@click.option(
    "--to",
    required=True,
    metavar="FILE",
    help="Where to write. The suffix chooses the format: .webp, .gif, .apng, .png, .tif, .nc, .zarr, "
    ".json, .csv or .parquet; of a cube of chips .tar.",
)
@click.option(
    "--measurement", "measurements", multiple=True, metavar="NAME", help="Only this one. Can be repeated."
)
@click.option("--rgb", metavar="R,G,B", help="Three measurements, as red, green and blue of a picture.")
@click.option("--where", default="", metavar="WHERE", help="Only rows such as 'cloud_cover < 20'.")
@click.option(
    "--stretch",
    type=Numbers("LOW,HIGH", kind=float),
    help="Values of black and white in pictures.  [default: percentiles 2 and 98]",
)
@click.option("--colormap", metavar="NAME", help="Of matplotlib, such as viridis.  [default: greys]")
@click.option(
    "--fps",
    type=float,
    metavar="N",
    help=f"Pictures per second of an animation.  [default: {FRAMES_PER_SECOND}]",
)
@click.option("--dark", is_flag=True, help="Captions of pictures are light on a dark ground.")
@json_option
@store_options
@with_progress("exporting")
def export_command(
    *,
    cube: str,
    to: str,
    measurements: tuple[str, ...],
    rgb: str | None,
    stretch: tuple[float, ...] | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Write a cube as an animation, pictures, GeoTIFFs, netCDF or a table.

    CUBE is a folder or s3://bucket/prefix. A .webp, .gif or .apng is an animation. A .png is one sheet with a
    picture of each row. A .tif is a Cloud Optimized GeoTIFF for each row. A .nc has values and attributes of
    the cube. A .zarr is a folder of Zarr without shards, for GDAL 3.12. A .json is a STAC item that describes
    the cube. A .csv or .parquet has the coordinates, statistics and timings of each row. A .tar is for a cube
    of chips: numbered files for WebDataset.

    \b
    pixel-gather export out/bolzano.zarr --to bolzano.gif --measurement band_1 --colormap viridis
    pixel-gather export out/bolzano.zarr --to bolzano.webp --rgb red,green,blue --stretch 0,3000
    pixel-gather export out/bolzano.zarr --to clear.tif --where 'cloud_cover < 20'
    """
    if rgb is not None and (measurements or rgb.count(",") != 2):  # noqa: PLR2004 # three names
        raise click.UsageError("write --rgb red,green,blue, without --measurement")
    _check_pictures(to, rgb, given={**options, "stretch": stretch})
    if to.endswith(".tar"):
        if options["where"] or rgb is not None:
            raise click.UsageError("a .tar has whole chips: leave --where and --rgb out")
        files = open_chips(cube, measurements=measurements or None, stores=stores_of(options)).to_webdataset(
            to
        )
    else:
        files = export(
            cube,
            to=to,
            measurements=measurements if rgb is None else rgb.split(","),
            where=options["where"],
            style=PictureStyle(
                stretch=None if stretch is None else (stretch[0], stretch[1]),
                colormap=options["colormap"],
                frames_per_second=FRAMES_PER_SECOND if options["fps"] is None else options["fps"],
                is_dark=options["dark"],
            ),
            stores=stores_of(options),
        )
    if as_json:
        print_json({"files": [str(file) for file in files]})
    else:
        click.echo("\n".join(map(str, files)))
        what = "Zarr group" if files and files[0].is_dir() else "file"
        click.echo(f"{counted(len(files), what)} written", err=True)


def _check_pictures(to: str, rgb: str | None, *, given: dict[str, Any]) -> None:
    """Refuse options that change nothing in a file of this suffix."""
    suffix = PurePath(to).suffix.lower()
    for name in ("stretch", "colormap", "dark", "fps"):
        if given[name] in (None, False):
            continue
        if suffix not in PICTURES or (name == "fps" and suffix == _SHEET):
            kind = "animations" if name == "fps" else "pictures"
            raise RequestError(f"it is for {kind}, not for {suffix or to}: leave it out", field=f"--{name}")
        if name == "colormap" and rgb is not None:
            raise RequestError("pictures of --rgb have their own colours: leave it out", field="--colormap")
