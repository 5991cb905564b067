"""Lambda entry point: fill the shards of one child of the map, one after another.

The event has the gather's name and claim (``gather``) and an item of the manifest (``tasks``). A first try
has ``limit_s``, the seconds that the state machine waits. A second try has ``late_s``, the seconds that each
shard may take.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.settings import Settings
from handlers.steps.deadline import ShardTimes, in_time, reading_s
from handlers.steps.reading import Readers
from handlers.steps.shard_metrics import metrics_of_shard, summary_of_shard
from handlers.steps.spending import spending
from handlers.wiring import Deployment, claim_in, cube_name
from pixel_gather.adapters.aws.metrics import EmfMetrics
from pixel_gather.adapters.crs import RasterioProjector
from pixel_gather.adapters.cube.control_files import ObjectControlStore
from pixel_gather.errors import StoreError
from pixel_gather.plan.cube_plan import CubePlan
from pixel_gather.plan.shards import ShardTask
from pixel_gather.read.read_shard import ShardBuffers
from pixel_gather.use_cases import (
    FilledShard,
    LoadedShard,
    check_claim,
    gather_shard,
    load_plan,
    load_shard,
)

type Done = Callable[[CubePlan, ShardTask, FilledShard], None]

_LONGEST_SOURCE_S: Final = 180.0


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What the shards of one gather share: the plan, and the memory that they are read into."""

    gather: str
    plan: CubePlan
    buffers: ShardBuffers


class ShardWorker:
    """Fills shards. Keeps clients, GDAL's child processes and the last plan between invocations."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self._readers = Readers(deployment, holds_a_shard=True)
        self._projector = RasterioProjector()
        self._prepared: _Prepared | None = None

    async def gather(self, gather: str, tasks: Sequence[ShardTask], *, times: ShardTimes, done: Done) -> None:
        """Fill and commit shards of a plan, one after another. Safe to run twice.

        Where a store refuses one shard, the others are filled first, and then the error is raised.

        Args:
            gather: The cube's name and claim.
            tasks: Which shards.
            times: How long each shard may take. Sources that are not read in time get the status timed out.
            done: Called for each shard when it is committed.

        Raises:
            StoreError: A store refused.
            BusyError: This machine lacks a resource at the moment.
            ArrayExistsError: The cube was removed and planned again.
            ShardLateError: A first try has no time for the next shard.
            ShardsLeftError: A second try has no time for the next shard.
        """
        control = self.deployment.control(gather, may_list=False)
        preparing = asyncio.ensure_future(self._prepare(gather, control))
        asked = self._asked(gather, tasks[0], control)
        claims = self.deployment.control(cube_name(gather), may_list=False)
        refused: StoreError | None = None
        try:
            for task, next_one in zip(tasks, (*tasks[1:], None), strict=True):
                left_s = times.begin()
                await asyncio.gather(*asked, preparing, return_exceptions=True)
                claiming, loading = asked
                claiming.result()  # first: where the cube is another gather's, the other errors mislead
                prepared, loaded = preparing.result(), loading.result()
                if next_one is not None:  # fetched while this shard is read
                    asked = self._asked(gather, next_one, control)
                try:
                    filled = await gather_shard(
                        task,
                        plan=prepared.plan,
                        reader=self._readers.of(prepared.plan.sign),
                        projector=self._projector,
                        slots=self.deployment.slots,
                        buffers=prepared.buffers,
                        cube=self.deployment.cube(gather),
                        control=control,
                        source_timeout_s=_LONGEST_SOURCE_S,
                        loaded=loaded,
                        claims=claims,
                        read_until=asyncio.get_running_loop().time() + reading_s(left_s),
                    )
                except StoreError as error:
                    refused = refused or error
                else:
                    done(prepared.plan, task, filled)
            if refused is not None:
                raise refused
        finally:
            for each in (*asked, preparing):
                each.cancel()
            await asyncio.gather(*asked, preparing, return_exceptions=True)

    def _asked(
        self, gather: str, task: ShardTask, control: ObjectControlStore
    ) -> tuple[asyncio.Future[None], asyncio.Future[LoadedShard]]:
        """Check the claim and load the task's control files, concurrently.

        One after another, each would delay the first source by a round trip.
        """
        claims = self.deployment.control(cube_name(gather), may_list=False)
        claiming = asyncio.ensure_future(check_claim(claims, claim_in(gather)))
        return claiming, asyncio.ensure_future(load_shard(task, control))

    async def aclose(self) -> None:
        """End the reader's child processes. Lambda never calls this."""
        await self._readers.aclose()

    async def _prepare(self, gather: str, control: ObjectControlStore) -> _Prepared:
        if self._prepared is None or self._prepared.gather != gather:
            self._prepared = None  # frees the buffers before the next ones are made
            plan = await load_plan(control)
            self._prepared = _Prepared(gather, plan, ShardBuffers(plan))
        return self._prepared


settings = Settings.from_environment()
logger = Logger()
metrics = EmfMetrics(stage=settings.stage)
worker = ShardWorker(Deployment(settings))


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Fill the shards of an item and return a summary of each. Each is logged when it is done."""
    gather, tasks = event["gather"], msgspec.convert(event["tasks"], list[ShardTask])
    logger.append_keys(gather_id=cube_name(gather))
    told_of = {"gather_id": cube_name(gather), "shard_index": tasks[0].index}
    summaries: list[dict[str, Any]] = []

    def done(plan: CubePlan, task: ShardTask, filled: FilledShard) -> None:
        summary = {"shard_index": task.index} | summary_of_shard(filled.result, plan=plan, task=task)
        summaries.append(summary)
        if filled.is_new:
            spent.add(filled.result, plan)
            logger.info("shard finished", extra=summary)
            told = metrics_of_shard(filled.result, is_strip=plan.n_strips > 1)
            metrics.write(told, gather_id=cube_name(gather), shard_index=task.index)
        else:
            logger.info("shard was there already", extra=summary)

    limit_s = event.get("limit_s")
    times = ShardTimes(
        left_s=context.get_remaining_time_in_millis() / 1000, limit_s=limit_s, late_s=event.get("late_s")
    )
    with spending(metrics, memory_mib=settings.memory_mib, **told_of) as spent:
        work = worker.gather(gather, tasks, times=times, done=done)
        worker.deployment.run(in_time(work, limit_s=limit_s))
    totals = {name: sum(each[name] for each in summaries) for name in ("windows_read", "windows_failed")}
    return {"gather": gather, "shards": summaries} | totals
