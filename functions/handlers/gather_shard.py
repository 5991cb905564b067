"""Lambda entry point: fill the shards of one child of the map, one after another.

Event: a gather's name and an item of its manifest; of a first try, its limit in seconds; of a second try,
that of each shard.
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
from handlers.steps.measured import metrics_of_shard, summary_of_shard
from handlers.steps.reading import reader_of
from handlers.steps.spending import spending
from handlers.wiring import Deployment, claim_in, cube_name
from pixel_gather.adapters.aws.metrics import EmfMetrics
from pixel_gather.adapters.crs import RasterioProjector
from pixel_gather.adapters.cube.control_store import ObjectControlStore
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
    """What shards of one plan share: the plan, and memory that they are read into."""

    gather: str
    plan: CubePlan
    buffers: ShardBuffers


class ShardWorker:
    """Fills shard after shard; keeps clients, the reader's processes and the last plan between them."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self._reader = reader_of(deployment, holds_a_shard=True)
        self._projector = RasterioProjector()
        self._prepared: _Prepared | None = None

    async def gather(self, gather: str, tasks: Sequence[ShardTask], *, times: ShardTimes, done: Done) -> None:
        """Fill and commit shards of a plan, one after another; safe to run twice.

        A shard that a store refuses costs no other one: that is raised when all have had their turn.

        Args:
            gather: The cube's name and claim.
            tasks: Which shards.
            times: How long each may take; sources not read in time are timed out.
            done: Told of each shard once it is committed.

        Raises:
            StoreError: A store refused.
            BusyError: This machine could not just now.
            ArrayExistsError: The cube was removed and has been planned anew since.
            ShardLateError: There is no time for the next shard.
            ShardsLeftError: As above.
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
                claiming.result()  # before the others': of a cube that is another's their errors say nothing
                prepared, loaded = preparing.result(), loading.result()
                if next_one is not None:  # asked for while this one is read
                    asked = self._asked(gather, next_one, control)
                try:
                    filled = await gather_shard(
                        task,
                        plan=prepared.plan,
                        reader=self._reader,
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
        """Ask whether the cube is still this gather's, and for what a task needs, at one time.

        One after another these would be round trips before the first source is asked for.
        """
        claims = self.deployment.control(cube_name(gather), may_list=False)
        claiming = asyncio.ensure_future(check_claim(claims, claim_in(gather)))
        return claiming, asyncio.ensure_future(load_shard(task, control))

    async def aclose(self) -> None:
        """End the reader's processes; Lambda never does."""
        await self._reader.aclose()

    async def _prepare(self, gather: str, control: ObjectControlStore) -> _Prepared:
        if self._prepared is None or self._prepared.gather != gather:
            self._prepared = None  # before the next buffers are made
            plan = await load_plan(control)
            self._prepared = _Prepared(gather, plan, ShardBuffers(plan))
        return self._prepared


settings = Settings.from_environment()
logger = Logger()
metrics = EmfMetrics(stage=settings.stage)
worker = ShardWorker(Deployment(settings))


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Fill a few shards and answer with what they took; each is told of in the log when it is done."""
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
