"""The second step of a gather: write the pixels of one shard, and a sidecar file with its results.

The finish calls `give_up_shard` for a shard that no worker has written. It is committed as lost.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from math import inf
from typing import Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.claim import check_uncommitted
from pixel_gather.core.model.outcome import Outcome, ShardResult
from pixel_gather.core.model.source import CubeRow
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.cube_plan import CubePlan, Measurement
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.process_usage import machine, peak_rss_mib
from pixel_gather.core.read.fill_rows import ShardFilling, scenes_of
from pixel_gather.core.read.quicklook import take_quicklooks
from pixel_gather.core.read.read_chips import read_chips
from pixel_gather.core.read.read_shard import OnSource, ignore, read_shard
from pixel_gather.core.read.row_work import RowWork
from pixel_gather.core.read.shard_buffers import Pixels, ShardBuffers
from pixel_gather.core.read.stored_tiles import BandTiles, StoredTiles
from pixel_gather.core.stores import CubeStore, RowEncoder, StoredShard
from pixel_gather.engine.commit_shard import EarlyLook, commit_shard, look_at_objects
from pixel_gather.engine.gather_context import GatherContext, GatherStores
from pixel_gather.engine.header_cache import (
    PackedHeaders,
    load_packed_headers,
    put_headers,
    take_headers,
)
from pixel_gather.engine.row_claim import check_row_claim
from pixel_gather.engine.step_files import both, read_committed, read_rows


class LoadedShard(Struct, frozen=True, kw_only=True):
    """What the control files contain for one task."""

    committed: ShardResult | None
    """The task's result if a worker has committed it, else None."""

    rows: tuple[CubeRow, ...]
    """The rows to read. Empty if the task is committed."""

    packed_headers: PackedHeaders = ()
    """Packed headers from a header index."""


_FEWEST_ROWS: Final = 16
"""Rows that are measured and compressed together, if a chunk has fewer. Each hand-over to threads costs."""


_LOOKS_BEFORE_LAST: Final = 32
"""Sources that are left when the worker looks at its objects. They take longer than the answers."""


type OnRead = Callable[[int], bool]
"""Called when a shard is read and the buffers are free for the next one. Takes its bytes, compressed, and
returns whether the next one is read now."""


def _no_next(_: int) -> bool:
    """Read no other shard."""
    return False


class FilledShard(Struct, frozen=True, kw_only=True):
    """A committed shard."""

    result: ShardResult
    is_new: bool
    """Whether this call filled the shard. If not, another worker did, and this call changed nothing."""


async def load_shard(
    task: ShardTask, *, plan: Callable[[], Awaitable[CubePlan]], stores: GatherStores
) -> LoadedShard:
    """Return a task's result if it is committed, else its rows. Requests are sent concurrently.

    Args:
        task: The shard.
        plan: Returns the cube. The rows are asked for while it arrives.
        stores: Where the pixels are written, and the control files of the plan.

    Raises:
        StoreError: A request failed. A failed read of the rows is ignored if the task is committed.
    """

    async def read_committed_already() -> ShardResult | None:
        return await read_committed(task, plan=await plan(), stores=stores)

    committing = asyncio.ensure_future(read_committed_already())
    listing = asyncio.ensure_future(read_rows(task, stores.control))
    headers = asyncio.ensure_future(load_packed_headers(task, stores.control))
    await asyncio.gather(committing, listing, headers, return_exceptions=True)
    if (committed := committing.result()) is not None:
        return LoadedShard(committed=committed, rows=())
    return LoadedShard(committed=None, rows=tuple(listing.result()), packed_headers=headers.result())


