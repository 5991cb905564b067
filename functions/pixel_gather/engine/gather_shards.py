"""Fill several shards of one gather, one after another, within a worker's time limits."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pixel_gather.core.claim import check_uncommitted
from pixel_gather.core.errors import AlreadyCommittedError, StoreError
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.ports import SourceAccess
from pixel_gather.core.read.read_shard import ShardBuffers
from pixel_gather.core.read.time_limits import ShardTimes, reading_s
from pixel_gather.core.stores import ControlStore, FoundCube
from pixel_gather.engine.context import GatherContext, GatherStores
from pixel_gather.engine.gather_shard import FilledShard, LoadedShard, gather_shard, load_shard
from pixel_gather.engine.step_files import load_plan
from pixel_gather.engine.stop_if_cancelled import IsCancelled, unless_cancelled

_log: Final = logging.getLogger(__name__)

type OnShard = Callable[[CubePlan, ShardTask, FilledShard], None]
"""Called when a shard is committed."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    gather: str
    plan: CubePlan
    buffers: ShardBuffers


class LastPlan:
    """Keeps the plan of the last gather, and the memory that its shards are read into, for the next tasks."""

    def __init__(self) -> None:
        self._prepared: _Prepared | None = None

    async def load(self, gather: str, control: ControlStore) -> tuple[CubePlan, ShardBuffers]:
        """Return a gather's plan and buffers.

        Args:
            gather: Identifies the gather and its claim.
            control: The gather's control files below its claim.
        """
        prepared = self._prepared
        if prepared is None or prepared.gather != gather:
            self._prepared = prepared = None  # frees the buffers before the next ones are made
            plan = await load_plan(control)
            self._prepared = prepared = _Prepared(gather, plan, ShardBuffers(plan))
        return prepared.plan, prepared.buffers


async def gather_shards(
    tasks: Sequence[ShardTask],
    *,
    gather: str,
    last_plan: LastPlan,
    sources_of: Callable[[CubePlan], SourceAccess],
    stores: GatherStores,
    times: ShardTimes,
    on_shard: OnShard,
    is_cancelled: IsCancelled,
) -> None:
    """Fill and commit shards of a plan, one after another. Safe to run twice.

    If a store refuses one shard, the others are filled first, and then the error is raised. Nothing is read
    or written if the cube has reached the plan's version.

    Args:
        tasks: Which shards; at least one.
        gather: Identifies the gather and its claim, for ``last_plan``.
        last_plan: Kept by the caller between calls.
        sources_of: Returns how a plan's sources are read.
        stores: Where the pixels are written, and the control files of the plan.
        times: How long each shard may take. Sources that are not read in time get the status timed out.
        on_shard: Called for each shard when it is committed.
        is_cancelled: Asked once for each shard, while its first sources are read.

    Raises:
        GatherCancelledError: The execution was cancelled. The shard before may be committed.
        StoreError: A store refused.
        BusyError: This machine lacks a resource at the moment.
        ArrayExistsError: The cube was removed and planned again.
        ShardLateError: A first try has no time for the next shard.
        ShardsLeftError: A second try has no time for the next shard.
    """

    async def planned() -> CubePlan:
        plan, _ = await asyncio.shield(preparing)
        return plan

    def ask(task: ShardTask) -> tuple[asyncio.Future[FoundCube | None], asyncio.Future[LoadedShard]]:
        """Look for the cube and load the task's control files, concurrently.

        One after another, each would delay the first source by a round trip.
        """
        return (
            asyncio.ensure_future(stores.cube.found_among_files()),
            asyncio.ensure_future(load_shard(task, plan=planned, stores=stores)),
        )

    preparing = asyncio.ensure_future(last_plan.load(gather, stores.control))
    asked = ask(tasks[0])
    refused: StoreError | None = None
    try:
        for task, next_one in zip(tasks, (*tasks[1:], None), strict=True):
            left_s = times.begin()
            await asyncio.gather(*asked, preparing, return_exceptions=True)
            finding, loading = asked
            plan, buffers = preparing.result()
            # first: where the cube is another gather's, the other errors mislead
            check_uncommitted(finding.result(), plan)
            loaded = loading.result()
            if next_one is not None:  # fetched while this shard is read
                asked = ask(next_one)
            try:
                filling = gather_shard(
                    task,
                    plan=plan,
                    context=GatherContext(cube=stores.cube, control=stores.control, sources=sources_of(plan)),
                    buffers=buffers,
                    loaded=loaded,
                    read_until=asyncio.get_running_loop().time() + reading_s(left_s),
                )
                filled = await unless_cancelled(filling, is_cancelled)
            except StoreError as error:
                refused = refused or error
            else:
                on_shard(plan, task, filled)
        if refused is not None:
            raise refused
    except AlreadyCommittedError as error:
        _log.info("%s", error)  # nothing is left to do for any of these shards
    finally:
        for each in (*asked, preparing):
            each.cancel()
        await asyncio.gather(*asked, preparing, return_exceptions=True)
