"""What a gather ends with: a short result, and ``report.json`` in the cube's folder."""

import json
from typing import Any, Final

from handlers.cost import usd_by_service
from handlers.wiring import Deployment
from handlers.workers import workers_of
from pixel_gather.adapters.control_store import ObjectControlStore
from pixel_gather.report import Report

_REPORT_KEY: Final = "report.json"


async def publish(report: Report, gather: str, deployment: Deployment) -> dict[str, Any]:
    """Write ``report.json`` into the cube's folder and return the gather's result; safe to run twice."""
    settings = deployment.settings
    cube = settings.cube_href(gather)
    workers = workers_of(settings)
    usd = usd_by_service(report, worker_memory_mib=workers.worker_memory_mib, max_workers=workers.n_workers)
    where = {"gather": gather, "cube": cube}
    content = where | report.to_json() | {"usd": sum(usd.values()), "usd_by_service": usd}
    folder = ObjectControlStore(deployment.cube(gather).store, "")
    await folder.put(_REPORT_KEY, json.dumps(content, indent=2).encode())
    return where | {
        "report": f"{cube}/{_REPORT_KEY}",
        "digest": report.digest,
        "n_sources": report.n_sources,
        "n_failed": report.n_failed,
        "status": report.status_counts,
        "shape": list(report.shape),
        "wall_s": report.wall_s,
        "fetched_nbytes": report.fetched_nbytes,
        "requests": report.requests,
        "retries": report.retries,
        "stored_nbytes": report.stored_nbytes,
        "n_shards": report.n_shards,
        "n_lost_shards": report.n_lost_shards,
        "usd": sum(usd.values()),
    }
