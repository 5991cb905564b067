"""Read every window of one shard: many sources at a time, each into its own row."""

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import inf, isnan, prod
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pixel_gather.core.errors import RequestError, SourceError, StaleHeaderError
from pixel_gather.core.in_thread import in_thread
from pixel_gather.core.model.grid_step import SAME, GridStep
from pixel_gather.core.model.outcome import Lookup, Outcome
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.scaling import claimed_nodata
from pixel_gather.core.model.source import Cost, CubeRow, Header, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window, WindowRule
from pixel_gather.core.plan.choose_overview import are_classes, open_level
from pixel_gather.core.plan.common_grid import seen_on_grid, step_to, why_apart
from pixel_gather.core.plan.cube_plan import APART, CubePlan, Measurement, SourceSlot
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.plan.locate_window import Grid, Placement, locate_like, locate_window
from pixel_gather.core.plan.pass_through import check_passes
from pixel_gather.core.plan.warped_grid import NOWHERE, Warp, lay_warp, seen_on
from pixel_gather.core.ports import OpenedSource, Projector, SourceAccess
from pixel_gather.core.read.put_on_grid import put_on_grid
from pixel_gather.core.read.stored_tiles import StoredTiles, TileRow
from pixel_gather.core.read.valid_pixels import pack_inside
from pixel_gather.core.read.warp_pixels import find_parts, known_parts, warp_pixels
from pixel_gather.core.task_group import all_of

type Pixels = np.ndarray[Any, np.dtype[Any]]
type Buffer = Pixels | StoredTiles
"""What the sources of one slot are read into."""

type OnSource = Callable[[int, int, Outcome], None]
"""Called when a source is done, with its row of the cube, its slot and its outcome."""


TOO_LATE: Final = "not read before the worker's time was up"


def ignore(_row: int, _slot: int, _outcome: Outcome) -> None:
    """Do nothing when a source is done."""


