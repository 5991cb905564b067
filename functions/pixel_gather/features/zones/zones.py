"""Compute statistics of many images in many polygons, as one table."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pixel_gather.core.request.check_arguments import check_arguments
from pixel_gather.features.zones.measure_zones import ZoneTable
from pixel_gather.features.zones.zone_statistics import DEFAULT
from pixel_gather.in_process.settings import Settings
from pixel_gather.in_process.table_job import MadeTable, make_table
from pixel_gather.io.event_loop import run
from pixel_gather.tables.table_request import TableRequest


@check_arguments
def zones(  # noqa: D417, PLR0913 # each option of the command has a name of its own here; see `points`
    features: Any,
    sources: Any,
    *,
    to: str | os.PathLike[str] | None = None,
    append_to: str | os.PathLike[str] | None = None,
    id: str | None = None,  # noqa: A002 # the option's name
    crs: str | None = None,
    time: str | None = None,
    tolerance: str | None = None,
    by: str | Sequence[str] | None = None,
    statistics: str | Sequence[str] = DEFAULT,
    coverage: str = "fraction",
    merge: bool = True,
    mask: Mapping[str, Any] | None = None,
    bands: Mapping[str, str] | None = None,
    raw: bool = False,
    limits: Mapping[str, float] | None = None,
    settings: Settings | None = None,
) -> MadeTable:
    """Write statistics of all images in all polygons as a table: one line for each polygon and image.

    Which share of each pixel a polygon covers is computed once for each grid and polygon. Each tile of each
    image is fetched and decoded once. If the boxes of the polygons have more than eight million pixels
    together, they are taken in parts, and tiles that two parts share are read for both.
    Nothing vanishes, and a stopped job goes on, as in `points`. Arguments that are not told of here are those
    of `points`.

    Args:
        features: GeoParquet, GeoJSON, a CSV file with WKT, a GeoDataFrame, or a list of dicts.
        statistics: ``count``, ``sum``, ``mean``, ``variance``, ``stdev``, ``cv``, ``min``, ``max``,
            ``median``, ``p10`` and other percentiles, ``mode`` or ``majority``, ``minority``, ``variety``,
            and ``frac_4``, the share of class 4. As exactextract defines them.
        coverage: ``fraction``: a pixel counts by the share of it that is covered. ``centre``: it counts if
            its middle is. ``touched``: it counts if it is touched.
        merge: Whether images of one acquisition that share a polygon make one line, as if they were one
            image. They are known by ``platform`` and time, so only for catalogs, and lists with these.
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
            ZoneTable.of(statistics, coverage, merge),
            request,
            to=to,
            append_to=append_to,
            settings=settings,
        )
    )
