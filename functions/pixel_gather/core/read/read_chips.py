"""Read a task of chips: each image is opened once, and each of its tiles read once, for all chips on it."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from copy import replace
from math import inf
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from pixel_gather.core.errors import RequestError, SourceError
from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.model.source import Cost, CubeRow, Source
from pixel_gather.core.model.status import Status
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.ports import OpenedSource, SourceAccess
from pixel_gather.core.read.place_source import SlotView, WindowOnSource
from pixel_gather.core.read.read_shard import TOO_LATE, OnSource, clear
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.core.task_group import all_of

_CHIPS_IN_TIME: Final = 16
"""Chips of one image that are read within the time limit of one source. More chips have more time."""

_MOST_WEIGHT: Final = 16
"""Requests that one image counts as, at most. Its own reader sends no more at one time."""


async def read_chips(
    rows: Sequence[CubeRow],
    buffers: Sequence[Pixels],
    *,
    plan: CubePlan,
    task: ShardTask,
    sources: SourceAccess,
    on_source: OnSource,
    read_until: float = inf,
) -> list[list[Outcome]]:
    """Read all windows of a task of chips.

    An image that cannot be read costs its own rows. A chip that lies wholly outside an image is absent there.
    What an image costs is shared by the chips that were read of it.

    Args:
        rows: The task's rows of the list.
        buffers: Lent by `pixel_gather.core.read.shard_buffers.ShardBuffers`. They are overwritten completely.
        plan: The cube's plan.
        task: Which part of the cube to read.
        sources: How they are read.
        on_source: Called for each row and slot.
        read_until: When to stop, by the event loop's clock. Sources that are not read by then time out.

    Returns:
        For each row, one outcome per source slot, in the order of ``rows``.
    """
    n_slots = len(plan.slots)
    outcomes: list[list[Outcome | None]] = [[None] * n_slots for _ in rows]

    def end(index: int, slot: int, outcome: Outcome) -> None:
        outcomes[index][slot] = outcome
        if outcome.status is not Status.OK:
            clear(buffers[slot][:, index], plan.source_fill(slot))
        on_source(task.row_start + index, slot, outcome)

    async def read_image(image: _Image) -> None:
        weight = min(image.view.n_tile_rows * len(image.rows), _MOST_WEIGHT)
        async with sources.limiter.permit(image.source.href, weight=weight) as permit:
            found = await image.read(sources, read_until=read_until)
            if any(each.status is Status.OK for each in found):
                permit.record_read(n_requests=sum(each.cost.needed_requests for each in found))
        for row, outcome in zip(image.rows, found, strict=True):
            end(row, image.view.slot_index, outcome)

    images = list(_images(rows, buffers, plan=plan, task=task, sources=sources))
    asked = {(row, image.view.slot_index) for image in images for row in image.rows}
    for index in range(len(rows)):
        for slot in range(n_slots):
            if (index, slot) not in asked:
                end(index, slot, Outcome(status=Status.ABSENT))
    await all_of(read_image(image) for image in images)
    return [[each for each in row if each is not None] for row in outcomes]


def _images(
    rows: Sequence[CubeRow],
    buffers: Sequence[Pixels],
    *,
    plan: CubePlan,
    task: ShardTask,
    sources: SourceAccess,
) -> Iterator["_Image"]:
    """Yield each image once, with the rows that want it."""
    for slot, buffer in enumerate(buffers):
        view = SlotView(plan=plan, slot_index=slot, task=task, projector=sources.projector)
        wanted: dict[str, list[int]] = defaultdict(list)
        named: dict[str, Source] = {}
        for index, row in enumerate(rows):
            source = row.sources_to_read(plan.mask_slot)[slot]
            if source is not None and row.is_asked:
                wanted[source.href].append(index)
                named[source.href] = source
        for href, indexes in wanted.items():
            chips = [(rows[index], buffer[:, index]) for index in indexes]
            yield _Image(source=named[href], rows=indexes, chips=chips, view=view)


class _Image(Struct, frozen=True, kw_only=True):
    """One source with the rows of a task that want it."""

    source: Source
    rows: list[int]
    chips: list[tuple[CubeRow, Pixels]]
    """For each row, its chip and its pixels, shape (band, y, x)."""

    view: SlotView

    async def read(self, sources: SourceAccess, *, read_until: float) -> list[Outcome]:
        """Read all chips on the image. Return an outcome for each."""
        plan, cost, now = self.view.plan, Cost(), asyncio.get_running_loop().time
        start_s = time.time() - plan.planned_at
        found = [Outcome(status=Status.OK, start_s=start_s) for _ in self.chips]
        timeout_s = sources.timeout_s * -(-len(self.chips) // _CHIPS_IN_TIME)
        try:
            async with asyncio.timeout_at(min(now() + timeout_s, read_until)):
                opened = await sources.reader.open_(self.source.href, overview=plan.level, cost=cost)
                there = self._locate(opened, found)
                await self._fill(opened, there, found)
                found[0].packed_header = opened.packed_header
        except SourceError as error:
            _fail(found, error.status, error.reason)
        except TimeoutError:
            is_late = now() >= read_until
            _fail(found, Status.TIMED_OUT, TOO_LATE if is_late else f"not read within {timeout_s:g} s")
        for each in found:
            each.end_s = time.time() - plan.planned_at
        _share_out(cost, [each for each in found if each.status is Status.OK] or found[:1])
        return found

    def _locate(self, opened: OpenedSource, found: list[Outcome]) -> list[tuple[int, WindowOnSource]]:
        """Return the window of each chip that lies on the image. Note why others do not."""
        there = []
        for index, (row, out) in enumerate(self.chips):
            outcome = found[index]
            assert row.chip is not None  # noqa: S101 # all rows of the plan have one
            try:
                part = self.view.place(opened.header, self.source, outcome, row.chip.rule)
            except SourceError as error:
                is_outside = error.status is Status.OUTSIDE
                outcome.status = Status.ABSENT if is_outside else error.status
                outcome.reason = None if is_outside else error.reason
            except RequestError as error:  # PROJ cannot transform the chips' CRS to this image's
                outcome.status, outcome.reason = Status.UNSUPPORTED, str(error)
            else:
                if self.view.prepare(out, part, outcome) is not None:
                    there.append((index, part))
        return there

    async def _fill(
        self, opened: OpenedSource, there: Sequence[tuple[int, WindowOnSource]], found: list[Outcome]
    ) -> None:
        """Read the windows together. If that fails, read each alone: a bad tile costs its own chips."""
        plan, bands = self.view.plan, self.view.slot.bands
        masked, part_nbytes = plan.masked, plan.part_nbytes
        wanted = [(self.chips[index][1], part.window) for index, part in there]
        try:
            await opened.read_into(wanted, bands, masked=masked, part_nbytes=part_nbytes)
        except SourceError:
            for (index, part), (out, window) in zip(there, wanted, strict=True):
                self.view.prepare(out, part, found[index])
                try:
                    await opened.read_into([(out, window)], bands, masked=masked, part_nbytes=part_nbytes)
                except SourceError as error:
                    found[index].status, found[index].reason = error.status, error.reason


def _fail(found: list[Outcome], status: Status, reason: str | None) -> None:
    """Give every outcome the status, unless it is told already why it has no pixels."""
    for index, each in enumerate(found):
        if each.status is Status.OK:
            found[index] = replace(each, status=status, reason=reason)


def _share_out(cost: Cost, outcomes: Sequence[Outcome]) -> None:
    """Give each outcome an equal share of what an image cost. Whole numbers keep their sum.

    Outcomes with equal shares have one object for them: nothing is added to it any more.
    """
    n, costs = len(outcomes), asdict(cost)
    left = {name: value % n for name, value in costs.items() if isinstance(value, int)}
    start = 0
    for stop in sorted({*left.values(), n} - {0}):
        share = Cost(
            **{
                name: value // n + (start < left[name]) if name in left else value / n
                for name, value in costs.items()
            }
        )
        for outcome in outcomes[start:stop]:
            outcome.cost = share
        start = stop
