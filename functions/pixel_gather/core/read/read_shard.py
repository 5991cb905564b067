"""Read every window of one shard: many sources at a time, each into its own row."""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import inf, isnan
from typing import Final

import numpy as np

from pixel_gather.core.errors import RequestError, SourceError, StaleHeaderError
from pixel_gather.core.in_thread import in_thread
from pixel_gather.core.model.outcome import Lookup, Outcome
from pixel_gather.core.model.source import Cost, CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.plan.warped_grid import NOWHERE, Warp
from pixel_gather.core.ports import OpenedSource, SourceAccess
from pixel_gather.core.read.place_source import SlotView, WindowOnSource
from pixel_gather.core.read.put_on_grid import put_on_grid
from pixel_gather.core.read.shard_buffers import Buffer, Pixels
from pixel_gather.core.read.stored_tiles import StoredTiles, TileRow
from pixel_gather.core.read.valid_pixels import pack_inside
from pixel_gather.core.read.warp_pixels import find_parts, known_parts, warp_pixels
from pixel_gather.core.task_group import all_of

type OnSource = Callable[[int, int, Outcome], None]
"""Called when a source is done, with its row of the cube, its slot and its outcome."""


TOO_LATE: Final = "not read before the worker's time was up"


def ignore(_row: int, _slot: int, _outcome: Outcome) -> None:
    """Do nothing when a source is done."""


async def read_shard(
    rows: Sequence[CubeRow],
    buffers: Sequence[Buffer],
    *,
    plan: CubePlan,
    task: ShardTask,
    sources: SourceAccess,
    on_source: OnSource,
    packed_headers: Sequence[Sequence[bytes | None]] = (),
    read_until: float = inf,
) -> list[list[Outcome]]:
    """Read all windows of a shard concurrently.

    A source that cannot be read gets a status, and its row is filled with nodata. So one bad COG costs one
    row and not the shard. Any other exception cancels the remaining reads and is raised.

    Args:
        rows: The task's rows of the list.
        buffers: Lent by `ShardBuffers`. They are overwritten completely.
        plan: The cube's plan.
        task: Which part of the cube to read.
        sources: How they are read.
        on_source: Called after each source. For a window in several strips, called once for each strip.
        packed_headers: The packed header of each source of each row, from an index; empty without an index.
        read_until: When to stop, by the event loop's clock. Sources that are not read by then time out.

    Returns:
        For each row, one outcome per source slot, in the order of ``rows``.
    """
    views = [
        SlotView(plan=plan, slot_index=index, task=task, projector=sources.projector)
        for index in range(len(plan.slots))
    ]
    weights = [view.n_tile_rows for view in views]

    async def read_one(index: int, slot_index: int, source: Source | None) -> Outcome:
        buffer = buffers[slot_index]
        out = buffer.rows[index] if isinstance(buffer, StoredTiles) else buffer[:, index]
        if source is None:
            outcome = Outcome(status=Status.ABSENT)
        else:
            reads_tiles = not isinstance(buffer, StoredTiles) or buffer.reads_tiles
            weight = weights[slot_index] if reads_tiles else 1
            async with sources.limiter.permit(source.href, weight=weight) as permit:
                outcome = await _read_source(
                    source,
                    out,
                    views[slot_index],
                    sources=sources,
                    read_until=read_until,
                    packed_header=packed_headers[index][slot_index] if packed_headers else None,
                )
                if outcome.status is Status.OK:
                    permit.record_read(n_requests=outcome.cost.needed_requests)
        if outcome.status is not Status.OK:
            clear(out, plan.source_fill(slot_index))
        on_source(task.row_start + index, slot_index, outcome)
        return outcome

    outcomes = iter(
        await all_of(
            read_one(index, slot, source)
            for index, row in enumerate(rows)
            for slot, source in enumerate(row.sources_to_read(plan.mask_slot))
        )
    )
    return [[next(outcomes) for _ in row.sources] for row in rows]


def clear(out: Pixels | TileRow, fill_value: float) -> None:
    """Fill the pixels of a row whose source was not read."""
    if isinstance(out, TileRow):
        out.clear()
    else:
        out[...] = fill_value


async def _read_source(
    source: Source,
    out: Pixels | TileRow,
    view: SlotView,
    *,
    sources: SourceAccess,
    read_until: float,
    packed_header: bytes | None,
) -> Outcome:
    plan, cost, now = view.plan, Cost(), asyncio.get_running_loop().time
    outcome = Outcome(status=Status.OK, start_s=time.time() - plan.planned_at, cost=cost)
    try:
        _check_time(read_until)
        async with asyncio.timeout_at(min(now() + sources.timeout_s, read_until)):
            # Open it. A packed header opens it without a request, and may be of another version.
            opened = await sources.reader.open_(
                source.href, overview=plan.level, cost=cost, packed_header=packed_header
            )
            outcome.packed_header = (
                packed_header if opened.from_packed_header else None
            )  # also after a failure
            if plan.overview == "auto":  # never with a packed header: that is of one overview
                opened = await view.at_level(opened)

            # Read the window. A packed header is verified by that: a stale one is read anew, with the window.
            if opened.from_packed_header and await _fill_from_packed_header(
                opened, source, out, view, outcome
            ):
                outcome.lookup = Lookup.USED
            else:
                if opened.from_packed_header:
                    etag = opened.header.etag
                    # Begin anew: nothing that the cached header said may be told.
                    outcome = Outcome(status=Status.OK, start_s=outcome.start_s, cost=cost)
                    opened = await sources.reader.open_(source.href, overview=plan.level, cost=cost)
                    is_stale = opened.header.etag != etag
                    outcome.lookup = Lookup.STALE if is_stale else Lookup.UNFIT
                elif packed_header is not None:
                    outcome.lookup = Lookup.UNFIT
                part = view.place(opened.header, source, outcome)
                await _fill(opened, out, part, view, outcome)
            outcome.packed_header = opened.packed_header

    # Whatever has failed costs this row alone, and is told there.
    except SourceError as error:
        outcome.status, outcome.reason = error.status, error.reason
    except RequestError as error:  # PROJ cannot transform the request's CRS to this source's
        outcome.status, outcome.reason = Status.UNSUPPORTED, str(error)
    except TimeoutError:
        outcome.status = Status.TIMED_OUT
        is_late = now() >= read_until
        outcome.reason = TOO_LATE if is_late else f"not read within {sources.timeout_s:g} s"
    outcome.end_s = time.time() - plan.planned_at
    return outcome


