"""Fill several shards of one gather within a worker's time limits. One is stored while the next is read."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from msgspec import Struct

from pixel_gather.core.claim import check_uncommitted
from pixel_gather.core.errors import AlreadyCommittedError, StoreError
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.ports import SourceAccess
from pixel_gather.core.read.shard_buffers import ShardBuffers
from pixel_gather.core.read.time_limits import ShardTimes, reading_s
from pixel_gather.core.stores import ControlStore, FoundCube
from pixel_gather.core.task_group import all_of
from pixel_gather.engine.gather_context import GatherContext, GatherStores
from pixel_gather.engine.gather_shard import FilledShard, LoadedShard, gather_shard, load_shard
from pixel_gather.engine.step_files import load_plan
from pixel_gather.engine.stop_if_cancelled import IsCancelled, unless_cancelled

_log: Final = logging.getLogger(__name__)

type _Fill = Callable[[Callable[[], None]], Coroutine[Any, Any, None]]
"""Fills a shard. Calls its argument when the next one may be read."""

type OnShard = Callable[[CubePlan, ShardTask, FilledShard], None]
"""Called when a shard is committed."""


class _Prepared(Struct, frozen=True):
    gather: str
    plan: CubePlan
    buffers: ShardBuffers


class LastPlan:
    """Keeps the plan of the last gather, and the memory that its shards are read into, for the next tasks."""

    def __init__(self, room_nbytes: int) -> None:
        """Keep nothing yet.

        Args:
            room_nbytes: Memory for shards, decoded and compressed.
        """
        self._room_nbytes = room_nbytes
        self._prepared: _Prepared | None = None

    async def load(self, gather: str, control: ControlStore) -> tuple[CubePlan, ShardBuffers]:
        """Return a gather's plan and buffers.

        Args:
            gather: Identifies the gather, its claim and the run that goes on with it.
            control: The gather's control files below its claim.
        """
        prepared = self._prepared
        if prepared is None or prepared.gather != gather:
            self._prepared = prepared = None  # frees the buffers before the next ones are made
            plan = await load_plan(control)
            self._prepared = prepared = _Prepared(gather, plan, ShardBuffers(plan))
        return prepared.plan, prepared.buffers

    def has_room_for(self, nbytes: int) -> bool:
        """Return whether shards may take so many bytes together, decoded and compressed."""
        return nbytes <= self._room_nbytes


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
    """Fill and commit shards of a plan in their order. Safe to run twice.

    A shard is stored while the next one is read, if there is room. If a store refuses one shard, the others
    are filled first, and then the error is raised. If anything else ends the reading, the shard that is being
    stored is stored first. Nothing is read or written if the cube has reached the plan's version.

    Args:
        tasks: Which shards; at least one.
        gather: Identifies the gather, its claim and the run that goes on with it, for ``last_plan``.
        last_plan: Kept by the caller between calls.
        sources_of: Returns how a plan's sources are read.
        stores: Where the pixels are written, and the control files of the plan.
        times: How long each shard may take. Sources that are not read in time get the status timed out.
        on_shard: Called for each shard when it is committed.
        is_cancelled: Asked once for each shard, while its first sources are read.

    Raises:
        GatherCancelledError: The execution was cancelled. The shards before may be committed.
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
    work = _Work(last_plan, stores, sources_of, times, on_shard, is_cancelled)
    try:
        async with _in_turn() as begin:
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
                await begin(partial(work.fill, task, plan, buffers, loaded, left_s, next_one is not None))
        if work.refused is not None:
            raise work.refused
    except AlreadyCommittedError as error:
        _log.info("%s", error)  # nothing is left to do for any of these shards
    finally:
        for each in (*asked, preparing):
            each.cancel()
        await asyncio.gather(*asked, preparing, return_exceptions=True)


@dataclass(slots=True)
class _Work:
    """What the shards of one call share."""

    last_plan: LastPlan
    stores: GatherStores
    sources_of: Callable[[CubePlan], SourceAccess]
    times: ShardTimes
    on_shard: OnShard
    is_cancelled: IsCancelled
    refused: StoreError | None = None
    """The first error of a store. The other shards are filled all the same."""

    async def fill(
        self,
        task: ShardTask,
        plan: CubePlan,
        buffers: ShardBuffers,
        loaded: LoadedShard,
        left_s: float,
        has_next: bool,  # noqa: FBT001 # `partial` gives it
        let_next: Callable[[], None],
    ) -> None:
        """Read a shard, store it and tell of it.

        Args:
            task: The shard.
            plan: The cube.
            buffers: Memory for the pixels.
            loaded: What the control files contain for the task.
            left_s: How long this may take.
            has_next: Whether another shard follows.
            let_next: Called when the next shard may be read.
        """
        began_s = time.monotonic()

        def on_read(nbytes: int) -> bool:
            # the next one is compressed to about as many bytes
            reads_on = has_next and self.last_plan.has_room_for(buffers.decoded_nbytes + 2 * nbytes)
            if reads_on:
                let_next()
            return reads_on

        filling = gather_shard(
            task,
            plan=plan,
            context=GatherContext(
                cube=self.stores.cube, control=self.stores.control, sources=self.sources_of(plan)
            ),
            buffers=buffers,
            loaded=loaded,
            read_until=asyncio.get_running_loop().time() + reading_s(left_s),
            on_read=on_read,
        )
        try:
            filled = await unless_cancelled(filling, self.is_cancelled)
        except StoreError as error:
            self.refused = self.refused or error
        else:
            self.on_shard(plan, task, filled)
        self.times.note(time.monotonic() - began_s)


@asynccontextmanager
async def _in_turn() -> AsyncIterator[Callable[[_Fill], Awaitable[None]]]:
    """Yield a function that fills a shard. It returns when that one is read and the one before is stored.

    At the end, and after an error of the caller or of a shard that is read, the last one is stored first. An
    error of a shard that is stored ends the reading of the next one.
    """
    stored: asyncio.Task[None] | None = None

    async def before() -> None:
        if stored is not None:
            await stored

    async def begin(fill: _Fill) -> None:
        nonlocal stored
        is_read = asyncio.Event()
        filling = asyncio.create_task(fill(is_read.set))
        filling.add_done_callback(lambda _: is_read.set())
        try:
            await all_of((is_read.wait(), before()))
        except BaseException:
            filling.cancel()
            await asyncio.gather(filling, return_exceptions=True)
            raise
        stored = filling
        if filling.done():
            filling.result()

    try:
        yield begin
        await before()
    except asyncio.CancelledError:
        if stored is not None:
            stored.cancel()
        raise
    finally:
        with suppress(Exception):
            await before()
