"""Lambda entry point: complete the cube once its shards are filled.

The event has the gather's name and claim (``gather``), the name of the execution (``execution``) and the
percentage of shards that may be lost (``failed_shards``).
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.deployment.settings import Settings
from handlers.deployment.stores import Deployment, cube_name
from handlers.gather.register import leave
from handlers.gather.result import publish_result
from handlers.gather.shard_metrics import metrics_of_gather
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.results.report import Report
from pixel_gather.engine.context import GatherStores
from pixel_gather.engine.finish_gather import finish_gather
from pixel_gather.engine.step_files import load_plan, load_tasks
from pixel_gather.engine.stop_if_cancelled import check_not_cancelled
from pixel_gather.io.aws.metrics import EmfMetrics

if TYPE_CHECKING:  # for the description
    from handlers.gather.answers import Result

settings = Settings.from_environment()
logger = Logger()
metrics = EmfMetrics(stage=settings.stage)
deployment = Deployment(settings)


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> "Result":
    """Finish a gather and return its result."""
    del context
    gather, percentage = event["gather"], event["failed_shards"]
    logger.append_keys(gather_id=cube_name(gather))
    finishing = _finish(gather, event["execution"], max_lost_share=percentage / 100)
    plan, report, result = deployment.run(finishing)
    shown = (
        "n_sources",
        "n_failed",
        "n_shards",
        "n_lost_shards",
        "requests",
        "fetched_nbytes",
        "wall_s",
        "usd",
    )
    logger.info("gather finished", extra={name: value for name, value in result.items() if name in shown})
    values = metrics_of_gather(report, result["usd"], has_strips=plan.n_strips > 1)
    metrics.write(values, gather_id=cube_name(gather))
    return result


async def _finish(gather: str, execution: str, *, max_lost_share: float) -> tuple[CubePlan, Report, "Result"]:
    """Complete the cube, unless an earlier try of the same plan has done so, or somebody has cancelled it.

    Raises:
        GatherCancelledError: The execution was cancelled, and then redriven in the console.
    """
    control = deployment.control(gather)
    planning, listing = asyncio.ensure_future(load_plan(control)), asyncio.ensure_future(load_tasks(control))
    checking = asyncio.ensure_future(check_not_cancelled(partial(deployment.is_cancelled, execution)))
    # concurrently: one round trip instead of three
    await asyncio.gather(planning, listing, checking, return_exceptions=True)
    checking.result()
    plan, tasks = planning.result(), listing.result()
    stores = GatherStores(cube=deployment.cube(gather), control=control)
    report = await finish_gather(plan=plan, tasks=tasks, stores=stores, max_lost_share=max_lost_share)
    publishing = publish_result(
        report,
        cube_name(gather),
        deployment,
        log=logger,
        n_appended=None if plan.append.is_first else plan.n_rows - plan.first_row,
        has_report=plan.has_report,
    )
    _, result = await asyncio.gather(leave(deployment.register, execution), publishing)
    return plan, report, result
