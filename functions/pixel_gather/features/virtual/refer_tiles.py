"""Find where the tiles of all windows are stored, some rows at a time. No tile is read."""

from collections.abc import AsyncGenerator, Sequence

from msgspec import Struct

from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.model.source import CubeRow
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.ports import SourceAccess, SourceTable
from pixel_gather.core.read.read_shard import OnSource, read_shard
from pixel_gather.features.virtual.referred_tiles import ReferredTiles


class ReferredRows(Struct, frozen=True, kw_only=True):
    """Consecutive rows of the cube."""

    start: int
    """The first row."""

    rows: Sequence[CubeRow]
    outcomes: Sequence[Sequence[Outcome]]
    """For each row, one outcome per slot."""

    tiles: Sequence[ReferredTiles]
    """For each slot, the references of these rows."""


async def refer_tiles(
    plan: CubePlan,
    *,
    table: SourceTable,
    sources: SourceAccess,
    on_source: OnSource,
    n_rows: int,
) -> AsyncGenerator[ReferredRows]:
    """Yield the references of all rows in order. Sources get a status as in a gather.

    The plan passes tiles through. The packed headers of the table spare requests. ``n_rows`` are taken at a
    time at most.
    """
    for start in range(0, plan.n_rows, n_rows):
        stop = min(start + n_rows, plan.n_rows)
        rows = tuple(table.rows(start, stop))
        tiles = [ReferredTiles(len(rows), n_bands=len(slot.bands)) for slot in plan.slots]
        outcomes = await read_shard(
            rows,
            tiles,
            plan=plan,
            task=_whole_windows(plan, start, stop),
            sources=sources,
            on_source=on_source,
            packed_headers=tuple(table.packed_headers(start, stop)),
        )
        for row, of_row in enumerate(outcomes):
            for slot, outcome in zip(tiles, of_row, strict=True):
                outcome.bands = slot.measure(row, outcome)
        yield ReferredRows(start=start, rows=rows, outcomes=outcomes, tiles=tiles)


def _whole_windows(plan: CubePlan, start: int, stop: int) -> ShardTask:
    return ShardTask(
        index=0,
        row_start=start,
        row_stop=stop,
        y_start=0,
        y_stop=plan.height,
        list_start=0,
        list_stop=0,
    )