def _check_time(read_until: float) -> None:
    """Raise TimeoutError if it is too late to send a request."""
    if asyncio.get_running_loop().time() >= read_until:
        raise TimeoutError


async def _fill_from_packed_header(
    opened: OpenedSource, source: Source, out: Pixels | TileRow, view: SlotView, outcome: Outcome
) -> bool:
    """Fill a window by a cached header. Return False where the header is stale or does not fit.

    Where the window cannot be placed by a cached header, the current version may still have it.
    """
    try:
        part = view.place(opened.header, source, outcome)
    except (SourceError, RequestError):
        return False
    try:
        await _fill(opened, out, part, view, outcome)
    except StaleHeaderError:
        return False
    return True


async def _fill(
    opened: OpenedSource, out: Pixels | TileRow, part: WindowOnSource, view: SlotView, outcome: Outcome
) -> None:
    """Fill one source's part of the row. Note in the outcome how much of it lies on the raster."""
    window, masked = part.window, view.plan.masked
    # Are the tiles kept as they are? Then the whole window lies on the raster.
    if isinstance(out, TileRow):
        view.check_sparse(await out.fill(opened, window, view.slot.bands), opened.header)
        outcome.extent = (0, 0, window.width, window.height)
        return
    if part.warp is not None:
        await _fill_warped(opened, out, part.warp, view, outcome)
        return
    # Read the part that lies on the raster. If there is none, one byte is read: it verifies a packed header.
    clipped = view.prepare(out, part, outcome)
    if clipped is None and not opened.from_packed_header:
        return
    read_into = partial(
        opened.read_into, bands=view.slot.bands, masked=masked, part_nbytes=view.plan.part_nbytes
    )
    if part.step.is_same:
        await read_into([(out, window)])
        return
    # The source has other pixels than the grid: they are read as they are, and then become those of the grid.
    on_source = part.step.on_source(clipped or window)
    own = np.empty((len(out), on_source.height, on_source.width), dtype=out.dtype)
    if masked:
        own[...] = view.missing(outcome)
    await read_into([(own, on_source)])
    if clipped is not None:
        x_start, y_start, x_stop, y_stop = outcome.extent
        on_grid = partial(
            put_on_grid,
            own,
            out[:, y_start:y_stop, x_start:x_stop],
            step=part.step,
            offset=(clipped.row_off % part.step.times, clipped.col_off % part.step.times),
            resampling=view.slot.resampling,
            nodata=outcome.nodata,
        )
        await in_thread(on_grid)


async def _fill_warped(
    opened: OpenedSource, out: Pixels, warp: Warp, view: SlotView, outcome: Outcome
) -> None:
    """Read the tiles that lie below the row's part of a grid, and warp their pixels."""
    plan, fill_value, window = view.plan, view.missing(outcome), warp.window
    parts = () if window is None else await _parts_below(warp, view)
    around = window or NOWHERE
    if not parts:
        out[...] = fill_value
        if not opened.from_packed_header:
            return
        parts = (NOWHERE,)  # the header has still to be verified
    own = np.zeros((len(out), around.height, around.width), dtype=out.dtype)
    if plan.masked:
        own[...] = fill_value
    wanted = [(_cut_out(own, around, part), part) for part in parts]
    await opened.read_into(wanted, bands=view.slot.bands, masked=plan.masked, part_nbytes=plan.part_nbytes)
    if window is not None:
        # Does a number mark the pixels beside the source?
        marks = outcome.nodata is not None or isnan(fill_value)
        inside = None if marks else np.zeros(out.shape[1:], dtype=bool)
        warped = partial(
            warp_pixels,
            own,
            out,
            warp=warp,
            resampling=view.slot.resampling,
            nodata=outcome.nodata,
            fill_value=fill_value,
            projector=view.projector,
            inside=inside,
        )
        outcome.extent = await in_thread(warped)
        outcome.inside = None if inside is None else pack_inside(inside, outcome.extent)


async def _parts_below(warp: Warp, view: SlotView) -> tuple[Window, ...]:
    """Return what is read of a source that is warped. Files of the same grid have the same parts."""
    resampling, projector = view.slot.resampling, view.projector
    known = known_parts(warp, resampling=resampling, projector=projector)
    if known is not None:
        return known
    return await in_thread(
        partial(find_parts, warp, resampling=resampling, projector=projector), goes_first=True
    )


def _cut_out(own: Pixels, window: Window, part: Window) -> Pixels:
    """Return the pixels of a part of a window. Of one beside the raster, any: they are not written."""
    if part == NOWHERE:
        return own[:, :1, :1]
    rows = slice(part.row_off - window.row_off, part.row_stop - window.row_off)
    return own[:, rows, part.col_off - window.col_off : part.col_stop - window.col_off]
