"""Lambda entry point: fill the shards of one child of the map in their order.

The event has the gather's name and claim (``gather``), the name of the execution (``execution``) and an item
of the manifest (``tasks``). Nothing more is filled once the execution is cancelled. A first try
has ``limit_s``, the seconds that the state machine waits. A second try has ``late_s``, the seconds that each
shard may take.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.deployment.report_spending import report_spending
from handlers.deployment.settings import Settings
from handlers.deployment.stores import Deployment, cube_name
from handlers.gather.readers import Readers
from handlers.gather.shard_metrics import metrics_of_shard, summarize_shard
from pixel_gather.core.errors import GatherCancelledError
from pixel_gather.core.estimate.worker_limits import room_nbytes
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.ports import SourceAccess
from pixel_gather.core.read.time_limits import ShardTimes, in_time
from pixel_gather.engine.gather_context import GatherStores
from pixel_gather.engine.gather_shard import FilledShard
from pixel_gather.engine.gather_shards import LastPlan, OnShard, gather_shards
from pixel_gather.io.aws.metrics import EmfMetrics
from pixel_gather.io.crs import RasterioProjector


class ShardWorker:
    """Fills shards of a deployment. Keeps clients, GDAL's child processes and the last plan."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self._readers = Readers(deployment, holds_a_shard=True)
        self._projector = RasterioProjector()
        self._last_plan = LastPlan(room_nbytes(deployment.settings.memory_mib))

    async def gather(
        self, gather: str, tasks: Sequence[ShardTask], *, execution: str, times: ShardTimes, done: OnShard
    ) -> None:
        """Fill and commit shards of a plan; see `pixel_gather.engine.gather_shards.gather_shards`."""
        await gather_shards(
            tasks,
            gather=f"{gather} {execution}",  # another execution may go on under other limits
            last_plan=self._last_plan,
            sources_of=self._sources,
            stores=GatherStores(
                cube=self.deployment.cube(gather, may_list=False),
                control=self.deployment.control(gather, may_list=False),
            ),
            times=times,
            on_shard=done,
            is_cancelled=partial(self.deployment.is_cancelled, execution),
        )

    def _sources(self, plan: CubePlan) -> SourceAccess:
        self.deployment.budgets.use(plan.requests_per_s, n_workers=plan.estimate.n_workers)
        return self._readers.sources(plan.sign, self._projector)

    async def aclose(self) -> None:
        """End the reader's child processes. Lambda never calls this."""
        await self._readers.aclose()


settings = Settings.from_environment()
logger = Logger()
metrics = EmfMetrics(stage=settings.stage)
worker = ShardWorker(Deployment(settings))


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Fill the shards of an item and return a summary of each. Each is logged when it is done."""
    gather, tasks = event["gather"], msgspec.convert(event["tasks"], list[ShardTask])
    logger.append_keys(gather_id=cube_name(gather))
    log_keys = {"gather_id": cube_name(gather), "shard_index": tasks[0].index}
    summaries: list[dict[str, Any]] = []

    def done(plan: CubePlan, task: ShardTask, filled: FilledShard) -> None:
        summary = {"shard_index": task.index} | summarize_shard(filled.result, plan=plan, task=task)
        summaries.append(summary)
        if filled.is_new:
            spent.add(filled.result, plan)
            logger.info("shard finished", extra=summary)
            values = metrics_of_shard(filled.result, is_strip=plan.n_strips > 1)
            metrics.write(values, gather_id=cube_name(gather), shard_index=task.index)
        else:
            logger.info("shard was there already", extra=summary)

    limit_s = event.get("limit_s")
    times = ShardTimes(
        left_s=context.get_remaining_time_in_millis() / 1000, limit_s=limit_s, late_s=event.get("late_s")
    )
    with report_spending(metrics, memory_mib=settings.memory_mib, **log_keys) as spent:
        work = worker.gather(gather, tasks, execution=event["execution"], times=times, done=done)
        try:
            worker.deployment.run(in_time(work, limit_s=limit_s))
        except GatherCancelledError as error:  # no failure: finish says it, if the execution goes on at all
            logger.info("gather was cancelled", extra={"cause": str(error)})
    totals = {name: sum(each[name] for each in summaries) for name in ("windows_read", "windows_failed")}
    return {"gather": gather, "shards": summaries} | totals