class ShardBuffers:
    """The arrays that shards are read into, one per source slot. They are reused for every shard.

    In a virtual machine, fresh memory costs up to 1 ms of CPU for each tile, as much as decoding the tile.
    """

    def __init__(self, plan: CubePlan) -> None:
        self._cube, self._plan = plan, plan.of_scenes
        self._free: dict[str, list[list[Pixels]]] = {"read": [], "values": [], "rows": []}

    @contextmanager
    def borrow(self, task: ShardTask, n_scenes: int | None = None) -> Iterator[Sequence[Buffer]]:
        """Lend arrays of shape (band, row, y, x). They have arbitrary content until they are written to.

        If compressed tiles are kept as they are, the buffers hold these, and are new.

        Args:
            task: The shard.
            n_scenes: Rows to read, if the shard has other ones.
        """
        plan = self._plan
        if plan.passes_through:
            yield [StoredTiles(task.n_rows, n_bands=len(slot.bands)) for slot in plan.slots]
            return
        kinds = [(len(slot.bands), slot.dtype) for slot in plan.slots]
        n_rows = task.n_rows if n_scenes is None else n_scenes
        with self._lent("read", kinds, task, n_rows=n_rows) as lent:
            yield lent

    @contextmanager
    def borrowed_values(self, task: ShardTask, read: Sequence[Buffer]) -> Iterator[Sequence[Buffer]]:
        """Lend what the pixels that were read become: arrays like those of `borrow`.

        Where they stay what they are, the arrays are those that were read into.
        """
        plan = self._plan
        made = [slot for slot in range(len(read)) if plan.of_slot(slot)[0].stored is not None]
        kinds = [(len(plan.slots[slot].bands), plan.of_slot(slot)[0].dtype) for slot in made]
        with self._lent("values", kinds, task, n_rows=_n_rows(read)) as lent:
            there = dict(zip(made, lent, strict=True))
            yield [there.get(slot, each) for slot, each in enumerate(read)]

    @contextmanager
    def borrowed_rows(self, task: ShardTask, values: Sequence[Buffer]) -> Iterator[Sequence[Buffer]]:
        """Lend what the cube stores: the values of scenes, or arrays for what these are reduced to."""
        plan = self._cube
        if plan.reduction is None:
            yield values
            return
        kinds = [(len(of_slot), of_slot[0].dtype) for of_slot in map(plan.of_slot, range(len(plan.slots)))]
        with self._lent("rows", kinds, task, n_rows=task.n_rows) as lent:
            yield lent

    @contextmanager
    def _lent(
        self, what: str, kinds: Sequence[tuple[int, str]], task: ShardTask, *, n_rows: int
    ) -> Iterator[Sequence[Pixels]]:
        """Lend an array for each (number of bands, dtype). They are kept for the next shard."""
        free, height = self._free[what], task.y_stop - task.y_start
        most = self._n_rows if what == "rows" else self._n_scenes
        whole = free.pop() if free else [np.empty((n, most, *self._shape), dtype) for n, dtype in kinds]
        try:
            yield [buffer[:, :n_rows, :height] for buffer in whole]
        finally:
            free.append(whole)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays that one shard takes."""
        read = sum(len(slot.bands) * np.dtype(slot.dtype).itemsize for slot in self._plan.slots)
        values = _itemsize(each for each in self._plan.measurements if each.stored is not None)
        rows = 0 if self._cube.reduction is None else _itemsize(self._cube.measurements)
        return prod(self._shape) * (self._n_scenes * (read + values) + self._n_rows * rows)

    @property
    def _shape(self) -> tuple[int, int]:
        return min(self._plan.layout.shard[1], self._plan.height), self._plan.width

    @property
    def _n_rows(self) -> int:
        return min(self._cube.layout.shard[0], self._cube.n_rows)

    @property
    def _n_scenes(self) -> int:
        """Rows that are read for one shard at most."""
        reduction = self._cube.reduction
        return self._n_rows if reduction is None else reduction.most_scenes


def _itemsize(measurements: Iterable[Measurement]) -> int:
    return sum(np.dtype(each.dtype).itemsize for each in measurements)


def _n_rows(read: Sequence[Buffer]) -> int:
    return next((each.shape[1] for each in read if isinstance(each, np.ndarray)), 0)


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
        View(plan=plan, slot_index=index, task=task, projector=sources.projector)
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


class View(Struct, frozen=True, kw_only=True):
    """What to read from each source in one slot of one task."""

    plan: CubePlan
    slot_index: int
    task: ShardTask
    projector: Projector
    _placed: dict[object, "_Placed"] = {}
    """By the geometry and scaling of sources. Many files of one product share them."""

    @property
    def slot(self) -> SourceSlot:
        """The template of these sources."""
        return self.plan.slots[self.slot_index]

    @property
    def n_tile_rows(self) -> int:
        """How many rows of tiles the task's part of the window touches on the template.

        Tiles of one row are mostly read by one request.
        """
        grid, whole = self.slot.read_from
        times = whole.height / self.plan.height
        start, stop = int(self.task.y_start * times), math.ceil(self.task.y_stop * times)
        part = whole.rows(start, max(stop, start + 1))
        return max((part.row_stop - 1) // grid.tile_height - part.row_off // grid.tile_height + 1, 1)

    def locate(
        self, header: Header, source: Source, outcome: Outcome, rule: WindowRule | None = None
    ) -> "Part":
        """Check a source against the slot's template. Note in the outcome, and return, where its window lies.

        Args:
            header: The source's.
            source: What the list says of it.
            outcome: What is told of it.
            rule: The window of a chip; None for the plan's.

        Raises:
            SourceError: The source is unlike the template, or the window is not on it.
        """
        plan, slot = self.plan, self.slot
        _check_likeness(header, slot)
        placed = self._placed_like(header, rule)
        window = placed.window
        outcome.etag, outcome.object_nbytes = header.etag, header.nbytes
        outcome.transform, outcome.crs = placed.placement.transform, placed.placement.crs
        outcome.nodata = header.nodata if header.nodata is not None else plan.default_nodata
        if outcome.nodata is None and plan.heeds_claims(self.slot_index):
            outcome.nodata = claimed_nodata(source.columns, header.dtype)
        if placed.part.warp is not None and outcome.nodata is None:
            outcome.nodata = plan.source_nodata(self.slot_index)  # it has edges across the window
        outcome.scaling, outcome.is_aligned = placed.scaling, placed.is_aligned
        if plan.wants_same_grid and not outcome.is_aligned:
            reason = APART
            if plan.resolution is not None:
                reason = why_apart(placed.placement, plan.placement)
            raise SourceError(reason, href=header.href, status=Status.UNLIKE)
        if plan.passes_through:
            check_passes(header, window, slot.coding)
        return placed.part

    def _placed_like(self, header: Header, rule: WindowRule | None) -> "_Placed":
        """Return where the window lies on a source with this header."""
        key = (
            (header.width, header.height, header.transform, header.crs),
            (header.tile_width, header.tile_height, header.scales, header.offsets),
            rule,
        )
        placed = self._placed.get(key)
        if placed is None:
            plan, slot = self.plan, self.slot
            warp = self._warp_of(header) if plan.is_warped else None
            step = self._step_of(header) if warp is None else SAME
            seen = seen_on_grid(header, step) if warp is None else seen_on(header, slot.grid)
            window = (
                locate_like(plan.rule, seen, template=slot.grid, window=slot.window, projector=self.projector)
                if rule is None
                else locate_window(rule, seen, projector=self.projector)
            )
            placement = Placement.on(Grid.of(seen), window)
            placed = self._placed[key] = _Placed(
                window=window,
                part=Part(
                    window=window.rows(self.task.y_start, self.task.y_stop),
                    raster=(seen.width, seen.height),
                    step=step,
                    warp=warp,
                ),
                placement=placement,
                scaling=plan.other_scaling(self.slot_index, header),
                is_aligned=rule is None and placement.covers_same_pixels_as(plan.placement),
            )
        return placed

    async def at_level(self, opened: OpenedSource) -> OpenedSource:
        """Return a source at the overview that fits the cube's grid.

        Raises:
            SourceError: The overviews cannot be looked up.
        """
        plan, slot = self.plan, self.slot
        assert plan.resolution is not None  # noqa: S101 # the request has a grid
        found, _ = await open_level(
            opened,
            target=slot.grid if plan.is_warped else None,
            resolution=plan.resolution,
            keeps_classes=are_classes(
                opened.header, slot.name, is_mask=plan.mask is not None and plan.mask_slot == self.slot_index
            ),
            projector=self.projector,
        )
        return found

    def _step_of(self, header: Header) -> GridStep:
        """Return how the source's pixels become those of the cube's grid."""
        if self.plan.resolution is None:
            return SAME
        step, expected = step_to(header, self.plan.resolution), self.slot.step
        if step.share > expected.share:  # the plan has no memory for it
            reason = (
                f"{step.over} x {step.over} of its pixels make one of the grid, more than the "
                f"{expected.over} x {expected.over} of the sources that were sampled"
            )
            raise SourceError(reason, href=header.href, status=Status.UNLIKE)
        return step

    def _warp_of(self, header: Header) -> Warp:
        """Return what the task's lines take from a source that is warped."""
        target, lines = self.slot.grid, (self.task.y_start, self.task.y_stop)
        warp = lay_warp(header, target, self.projector)
        if warp.share > self.slot.own_share:  # the plan has no memory for it
            reason = (
                f"it has {warp.share:.3g} pixels for each of the grid, and the plan has memory for "
                f"{self.slot.own_share:.3g}, by the sources that were sampled"
            )
            raise SourceError(reason, href=header.href, status=Status.UNLIKE)
        return warp if warp.lines == lines else lay_warp(header, target, self.projector, lines=lines)

    def check_sparse(self, tiles: Sequence[Sequence[object | None]], header: Header) -> None:
        """Refuse a source whose absent tiles stand for another value than the cube's."""
        value = 0 if header.nodata is None else header.nodata
        fill = self.plan.fill_value(self.slot_index)
        if any(tile is None for band in tiles for tile in band) and not (
            value == fill or (isnan(value) and isnan(fill))
        ):
            reason = f"a tile is absent. It stands for {value}, but an absent chunk of the cube for {fill}"
            raise SourceError(reason, href=header.href, status=Status.UNLIKE)

    def prepare(
        self, out: Pixels, raster: tuple[int, int], window: Window, outcome: Outcome
    ) -> Window | None:
        """Fill what the source will not, and note which part of a window lies on its raster.

        Hidden pixels hold the fill, too.

        Returns:
            That part; None if there is none.
        """
        width, height = raster
        clipped = window.clipped(width=width, height=height)
        if clipped != window or self.plan.masked:
            self.fill_around(out, outcome)
        outcome.extent = (0, 0, 0, 0)
        if clipped is not None:
            outcome.extent = (
                clipped.col_off - window.col_off,
                clipped.row_off - window.row_off,
                clipped.col_stop - window.col_off,
                clipped.row_stop - window.row_off,
            )
        return clipped

    def fill_around(self, out: Pixels, outcome: Outcome) -> None:
        """Fill the array where the source has no pixels: with its nodata, the cube's, or else NaN or 0."""
        if self.plan.masked and outcome.nodata is None:
            # hidden pixels hold it, and are not valid
            outcome.nodata = self.plan.source_nodata(self.slot_index)
        out[...] = self.missing(outcome)

    def missing(self, outcome: Outcome) -> float:
        """Return what a missing pixel of a source holds: its nodata, the cube's, or else NaN or 0."""
        return self.plan.source_fill(self.slot_index) if outcome.nodata is None else outcome.nodata


