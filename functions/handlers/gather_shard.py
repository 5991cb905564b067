"""Lambda entry point: fill one shard.

Event: a gather's name and an item of its manifest; of a first try, its limit in seconds.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.settings import Settings
from handlers.spending import spending
from handlers.steps.deadline import DeadlineReader, in_time, reading_s
from handlers.steps.measured import metrics_of_shard, summary_of_shard
from handlers.steps.reading import reader_of
from handlers.wiring import Deployment, claim_in, cube_name
from pixel_gather.adapters.aws.metrics import EmfMetrics
from pixel_gather.adapters.crs import RasterioProjector
from pixel_gather.adapters.cube.control_store import ObjectControlStore
from pixel_gather.plan.cube_plan import CubePlan
from pixel_gather.plan.shards import ShardTask
from pixel_gather.read.read_shard import ShardBuffers
from pixel_gather.use_cases import FilledShard, check_claim, gather_shard, load_plan, load_shard

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

    async def gather(self, gather: str, task: ShardTask, *, left_s: float) -> tuple[CubePlan, FilledShard]:
        """Fill and commit one shard of a plan; safe to run twice.

        Args:
            gather: The cube's name and claim.
            task: Which shard.
            left_s: How long this worker has to live; sources not read in time are timed out.

        Raises:
            StoreError: A store refused.
            BusyError: This machine could not just now.
            ArrayExistsError: The cube was removed and has been planned anew since.
        """
        control = self.deployment.control(gather, may_list=False)
        claims = self.deployment.control(cube_name(gather), may_list=False)
        # at one time: one after another these would be four round trips before the first source is asked for
        claiming = asyncio.ensure_future(check_claim(claims, claim_in(gather)))
        preparing = asyncio.ensure_future(self._prepare(gather, control))
        loading = asyncio.ensure_future(load_shard(task, control))
        for _ in "tasks", "their tasks":
            await asyncio.sleep(0)  # all is asked for by now; a client's root certificates take 3 ms to read
        cube = self.deployment.cube(gather)
        await asyncio.gather(claiming, preparing, loading, return_exceptions=True)
        claiming.result()  # before the others': of a cube that is another's their errors say nothing
        prepared = preparing.result()
        deadline = asyncio.get_running_loop().time() + reading_s(left_s)
        filled = await gather_shard(
            task,
            plan=prepared.plan,
            reader=DeadlineReader(self._reader, deadline),
            projector=self._projector,
            slots=self.deployment.slots,
            buffers=prepared.buffers,
            cube=cube,
            control=control,
            source_timeout_s=_LONGEST_SOURCE_S,
            loaded=loading.result(),
            claims=claims,
        )
        return prepared.plan, filled

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
    """Fill one shard and answer with what it took."""
    gather, task = event["gather"], msgspec.convert(event["task"], ShardTask)
    logger.append_keys(gather_id=cube_name(gather), shard_index=task.index)
    left_s = context.get_remaining_time_in_millis() / 1000
    work = in_time(worker.gather(gather, task, left_s=left_s), limit_s=event.get("limit_s"))
    told_of = {"gather_id": cube_name(gather), "shard_index": task.index}
    with spending(metrics, memory_mib=settings.memory_mib, **told_of) as spent:
        plan, filled = worker.deployment.run(work)
        if filled.is_new:
            spent.add(filled.result, plan)
    summary = summary_of_shard(filled.result, plan=plan, task=task)
    if filled.is_new:
        logger.info("shard finished", extra=summary)
        told = metrics_of_shard(filled.result, is_strip=plan.n_strips > 1)
        metrics.write(told, gather_id=cube_name(gather), shard_index=task.index)
    else:
        logger.info("shard was there already", extra=summary)
    return {"gather": gather, "shard_index": task.index} | summary
