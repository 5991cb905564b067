"""Lambda entry point: complete the cube once its shards are filled.

The event has the gather's name and claim (``gather``), the name of the execution (``execution``) and the
percentage of shards that may be lost (``failed_shards``). An early event (``is_early``, without a percentage)
comes while shards of a small gather are filled: the function starts, and loads what it will need.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.deployment.settings import Settings
from handlers.deployment.stores import Deployment, cube_name
from handlers.gather.publish_result import describe_result, publish_report
from handlers.gather.register import leave
from handlers.gather.shard_metrics import metrics_of_gather
from pixel_gather.core.errors import GatherError
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.results.report import Report
from pixel_gather.engine.finish_gather import finish_gather
from pixel_gather.engine.gather_context import GatherStores
from pixel_gather.engine.step_files import both, load_plan, load_tasks
from pixel_gather.engine.stop_if_cancelled import check_not_cancelled
from pixel_gather.io.aws.metrics import EmfMetrics

if TYPE_CHECKING:  # for the description
    from handlers.gather.answers import Result

settings = Settings.from_environment()
logger = Logger()
metrics = EmfMetrics(stage=settings.stage)
deployment = Deployment(settings)
loaded: dict[tuple[str, str], "_Loaded"] = {}
"""What an early event has loaded, by its gather and execution. There is one at most."""

type _Loaded = tuple[CubePlan, tuple[ShardTask, ...]]


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: LambdaContext) -> "Result | None":
    """Finish a gather and return its result. Return nothing after an early event."""
    gather, execution = event["gather"], event["execution"]
    logger.append_keys(gather_id=cube_name(gather))
    if event.get("is_early"):
        deployment.run(_load_early(gather, execution))
        return None
    finishing = _finish(gather, execution, max_lost_share=event["failed_shards"] / 100)
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


async def _load_early(gather: str, execution: str) -> None:
    """Keep the plan and the tasks until finish needs them. An error is left to it."""
    loaded.clear()
    try:
        loaded[gather, execution] = await _load(gather, execution)
    except GatherError as error:
        logger.info("the plan was not loaded early", extra={"cause": str(error)})


async def _load(gather: str, execution: str) -> _Loaded:
    """Return the plan and the tasks. What was kept is used once, so another try reads them.

    Another execution reads them, too: it may go on under other limits.
    """
    kept = loaded.pop((gather, execution), None)
    control = deployment.control(gather)
    return kept or await both(load_plan(control), load_tasks(control))


async def _finish(gather: str, execution: str, *, max_lost_share: float) -> tuple[CubePlan, Report, "Result"]:
    """Complete the cube, unless an earlier try of the same plan has done so, or somebody has cancelled it.

    Raises:
        GatherCancelledError: The execution was cancelled, and then redriven in the console.
    """
    plan, tasks = await _load(gather, execution)
    report = await finish_gather(
        plan=plan,
        tasks=tasks,
        stores=GatherStores(cube=deployment.cube(gather), control=deployment.control(gather)),
        max_lost_share=max_lost_share,
        may_write=partial(check_not_cancelled, partial(deployment.is_cancelled, execution)),
    )
    name, append, has_report = cube_name(gather), plan.append, plan.has_report
    is_append = not append.is_first
    publishing = publish_report(
        report, name, deployment, log=logger, is_append=is_append, has_report=has_report
    )
    _, written = await asyncio.gather(leave(deployment.register, execution), publishing)
    result = describe_result(
        report,
        name,
        deployment,
        written,
        has_report=has_report,
        n_appended=plan.n_rows - plan.first_row if is_append else None,
        n_retried=append.n_again,
        n_read_again=report.n_recovered - sum(each.n_recovered for each in append.versions),
    )
    return plan, report, result
