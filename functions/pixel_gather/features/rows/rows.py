"""Find rows of a cube, or of joined cubes, by their coordinates. No pixel is read."""

import os
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final

import numpy as np

from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.core.results.presence import SOLAR_DAY, Presence, grid_over
from pixel_gather.core.results.row_coordinates import Values
from pixel_gather.core.results.rows_where import Mask, NumberedTexts, select_rows
from pixel_gather.core.scene_conditions import parse_where
from pixel_gather.features.join.joined_metadata import centre_of
from pixel_gather.features.rows.read_rows import RowColumns
from pixel_gather.in_process.joined_places import holds_joined, refuse_choice
from pixel_gather.in_process.places import open_existing
from pixel_gather.io.store.store_settings import StoreSettings

_FIELD: Final = "where"


@check_arguments
def rows_where(
    cube: str | os.PathLike[str],
    where: str,
    *,
    group: str | None = None,
    version: str | int | datetime | None = None,
    stores: StoreSettings | None = None,
) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Return the positions of the rows whose coordinates meet conditions, in order.

    Only the coordinates that the conditions name are read. They are kept in memory for the next call, until
    the cube changes. With xarray:
    ``dataset.isel(time=rows_where(cube, "cloud_cover < 20"))``. For joined cubes, the positions are those in
    the dataset of `open_joined`.

    Args:
        cube: A folder, or ``s3://bucket/prefix``, of a cube or of joined cubes.
        where: Conditions such as ``cloud_cover < 20 and platform == 'S2A'`` or ``time >= 2024-05-01``: the
            operators are ``< <= > >= == != in``, joined by ``and``. A missing value meets none. A coordinate
            with one value for each measurement must meet its condition in all of them. ``status == 'ok'``
            says the same as ``status == 0``. A year, month or day means all of it: ``time == 2024-05``. Texts
            that are times, such as ``created`` of scenes, are compared as times, as in a search.
        group: Name of the group, if joined cubes have several.
        version: Version of joined cubes; None for the latest.
        stores: How to access S3.

    Raises:
        RequestError: A condition is wrong, or the cube has no such coordinate.
        StoreError: No complete cube is there, or it cannot be read.
        MissingExtraError: Cubes are joined there, and icechunk is not installed.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    conditions = parse_where(where, field=_FIELD, example="valid_fraction>0.5")
    if not conditions:
        raise RequestError("write a condition such as cloud_cover < 20", field=_FIELD)
    store, place = open_existing(cube, stores)
    names = dict.fromkeys(each.name for each in conditions)
    columns: Mapping[str, Values | NumberedTexts]
    exist: Mask | None = None
    if holds_joined(store, place):
        from pixel_gather.features.join.join import read_joined_rows  # noqa: PLC0415 # 0.2 s, for joined cubes alone

        columns = read_joined_rows(cube, names, group=group, version=version, stores=stores, field=_FIELD)
    else:
        refuse_choice(group, version)
        rows = RowColumns(store, place=place)
        columns, exist = rows.columns(names, field=_FIELD), rows.exist()
    found = select_rows(conditions, columns)
    return np.flatnonzero(found if exist is None else found & exist)


@check_arguments
def presence(
    cube: str | os.PathLike[str],
    by: str,
    *,
    group: str | None = None,
    version: str | int | datetime | None = None,
    stores: StoreSettings | None = None,
) -> Presence:
    """Return which combinations of days, months or other values a cube, or joined cubes, have rows for.

    Only rows with a source that was read count. Rows with a missing value are left out. For joined cubes, the
    rows are those of the dataset of `open_joined`.

    Args:
        cube: A folder, or ``s3://bucket/prefix``, of a cube or of joined cubes.
        by: ``day``, ``solar-day``, ``month`` or the name of a coordinate; several with commas between, such
            as ``day,tile``. Days and months are those of UTC, without gaps from the first to the last. A
            solar day is that of the sun at the middle of the window. Joined cubes also have ``member``.
        group: Name of the group, if joined cubes have several.
        version: Version of joined cubes; None for the latest.
        stores: How to access S3.

    Raises:
        RequestError: The cube has no such coordinate, it is unsuitable, or there would be too many bins.
        StoreError: No complete cube is there, or it cannot be read.
        MissingExtraError: Cubes are joined there, and icechunk is not installed.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    store, place = open_existing(cube, stores)
    if holds_joined(store, place):
        from pixel_gather.features.join.join import joined_presence  # noqa: PLC0415 # as above

        return joined_presence(cube, by, group=group, version=version, stores=stores)
    refuse_choice(group, version)
    rows = RowColumns(store, place=place)
    read = partial(rows.columns, field="by")
    return grid_over(by, read=read, longitude=lambda: _longitude(rows.attributes))


def _longitude(attributes: Mapping[str, Any]) -> float:
    crs, x, y = centre_of(attributes)
    if not crs or np.isnan(x):
        raise RequestError(f"{SOLAR_DAY} needs a cube whose rows lie at one place on the map", field="by")
    from pixel_gather.io.crs import RasterioProjector  # noqa: PLC0415 # starts PROJ

    return RasterioProjector().longitude(crs, x, y)
