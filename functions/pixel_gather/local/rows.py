"""Find rows of a cube by their coordinates. No pixel is read."""

import os
from typing import Any, Final

import numpy as np

from pixel_gather.adapters.cube.read_rows import read_rows
from pixel_gather.adapters.object_store.object_store import StoreSettings
from pixel_gather.catalog.where import parse_where
from pixel_gather.errors import RequestError
from pixel_gather.local.gather import open_existing
from pixel_gather.model.status import Status
from pixel_gather.report.presence import TIME_UNITS, Presence, axis_of, presence_of
from pixel_gather.report.rows_where import mask_of

_FIELD: Final = "where"


def rows_where(
    cube: str | os.PathLike[str], where: str, *, stores: StoreSettings | None = None
) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Return the positions of the rows whose coordinates meet conditions, in order.

    Only the coordinates that the conditions name are read. With xarray:
    ``dataset.isel(time=rows_where(cube, "cloud_cover < 20"))``.

    Args:
        cube: A folder, or ``s3://bucket/prefix``.
        where: Conditions such as ``cloud_cover < 20 and platform == 'S2A'`` or ``time >= 2024-05-01``: the
            operators are ``< <= > >= == != in``, joined by ``and``. A missing value meets none. A coordinate
            with one value for each measurement must meet its condition in all of them.
        stores: How to access S3.

    Raises:
        RequestError: A condition is wrong, or the cube has no such coordinate.
        StoreError: No complete cube is there, or it cannot be read.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    conditions = parse_where(where, field=_FIELD)
    if not conditions:
        raise RequestError("write a condition such as cloud_cover < 20", field=_FIELD)
    store, place = open_existing(cube, stores)
    names = dict.fromkeys(each.name for each in conditions)
    columns = read_rows(store, names, place=place, field=_FIELD)
    return np.flatnonzero(mask_of(conditions, columns))


def presence(cube: str | os.PathLike[str], by: str, *, stores: StoreSettings | None = None) -> Presence:
    """Return which combinations of days, months or other values a cube has rows for.

    Only rows with a source that was read count. Rows with a missing value are left out.

    Args:
        cube: A folder, or ``s3://bucket/prefix``.
        by: ``day``, ``month`` or the name of a coordinate; several with commas between, such as
            ``day,tile``. Days and months are those of UTC, without gaps from the first to the last.
        stores: How to access S3.

    Raises:
        RequestError: The cube has no such coordinate, it is unsuitable, or there would be too many bins.
        StoreError: No complete cube is there, or it cannot be read.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    names = [name.strip() for name in by.split(",")]
    store, place = open_existing(cube, stores)
    wanted = dict.fromkeys(["status", *("time" if name in TIME_UNITS else name for name in names)])
    columns = read_rows(store, wanted, place=place, field="by")
    status = columns["status"].reshape(len(columns["status"]), -1)
    axes = [axis_of(name, columns["time" if name in TIME_UNITS else name]) for name in names]
    return presence_of(axes, counts=(status == Status.OK).any(axis=1))