class Part(Struct, frozen=True, kw_only=True):
    """A task's part of a window, on one source."""

    window: Window
    """In pixels of the cube's grid, as ``raster``."""

    raster: tuple[int, int]
    """(width, height) of the source in pixels of the cube's grid."""

    step: GridStep
    """How the source's pixels become those of the cube's grid."""

    warp: Warp | None
    """What the part takes from the source, if it is warped."""


class _Placed(Struct, frozen=True, kw_only=True):
    """Where the window of a slot lies on a source."""

    window: Window
    part: Part
    placement: Placement
    scaling: tuple[tuple[float, float], ...] | None
    """As `Outcome.scaling`."""

    is_aligned: bool


async def _read_source(
    source: Source,
    out: Pixels | TileRow,
    view: View,
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
                part = view.locate(opened.header, source, outcome)
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
    opened: OpenedSource, source: Source, out: Pixels | TileRow, view: View, outcome: Outcome
) -> bool:
    """Fill a window by a cached header. Return False where the header is stale or does not fit.

    Where the window cannot be placed by a cached header, the current version may still have it.
    """
    try:
        part = view.locate(opened.header, source, outcome)
    except (SourceError, RequestError):
        return False
    try:
        await _fill(opened, out, part, view, outcome)
    except StaleHeaderError:
        return False
    return True


async def _fill(
    opened: OpenedSource, out: Pixels | TileRow, part: Part, view: View, outcome: Outcome
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
    clipped = view.prepare(out, part.raster, window, outcome)
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


async def _fill_warped(opened: OpenedSource, out: Pixels, warp: Warp, view: View, outcome: Outcome) -> None:
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


async def _parts_below(warp: Warp, view: View) -> tuple[Window, ...]:
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


def _check_likeness(header: Header, slot: SourceSlot) -> None:
    problem = None
    if header.dtype != slot.dtype:
        problem = f"it is {header.dtype}, the cube {slot.dtype}"
    elif header.n_bands < max(slot.bands):
        problem = f"it has {counted(header.n_bands, 'band')}, the cube wants band {max(slot.bands)}"
    if problem:
        raise SourceError(problem, href=header.href, status=Status.UNLIKE)