async def gather_shard(
    task: ShardTask,
    *,
    plan: CubePlan,
    context: GatherContext,
    buffers: ShardBuffers,
    on_source: OnSource = ignore,
    loaded: LoadedShard | None = None,
    read_until: float = inf,
    on_read: OnRead = _no_next,
) -> FilledShard:
    """Fill one shard of every measurement, then commit it by writing its sidecar.

    Safe to run twice: a committed shard is never changed. So an abandoned worker, whose sources time out,
    cannot overwrite what another worker has read.

    Args:
        task: The shard.
        plan: The cube.
        context: How sources are read, where the pixels are written, and the control files of the plan.
        buffers: Memory for the pixels.
        on_source: Called after each source.
        loaded: Result of `load_shard`, if the caller has it already.
        read_until: Time of the event loop. Sources not read by then time out.
        on_read: Called before the shard is stored, unless that needs the buffers.

    Raises:
        AlreadyCommittedError: The cube has reached this plan's version. Nothing was written.
        ArrayExistsError: The cube was removed and planned again while the sources were read. Or another
            append has taken over.
        BusyError: This machine is busy. Nothing was written.
        StoreError: A store failed.
    """
    # Is there anything to do?
    loaded = loaded or await load_shard(task, plan=partial(_give_plan, plan), stores=context)
    if loaded.committed is not None:
        return FilledShard(result=loaded.committed, is_new=False)
    rows = loaded.rows
    scenes = scenes_of(plan, rows)

    # Where do the pixels go? Rows are measured and compressed while others are still read.
    with ExitStack() as borrowed:
        read = borrowed.enter_context(buffers.borrow(task, len(scenes)))
        values = borrowed.enter_context(buffers.borrowed_values(task, read))
        stored = borrowed.enter_context(buffers.borrowed_rows(task, values))
        pixels: list[Pixels | BandTiles] = [band for slot in stored for band in slot]
        keys = task.object_keys(plan)
        places = [_places(task, plan, rows, each.slot) for each in plan.measurements]
        encoders = _encoders_of(task, plan, context.cube, pixels, places)
        step = -(-_FEWEST_ROWS // plan.layout.chunk[0]) * plan.layout.chunk[0]
        filling = ShardFilling(plan, rows, scenes, (read, values, stored), step=step)
        work = RowWork(
            n_slots=len(plan.of_scenes.slots),
            stops=filling.stops,
            work=partial(_fill_and_encode, filling, encoders),
        )

        check_claim = partial(_check_entitled, plan, context.cube)
        looking = EarlyLook(partial(look_at_objects, keys, cube=context.cube, check_claim=check_claim))
        n_left = len(scenes) * len(plan.of_scenes.slots)

        def note(row: int, slot: int, outcome: Outcome) -> None:
            nonlocal n_left
            work.note(row - task.row_start, slot, outcome)
            on_source(row, slot, outcome)
            n_left -= 1
            if n_left <= _LOOKS_BEFORE_LAST:
                looking.begin()

        # Read all windows. A source that fails costs its own row.
        started = time.perf_counter()
        async with looking, work:
            of_scenes = await (
                read_shard(
                    scenes,
                    read,
                    plan=plan.of_scenes,
                    task=task,
                    sources=context.sources,
                    on_source=note,
                    packed_headers=loaded.packed_headers,
                    read_until=read_until,
                )
                if plan.chips is None
                else read_chips(
                    rows,
                    [each for each in read if not isinstance(each, StoredTiles)],
                    plan=plan,
                    task=task,
                    sources=context.sources,
                    on_source=note,
                    read_until=read_until,
                )
            )
            read_at = time.perf_counter()
            await work.ended()
        # Encoders look at places when the shard is stored. Rows that stay as they are have none.
        for of_measurement in places:
            for at in filling.kept:
                of_measurement[at] = None
        # The finish writes the index of headers, so they are no part of the result.
        headers = take_headers(scenes, of_scenes)
        outcomes = of_scenes if plan.reduction is None else filling.outcomes
        # The pictures of a cube are those of its first gather.
        pictures = _take_pictures(pixels, outcomes, plan=plan, task=task) if plan.append.is_first else []
        measured_at = time.perf_counter()
        reads_on = False
        compressed = [nbytes for each in encoders if (nbytes := each.nbytes) is not None]
        if len(compressed) == len(encoders):
            borrowed.close()  # all is compressed: the next shard may have the buffers
            reads_on = on_read(sum(compressed))

        # Store and commit, unless another worker has done so meanwhile.
        def result_of(written: Sequence[StoredShard]) -> ShardResult:
            return ShardResult(
                index=task.index,
                rows=outcomes,
                read_s=read_at - started,
                measure_s=measured_at - read_at,
                write_s=time.perf_counter() - measured_at,
                stored_nbytes=sum(each.nbytes for each in written),
                peak_rss_mib=peak_rss_mib(),
                machine=machine(),
                pictures=pictures,
                reads_on=reads_on,
            )

        async def put(index: int, replaces: str | None) -> StoredShard | None:
            return await context.cube.write_shard(keys[index], encoders[index], replaces=replaces)

        committing = commit_shard(
            task,
            plan=plan,
            stores=context,
            put=put,
            check_claim=check_claim,
            result_of=result_of,
            first_look=looking,
        )
        putting = asyncio.ensure_future(put_headers(task, headers, context.control))
        (result, is_new), _ = await both(committing, putting)
        for encoder in encoders:  # not after an error: a PUT that was given up may still read the parts
            encoder.close()
    return FilledShard(result=result, is_new=is_new)


async def give_up_shard(task: ShardTask, *, plan: CubePlan, stores: GatherStores) -> None:
    """Commit a shard as lost, with rows that hold no pixels, unless a worker commits it first.

    A late worker or an abandoned append may have left an object there, and a PUT of theirs may still arrive.
    So this commits as a worker does, with fill values and a result without rows. Rows that were tried again
    stay as they are.

    Raises:
        AlreadyCommittedError: The cube has reached this plan's version. Nothing was written.
        ArrayExistsError: The cube was removed, or another append has taken over.
        BusyError: Workers replace the objects again and again.
        StoreError: A store failed.
    """
    keys = task.object_keys(plan)
    fill = [_fill_of(each, plan, task) for each in plan.measurements]
    places = [*[None] * len(task.again), *task.places(plan)[len(task.again) :]]
    encoders = _encoders_of(task, plan, stores.cube, fill, [places] * len(fill))
    for encoder in encoders:
        await encoder.encode_rows(0, task.n_rows)

    async def put(index: int, replaces: str | None) -> StoredShard | None:
        return await stores.cube.write_shard(keys[index], encoders[index], replaces=replaces)

    await commit_shard(
        task,
        plan=plan,
        stores=stores,
        put=put,
        check_claim=partial(_check_entitled, plan, stores.cube),
        result_of=lambda stored: ShardResult(
            index=task.index,
            rows=[],
            read_s=0.0,
            write_s=0.0,
            stored_nbytes=sum(each.nbytes for each in stored),
            peak_rss_mib=0.0,
        ),
    )
    for encoder in encoders:
        encoder.close()


def _encoders_of(
    task: ShardTask,
    plan: CubePlan,
    cube: CubeStore,
    pixels: Sequence[Pixels | BandTiles],
    places: Sequence[Sequence[int | None]],
) -> list[RowEncoder]:
    """Return what compresses a shard of each array.

    Args:
        task: The shard.
        plan: The cube.
        cube: Where it is put.
        pixels: Of each measurement.
        places: For each measurement, the rows' places in the shard; None for a row that is not put.
    """
    n_before = plan.n_before(task.shard_key(plan)[0])
    bands, places_of = iter(pixels), iter(places)  # arrays keep the order of the measurements
    return [
        cube.encoder(
            plan,
            array,
            list(islice(bands, len(array.measurements))),
            n_before=n_before,
            places=list(islice(places_of, len(array.measurements))),
        )
        for array in plan.arrays
    ]


def _fill_of(measurement: Measurement, plan: CubePlan, task: ShardTask) -> Pixels:
    """Return what a shard stores for rows that were not read. It takes hardly any memory."""
    fill = np.array(measurement.fill_value, measurement.dtype)
    return np.broadcast_to(fill, (task.n_rows, task.y_stop - task.y_start, plan.width))


def _places(task: ShardTask, plan: CubePlan, rows: Sequence[CubeRow], slot: int) -> list[int | None]:
    """Return the places of a task's rows in the shard; None for those that are not read again."""
    is_put = [at >= len(task.again) or row.sources[slot] is not None for at, row in enumerate(rows)]
    return [place if put else None for place, put in zip(task.places(plan), is_put, strict=True)]


async def _give_plan(plan: CubePlan) -> CubePlan:
    return plan


async def _check_entitled(plan: CubePlan, cube: CubeStore) -> None:
    """Raise an error if the place belongs to another plan now, or has reached this plan's version."""
    check_uncommitted(await cube.found_among_files(), plan)
    await check_row_claim(cube, plan)


async def _fill_and_encode(
    filling: ShardFilling, encoders: Sequence[RowEncoder], start: int, outcomes: Sequence[Sequence[Outcome]]
) -> None:
    """Fill some rows of the cube and compress them, when their scenes have been read.

    Args:
        filling: Of the shard.
        encoders: One for each array.
        start: The first of the scenes.
        outcomes: For each scene from there on, one outcome per slot.
    """
    first, stop = await filling.fill(start, outcomes)
    for encoder in encoders:
        await encoder.encode_rows(first, stop)


def _take_pictures(
    bands: Sequence[Pixels | BandTiles],
    outcomes: Sequence[Sequence[Outcome]],
    *,
    plan: CubePlan,
    task: ShardTask,
) -> list[dict[int, bytes]]:
    """Return quicklooks of the measurements. There are none if no pixel was decoded."""
    pixels = [each for each in bands if not isinstance(each, BandTiles)]
    return take_quicklooks(pixels, plan=plan, task=task, outcomes=outcomes) if pixels else []


def were_read(outcomes: Sequence[Sequence[Outcome]]) -> list[list[bool]]:
    """Return, for each row and slot, whether the source was read."""
    return [[outcome.status is Status.OK for outcome in row] for row in outcomes]
