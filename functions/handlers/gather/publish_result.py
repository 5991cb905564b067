"""Writes the report of a complete cube, and describes the gather's result."""

from typing import TYPE_CHECKING

from handlers.deployment.stores import Deployment
from handlers.gather.capacity import deployed_workers
from pixel_gather.core.results.cost import usd_by_service
from pixel_gather.core.results.report import Report
from pixel_gather.features.report.report_writer import Log, write_report
from pixel_gather.io.cube.written_report import PAGE_KEY, REPORT_KEY, WrittenReport, look_for_report

if TYPE_CHECKING:  # for the description, which needs msgspec
    from handlers.gather.answers import Result


async def publish_report(
    report: Report, gather: str, deployment: Deployment, *, log: Log, is_append: bool, has_report: bool
) -> WrittenReport:
    """Write the report unless it is there, and return what there is. Safe to run twice.

    After an append, a report that is there may be that of the cube before. ``view.html`` is written in any
    case.
    """
    cube = deployment.cube(gather)
    written = await look_for_report(cube.store)
    if not is_append and written.has_page:
        return written
    usd = _usd_by_service(report, deployment, has_report=has_report)
    return await write_report(cube.store, place=cube.place, usd_by_service=usd, log=log, draws=has_report)


def describe_result(
    report: Report,
    gather: str,
    deployment: Deployment,
    written: WrittenReport,
    *,
    has_report: bool,
    n_appended: int | None,
    n_retried: int = 0,
    n_read_again: int = 0,
) -> "Result":
    """Return the result of a complete gather."""
    cube = deployment.settings.cube_href(gather)
    return {
        "gather": gather,
        "cube": cube,
        "report": f"{cube}/{REPORT_KEY}" if written.has_figures else None,
        "report_page": f"{cube}/{PAGE_KEY}" if written.has_page else None,
        "digest": report.digest,
        "n_sources": report.n_sources,
        "n_failed": report.n_failed,
        "status": report.status_counts,
        "shape": list(report.shape),
        "n_appended": n_appended,
        "n_retried": n_retried,
        "n_read_again": n_read_again,
        "n_recovered": report.n_recovered,
        "wall_s": report.wall_s,
        "fetched_nbytes": report.fetched_nbytes,
        "requests": report.requests,
        "retries": report.retries,
        "stored_nbytes": report.stored_nbytes,
        "n_shards": report.n_shards,
        "n_lost_shards": report.n_lost_shards,
        "usd": sum(_usd_by_service(report, deployment, has_report=has_report).values()),
        "warnings": list(report.warnings),
    }


def _usd_by_service(report: Report, deployment: Deployment, *, has_report: bool) -> dict[str, float]:
    workers = deployed_workers(deployment.settings)
    return usd_by_service(
        report,
        worker_memory_mib=workers.worker_memory_mib,
        max_workers=workers.n_workers,
        has_report=has_report,
    )
