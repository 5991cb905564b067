"""Compute statistics of many images in many polygons, as one table."""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from typing import Any, cast, get_args

from pixel_gather.core.errors import RequestError
from pixel_gather.features.zones.measure_zones import MOST_CELLS, ZoneWork
from pixel_gather.features.zones.zone_statistics import DEFAULT, ZoneStatistic, parse_statistics
from pixel_gather.in_process.progress import Progress
from pixel_gather.in_process.settings import Settings
from pixel_gather.in_process.table_job import MadeTable, TableJob, TablePlan
from pixel_gather.in_process.table_request import TableRequest, opened_table
from pixel_gather.io.event_loop import run
from pixel_gather.tables.pixel_gate import PixelGate
from pixel_gather.tables.sample import Sampler
from pixel_gather.tables.zone_cells import CheckedZones, Coverage, ZonePlaces


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneRule:
    """What is computed of the pixels of a zone."""

    statistics: tuple[ZoneStatistic, ...]
    coverage: Coverage

    @classmethod
    def of(cls, statistics: str | Sequence[str], coverage: str) -> "ZoneRule":
        """Check them.

        Raises:
            RequestError: There is no such statistic or coverage.
        """
        known = get_args(Coverage.__value__)
        if coverage not in known:
            raise RequestError(f"it is {coverage!r}; write {', '.join(known)}", field="coverage")
        return cls(statistics=parse_statistics(statistics), coverage=cast("Coverage", coverage))


def zones(  # noqa: PLR0913 # each option of the command has a name of its own here
    features: Any,
    sources: Any,
    *,
    to: str | os.PathLike[str],
    id: str | None = None,  # noqa: A002 # the option's name
    crs: str | None = None,
    time: str | None = None,
    tolerance: str | None = None,
    by: str | Sequence[str] | None = None,
    statistics: str | Sequence[str] = DEFAULT,
    coverage: str = "fraction",
    mask: Mapping[str, Any] | None = None,
    bands: Mapping[str, str] | None = None,
    raw: bool = False,
    limits: Mapping[str, float] | None = None,
    settings: Settings | None = None,
) -> MadeTable:
    """Write statistics of all images in all polygons as a table: one line for each polygon and image.

    Which share of each pixel a polygon covers is computed once for each grid and polygon. Each tile of each
    image is fetched and decoded once, unless the polygons have more than four million pixels together.
    Nothing vanishes, and a stopped job goes on, as in `points`.

    Args:
        features: GeoParquet, GeoJSON, a CSV file with WKT, a GeoDataFrame, or a list of dicts.
        sources: As in `points`.
        to: As in `points`.
        id: As in `points`.
        crs: As in `points`.
        time: As in `points`.
        tolerance: As in `points`.
        by: As in `points`.
        statistics: ``count``, ``sum``, ``mean``, ``variance``, ``stdev``, ``cv``, ``min``, ``max``,
            ``median``, ``p10`` and other percentiles, ``mode`` or ``majority``, ``minority``, ``variety``,
            and ``frac_4``, the share of class 4. As exactextract defines them.
        coverage: ``fraction``: a pixel counts by the share of it that is covered. ``centre``: it counts if
            its middle is. ``touched``: it counts if it is touched.
        mask: As in `points`.
        bands: As in `points`.
        raw: As in `points`.
        limits: As in `points`.
        settings: How this machine is used.

    Raises:
        RequestError: A field is wrong. The error names it.
        BudgetError: The forecast is over a limit.
        StoreError: The table cannot be written.
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
    return run(zones_async(request, ZoneRule.of(statistics, coverage), to=to, settings=settings))


async def zones_async(
    request: TableRequest,
    rule: ZoneRule,
    *,
    to: str | os.PathLike[str],
    settings: Settings | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> MadeTable:
    """Write the table; see `zones`."""
    path = request.checked_path(to)
    async with _opened(request, rule, settings or Settings()) as job:
        await job.check_limits(**request.limits)
        return await job.run(path, on_progress=on_progress)


async def plan_zones(request: TableRequest, rule: ZoneRule, *, settings: Settings | None = None) -> TablePlan:
    """Return what a table would take. Reads the headers of some images, and no pixel."""
    async with _opened(request, rule, settings or Settings()) as job:
        return await job.plan()


@asynccontextmanager
async def _opened(request: TableRequest, rule: ZoneRule, settings: Settings) -> AsyncIterator[TableJob]:
    async with opened_table(request, settings) as (job, features, values, reader):
        if features.geometries is None and not features.is_empty.all():
            raise RequestError("these are points: use pixel-gather points", field="features")
        checked = CheckedZones.of(features)
        notes = (*features.notes, *checked.notes)
        with closing(ZonePlaces(checked, job.projector, coverage=rule.coverage)) as places:
            work = ZoneWork(
                values=values,
                statistics=rule.statistics,
                bands=job.table.bands,
                places=places,
                reader=reader,
                limiter=job.limiter,
                sampler=Sampler(limiter=job.limiter, timeout_s=settings.source_timeout_s),
                gate=PixelGate(MOST_CELLS),
            )
            yield TableJob(
                job=job,
                features=replace(features, problems=checked.problems, notes=notes),
                work=work,
                request={
                    **request.to_json(),
                    "kind": "zones",
                    "coverage": rule.coverage,
                    "columns": list(work.columns),
                },
                tolerance_us=request.tolerance_us,
            )
