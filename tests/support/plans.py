"""Plans of small gathers over fakes, for tests of the steps that come after the plan."""

import asyncio
from copy import replace
from typing import Any

from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.core.plan.cube_plan import Append, CubePlan
from pixel_gather.core.plan.cube_template import CubeTemplate
from pixel_gather.core.plan.plan import plan_cube
from pixel_gather.core.ports import Projector, SourceTable
from pixel_gather.core.request.request import parse_request
from support.fakes import FakeReader, access_to

MIB = 2**20


def planned(
    reader: FakeReader,
    table: SourceTable,
    *,
    max_task_nbytes: int = 64 * MIB,
    workers: WorkerPool | None = None,
    projector: Projector | None = None,
    template: CubeTemplate | None = None,
    append: Append | None = None,
    by_reference: bool = False,
    **request: Any,
) -> CubePlan:
    """Plan a gather. The default window is the centre tile. No worker holds more than ``max_task_nbytes``."""
    given = {"sources": "list.csv", "window": "centre"} | request
    return asyncio.run(
        plan_cube(
            parse_request(given),
            table=table,
            sources=access_to(reader, projector=projector),
            workers=replace(workers or WorkerPool(), max_task_nbytes=max_task_nbytes),
            now=1_700_000_000.0,
            template=template,
            append=append,
            by_reference=by_reference,
        )
    )


def red_and_nir(red: str, nir: str, *, time_us: int | None = None) -> CubeRow:
    """Return a row of two bands by their hrefs, of one scene."""
    sources = (Source(href=red, band="red", scene="1"), Source(href=nir, band="nir", scene="1"))
    return CubeRow(time_us=time_us, sources=sources)
