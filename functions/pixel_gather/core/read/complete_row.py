"""From the pixels of a row's sources to those of the cube, when all of them have been read. Pure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.model.source import CubeRow
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.read.harmonise_row import harmonise_row
from pixel_gather.core.read.hide_pixels import hide_in_row
from pixel_gather.core.read.scale_row import scale_row

if TYPE_CHECKING:
    from pixel_gather.core.read.read_shard import Buffer


def complete_row(
    plan: CubePlan,
    read: Sequence["Buffer"],
    of_cube: Sequence["Buffer"],
    at: int,
    outcomes: Sequence[Outcome],
    row: CubeRow,
    *,
    is_reduced: bool,
) -> None:
    """Give the pixels of a row the cube's values, and hide what its mask hides.

    Args:
        plan: The cube.
        read: Of each slot, what its sources hold, shape (band, row, y, x).
        of_cube: The same of what the cube holds; see `ShardBuffers.borrowed_values`.
        at: Which row of them.
        outcomes: Of each slot of the row. What was found is told there.
        row: The sources of the row.
        is_reduced: Whether the row is one of several scenes that are reduced.
    """
    harmonise_row(plan, read, at, outcomes, row)
    scale_row(plan, read, of_cube, at, outcomes, row)
    hide_in_row(plan, of_cube, at, outcomes, row, is_reduced=is_reduced)
