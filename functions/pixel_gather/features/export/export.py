"""Write a finished cube in another format."""

import os
from collections.abc import Callable, Iterator, Sequence
from copy import replace
from pathlib import Path
from typing import Final

from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.extras import check_extra
from pixel_gather.core.model.band_meaning import true_colour
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.core.request.href_policy import path_here
from pixel_gather.features.export.cube_rows import CubeRows
from pixel_gather.features.export.picture_style import PictureStyle
from pixel_gather.features.rows.rows import rows_where
from pixel_gather.in_process.joined_places import refuse_joined
from pixel_gather.in_process.places import open_existing, refuse_within_cube
from pixel_gather.io.atomic_write import errors_of_writing, replacing
from pixel_gather.io.cube.open_group import finished_group
from pixel_gather.io.cube.row_view import RowGroup
from pixel_gather.io.store.store_settings import StoreSettings

PICTURES: Final = (".webp", ".gif", ".apng", ".png")
"""Suffixes of animations, and of a sheet of all rows."""

_TABLES: Final = (".csv", ".parquet")
_PACKAGES: Final = {
    ".webp": ("PIL", "matplotlib"),
    ".gif": ("PIL", "matplotlib"),
    ".apng": ("PIL", "matplotlib"),
    ".png": ("PIL", "matplotlib"),
    ".nc": ("netCDF4",),
}
"""What the extra ``export`` installs for a suffix."""

_SUFFIXES: Final = (*PICTURES, ".tif", ".nc", ".zarr", ".json", *_TABLES)


@check_arguments
def export(
    cube: str | os.PathLike[str],
    *,
    to: str | os.PathLike[str],
    measurements: Sequence[str] = (),
    where: str = "",
    style: PictureStyle | None = None,
    stores: StoreSettings | None = None,
) -> list[Path]:
    """Write a finished cube in another format. The suffix of ``to`` chooses it.

    ``.webp``, ``.gif`` and ``.apng`` are animations, ``.png`` is a sheet of all rows. In all of them rows are
    in order of time, which stands below each picture, and all have one stretch.
    ``.tif`` is a Cloud Optimized GeoTIFF for each row, ``.nc`` is netCDF-4 with values and attributes
    of the cube. ``.zarr`` is a folder of Zarr without shards, for GDAL 3.12. ``.json`` is a STAC item that
    describes the cube.
    ``.csv`` and ``.parquet`` are tables with the coordinates, statistics and timings of each row.

    Args:
        cube: A folder, or ``s3://bucket/prefix``.
        to: A local file. It is replaced once the new one is complete. A folder of Zarr must not exist.
        measurements: Names; empty for all. Pictures show one, or three as red, green and blue; if empty,
            those that the files or the names say.
        where: Which rows, such as ``cloud_cover < 20``. See `rows_where`. Empty for all.
        style: How pictures look. Default: see `PictureStyle`.
        stores: How to access S3.

    Returns:
        The files that were written, or the folder of Zarr.

    Raises:
        RequestError: The suffix, a measurement or a condition is unknown, or does not fit the format. Or
            joined cubes or a virtual cube are there. Or ``to`` lies in a cube.
        StoreError: No complete cube is there, it is damaged, no row is left, or the file cannot be written.
        MissingExtraError: A package for this format is not installed.
    """
    path = path_here(to, "to", said="an export is")
    if path.suffix.lower() not in _SUFFIXES:
        raise RequestError(f"{path.name}: end the name with {', '.join(_SUFFIXES)}", field="to")
    if packages := _PACKAGES.get(path.suffix.lower()):
        check_extra("export", f"{path.suffix} files", packages=packages)
    if not path.parent.is_dir():
        raise StoreError(f"{path} cannot be written: there is no folder {path.parent}")
    refuse_within_cube(path.resolve(), field="to", instead="choose a place outside of it")
    store, place = open_existing(cube, stores)
    refuse_joined(
        store,
        place,
        done="exported",
        instead="open it by open_virtual or open_joined, and write it with xarray; or export the cubes that "
        "are joined",
    )
    rows = rows_where(cube, where, stores=stores) if where else None
    with finished_group(store, place) as group:
        if isinstance(group, RowGroup):
            raise RequestError(
                f"{place} is a cube of chips, which is exported as tar files of WebDataset alone: end the "
                "name with .tar (in Python: open_chips(...).to_webdataset(...)), or write it with xarray",
                field="cube",
            )
        chosen = CubeRows.of(group, rows=rows, measurements=measurements)
        if not measurements and path.suffix.lower() in PICTURES:
            in_colour = true_colour({name: chosen.meaning(name) for name in chosen.measurements})
            chosen = replace(chosen, measurements=in_colour or chosen.measurements)
        return list(_write_files(chosen, path, place, style or PictureStyle()))


def _write_files(rows: CubeRows, path: Path, place: str, style: PictureStyle) -> Iterator[Path]:
    suffix = path.suffix.lower()
    if suffix == ".zarr":
        from pixel_gather.features.export.plain_zarr import write_plain_zarr  # noqa: PLC0415 # as below

        with errors_of_writing(path):
            write_plain_zarr(rows, path)
        yield path
        return
    if suffix == ".tif":
        from pixel_gather.features.export.geotiffs import write_geotiffs  # noqa: PLC0415 # each has its library

        yield from write_geotiffs(rows, path)
        return
    write = _writer(rows, path, place, style)
    with replacing(path) as partial:
        write(partial)
    yield path


def _writer(rows: CubeRows, to: Path, place: str, style: PictureStyle) -> Callable[[Path], None]:
    """Return what writes the one file of this suffix."""
    suffix = to.suffix.lower()
    if suffix == ".json":
        from pixel_gather.features.export.stac_item import write_stac_item  # noqa: PLC0415 # as above

        return lambda path: write_stac_item(rows, path, place=place, to=to)
    if suffix == ".nc":
        from pixel_gather.features.export.netcdf import write_netcdf  # noqa: PLC0415 # as above

        return lambda path: write_netcdf(rows, path)
    if suffix in _TABLES:
        from pixel_gather.features.export.row_statistics import write_csv, write_parquet  # noqa: PLC0415 # as above

        return lambda path: (write_csv if suffix == ".csv" else write_parquet)(rows, path)
    from pixel_gather.features.export.draw_pictures import Drawing  # noqa: PLC0415 # as above
    from pixel_gather.features.export.write_animation import (  # noqa: PLC0415 # as above
        write_animation,
        write_png,
    )

    title = place.rstrip("/").rpartition("/")[2]
    drawing = Drawing.of(rows, title=title, style=style)
    if suffix == ".png":
        return lambda path: write_png(drawing, path)
    return lambda path: write_animation(drawing, path, frames_per_second=style.frames_per_second)
