"""Lambda entry point: fill one shard. Event: a gather's name and an item of its manifest."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.deadline import DeadlineReader, reading_s
from handlers.manifest import has_same_shards, plan_mark, task_of
from handlers.measured import metrics_of_shard, summary_of_shard
from handlers.reading import reader_of
from handlers.settings import Settings
from handlers.wiring import Deployment
from pixel_gather.adapters.crs import RasterioProjector
from pixel_gather.adapters.fixed_slots import FixedSlots
from pixel_gather.adapters.metrics import EmfMetrics
from pixel_gather.cube import CubePlan
from pixel_gather.errors import ArrayExistsError
from pixel_gather.outcome import ShardResult
from pixel_gather.read import ShardBuffers
from pixel_gather.shards import ShardTask
from pixel_gather.use_cases import gather_shard, load_plan

_LONGEST_SOURCE_S: Final = 180.0


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What shards of one plan share: the plan, and memory that they are read into."""

    gather: str
    mark: str
    plan: CubePlan
    buffers: ShardBuffers


@dataclass(frozen=True, slots=True)
class Filled:
    """A shard that was filled, and the plan that it is of."""

    plan: CubePlan
    result: ShardResult


class ShardWorker:
    """Fills shard after shard; keeps clients, the reader's processes and the last plan between them."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self._reader = reader_of(deployment, holds_a_shard=True)
        self._projector = RasterioProjector()
        self._slots = FixedSlots(deployment.settings.concurrency)
        self._prepared: _Prepared | None = None

    async def gather(self, gather: str, task: ShardTask, mark: str | None, *, left_s: float) -> Filled:
        """Fill and commit one shard; safe to run twice.

        Args:
            gather: Name of the cube.
            task: Which shard.
            mark: Of the plan that the task was cut from.
            left_s: How long this worker has to live; sources not read in time are timed out.

        Raises:
            StoreError: A store refused.
            ArrayExistsError: The gather has been planned anew since, with other shards.
        """
        prepared = await self._prepare(gather, mark)
        deadline = asyncio.get_running_loop().time() + reading_s(left_s)
        result = await gather_shard(
            task,
            plan=prepared.plan,
            reader=DeadlineReader(self._reader, deadline),
            projector=self._projector,
            slots=self._slots,
            buffers=prepared.buffers,
            cube=self.deployment.cube(gather),
            control=self.deployment.control(gather),
            source_timeout_s=_LONGEST_SOURCE_S,
        )
        return Filled(prepared.plan, result)

    async def aclose(self) -> None:
        """End the reader's processes; Lambda never does."""
        await self._reader.aclose()

    async def _prepare(self, gather: str, mark: str | None) -> _Prepared:
        kept = self._prepared
        if kept is not None and (kept.gather, kept.mark) == (gather, mark):
            return kept
        self._prepared = kept = None  # before the next buffers are made
        plan = await load_plan(self.deployment.control(gather))
        found = plan_mark(plan)
        if mark is not None and not has_same_shards(mark, found):
            raise ArrayExistsError(
                f"the gather {gather} has been planned anew since this shard was cut: submit its request "
                "again instead of redriving"
            )
        self._prepared = _Prepared(gather, found, plan, ShardBuffers(plan))
        return self._prepared


settings = Settings.from_environment()
logger = Logger()
metrics = EmfMetrics(stage=settings.stage)
worker = ShardWorker(Deployment(settings))


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Fill one shard and answer with what it took."""
    gather = event["gather"]
    task, mark = task_of(event["task"])
    logger.append_keys(gather_id=gather, shard_index=task.index)
    left_s = context.get_remaining_time_in_millis() / 1000
    filled = worker.deployment.run(worker.gather(gather, task, mark, left_s=left_s))
    summary = summary_of_shard(filled.result, plan=filled.plan, task=task)
    logger.info("shard finished", extra=summary)
    metrics.write(metrics_of_shard(filled.result), gather_id=gather, shard_index=task.index)
    return {"gather": gather, "shard_index": task.index} | summary
