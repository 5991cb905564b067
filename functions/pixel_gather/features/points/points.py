"""Read the values of many images under many points, as one table."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.features.points.measure_points import PointTable
from pixel_gather.features.points.point_pixels import Method
from pixel_gather.in_process.settings import Settings
from pixel_gather.in_process.table_job import MadeTable, make_table
from pixel_gather.io.event_loop import run
from pixel_gather.tables.table_request import TableRequest


@check_arguments
def points(  # noqa: PLR0913 # each option of the command has a name of its own here
    features: Any,
    sources: Any,
    *,
    to: str | os.PathLike[str] | None = None,
    append_to: str | os.PathLike[str] | None = None,
    id: str | None = None,  # noqa: A002 # the option's name
    x: str | None = None,
    y: str | None = None,
    crs: str | None = None,
    time: str | None = None,
    tolerance: str | None = None,
    by: str | Sequence[str] | None = None,
    mask: Mapping[str, Any] | None = None,
    bands: Mapping[str, str] | None = None,
    raw: bool = False,
    method: str = "nearest",
    square: int = 1,
    limits: Mapping[str, float] | None = None,
    settings: Settings | None = None,
) -> MadeTable:
    """Write the values of all images under all points as a table: one line for each point and image.

    Each tile of each image is fetched and decoded once, however many points lie on it. A point that lies on
    no image and an image that cannot be read have a line with a status. If the program is stopped, the same
    call goes on.

    Args:
        features: A CSV, GeoJSON or Parquet file, a GeoDataFrame, a data frame, or a list of dicts.
        sources: As a request's ``sources``: a list file, hrefs, a prefix, or scenes of a catalog.
        to: The table, a Parquet file. Two more are written beside it: ``.features`` and ``.images``.
        append_to: A table of the same features and values, instead. Only images that it lacks are read, and
            those that could not be read. It is made if it is not there.
        id: Column of the features' ids; None to number them from 1.
        x: Column of longitude or easting; None to find it by its name.
        y: Column of latitude or northing.
        crs: CRS of the features; None for what the file says, and longitude and latitude.
        time: Column of the features' times.
        tolerance: Longest time between feature and image, such as ``10d`` or ``36h``. Only such pairs are
            read.
        by: ``ndvi``, ``red,nir`` or expressions such as ``(nir - red) / (nir + red)``, of physical values.
            None for all bands as they are stored.
        mask: Pixels that do not count: ``{"band": "scl", "drop": [3, 8, 9, 10]}``, or ``bits``.
        bands: The band of the list, or the asset of the catalog, that each name in ``by`` stands for.
        raw: Whether to use stored values, without scale and offset.
        method: ``nearest``, the pixel that holds the point, or ``bilinear``.
        square: Take the mean of a square of so many pixels around the point's own: 3, 5 and so on.
        limits: ``{"usd": 0.5, "seconds": 60}``: refuse a table whose forecast is higher.
        settings: How this machine is used.

    Raises:
        RequestError: A field is wrong. The error names it.
        BudgetError: The forecast is over a limit.
        StoreError: The table cannot be written.
        BusyError: Another process writes the same table.
        DeniedError: There are no AWS credentials, or the requested profile does not exist.
    """
    request = TableRequest.of(
        features=features,
        sources=sources,
        id=id,
        x=x,
        y=y,
        crs=crs,
        time=time,
        tolerance=tolerance,
        by=by,
        mask=mask,
        bands=bands,
        raw=raw,
        limits=limits,
    )
    return run(
        make_table(
            PointTable(Method.of(method, square)), request, to=to, append_to=append_to, settings=settings
        )
    )
