"""Where the window of a task lies on a source, whether the source fits the cube, and what its nodata is."""

import math
from collections.abc import Sequence
from math import isnan

from msgspec import Struct

from pixel_gather.core.errors import SourceError
from pixel_gather.core.model.grid_step import SAME, GridStep
from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.model.plurals import counted
from pixel_gather.core.model.scaling import claimed_nodata
from pixel_gather.core.model.source import Header, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.model.window import Window, WindowRule
from pixel_gather.core.plan.choose_overview import are_classes, open_level
from pixel_gather.core.plan.common_grid import seen_on_grid, step_to, why_apart
from pixel_gather.core.plan.cube_plan import APART, CubePlan, SourceSlot
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.plan.locate_window import Grid, Placement, locate_like, locate_window
from pixel_gather.core.plan.longitudes import turn_point
from pixel_gather.core.plan.pass_through import check_passes
from pixel_gather.core.plan.warped_grid import Warp, lay_warp, seen_on
from pixel_gather.core.ports import OpenedSource, Projector
from pixel_gather.core.read.shard_buffers import Pixels


class SlotView(Struct, frozen=True, kw_only=True):
    """What to read from each source in one slot of one task."""

    plan: CubePlan
    slot_index: int
    task: ShardTask
    projector: Projector
    _placed: dict[object, "WindowOnSource"] = {}
    """What was found so far, by the geometry and scaling of sources, and the window of a chip.

    Many files of one product share these.
    """

    @property
    def slot(self) -> SourceSlot:
        """The slot of these sources, as their typical source has made it."""
        return self.plan.slots[self.slot_index]

    @property
    def n_tile_rows(self) -> int:
        """How many rows of tiles the task's part of the window touches on the typical source.

        Tiles of one row are mostly read by one request.
        """
        grid, whole = self.slot.read_from
        times = whole.height / self.plan.height
        start, stop = int(self.task.y_start * times), math.ceil(self.task.y_stop * times)
        part = whole.rows(start, max(stop, start + 1))
        return max((part.row_stop - 1) // grid.tile_height - part.row_off // grid.tile_height + 1, 1)

    def place(
        self, header: Header, source: Source, outcome: Outcome, rule: WindowRule | None = None
    ) -> "WindowOnSource":
        """Check a source against the slot. Note in the outcome, and return, where its window lies.

        Args:
            header: The source's.
            source: What the list says of it.
            outcome: What is told of it.
            rule: The window of a chip; None for the plan's.

        Raises:
            SourceError: The source is unlike the slot, or the window is not on it.
        """
        plan, slot = self.plan, self.slot
        _check_likeness(header, slot)
        placed = self._placed_like(header, rule)
        outcome.etag, outcome.object_nbytes = header.etag, header.nbytes
        outcome.transform, outcome.crs = placed.placement.transform, placed.placement.crs
        outcome.nodata = header.nodata if header.nodata is not None else plan.default_nodata
        if outcome.nodata is None and plan.heeds_claims(self.slot_index):
            outcome.nodata = claimed_nodata(source.columns, header.dtype)
        if placed.warp is not None and outcome.nodata is None:
            outcome.nodata = plan.source_nodata(self.slot_index)  # it has edges across the window
        outcome.scaling, outcome.is_aligned = placed.scaling, placed.is_aligned
        if plan.wants_same_grid and not outcome.is_aligned:
            reason = APART
            if plan.resolution is not None:
                reason = why_apart(placed.placement, plan.placement)
            raise SourceError(reason, href=header.href, status=Status.UNLIKE)
        if plan.passes_through:
            check_passes(header, placed.whole, slot.coding)
        return placed

    def _placed_like(self, header: Header, rule: WindowRule | None) -> "WindowOnSource":
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
                locate_like(plan.rule, seen, grid=slot.grid, window=slot.window, projector=self.projector)
                if rule is None
                else locate_window(turn_point(rule, seen, self.projector), seen, projector=self.projector)
            )
            placement = Placement.on(Grid.of(seen), window)
            placed = self._placed[key] = WindowOnSource(
                whole=window,
                window=window.rows(self.task.y_start, self.task.y_stop),
                raster=(seen.width, seen.height),
                step=step,
                warp=warp,
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
            keeps_classes=are_classes(opened.header, slot.name, is_mask=plan.mask_slot == self.slot_index),
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

    def prepare(self, out: Pixels, part: "WindowOnSource", outcome: Outcome) -> Window | None:
        """Note what of the task's part lies on the source's raster. Fill the array if not all will be read.

        So pixels beside the raster, and those that a mask hides, hold the fill. If a mask may hide pixels and
        the source has no nodata, the outcome gets the one that they will hold.

        Returns:
            What lies there; None if nothing does.
        """
        window, (width, height) = part.window, part.raster
        clipped = window.clipped(width=width, height=height)
        if clipped != window or self.plan.masked:
            if self.plan.masked and outcome.nodata is None:
                outcome.nodata = self.plan.source_nodata(self.slot_index)
            out[...] = self.missing(outcome)
        outcome.extent = (0, 0, 0, 0)
        if clipped is not None:
            outcome.extent = (
                clipped.col_off - window.col_off,
                clipped.row_off - window.row_off,
                clipped.col_stop - window.col_off,
                clipped.row_stop - window.row_off,
            )
        return clipped

    def missing(self, outcome: Outcome) -> float:
        """Return what a missing pixel of a source holds: its nodata, the cube's, or else NaN or 0."""
        return self.plan.source_fill(self.slot_index) if outcome.nodata is None else outcome.nodata


class WindowOnSource(Struct, frozen=True, kw_only=True):
    """Where the window of a slot, and a task's part of it, lie on a source."""

    whole: Window
    """In pixels of the cube's grid, as ``window`` and ``raster``."""

    window: Window
    """The task's part."""

    raster: tuple[int, int]
    """(width, height) of the source."""

    step: GridStep
    """How the source's pixels become those of the cube's grid."""

    warp: Warp | None
    """What the part takes from the source, if it is warped."""

    placement: Placement
    """Of the whole window."""

    scaling: tuple[tuple[float, float], ...] | None
    """As `Outcome.scaling`."""

    is_aligned: bool
    """As `Outcome.is_aligned`."""


def _check_likeness(header: Header, slot: SourceSlot) -> None:
    problem = None
    if header.dtype != slot.dtype:
        problem = f"it is {header.dtype}, the cube {slot.dtype}"
    elif header.n_bands < max(slot.bands):
        problem = f"it has {counted(header.n_bands, 'band')}, the cube wants band {max(slot.bands)}"
    if problem:
        raise SourceError(problem, href=header.href, status=Status.UNLIKE)
