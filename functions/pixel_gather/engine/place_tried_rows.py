"""How finish puts rows that an append has tried again among the cube's other rows."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from copy import replace
from typing import TYPE_CHECKING

import msgspec

from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.model.source import CubeRow
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.results.row_evidence import Rows, rows_from_values

if TYPE_CHECKING:  # not needed to run
    from pixel_gather.core.results.row_coordinates import Values

type Tried = tuple[int, CubeRow, list[Outcome]]
"""A row that was tried again: its number, its sources that were read, and the outcome of all."""

# Another finish of this version may have put its table of rows already. So what is told of a row that was
# tried again does not depend on what that table tells of it.


async def with_tried(
    plan: CubePlan, earlier: Iterator[Mapping[str, "Values"]], tried: AsyncIterator[Tried]
) -> AsyncIterator[Rows]:
    """Yield the rows of a cube before an append, with the outcomes of those that were tried again.

    Args:
        plan: Plan of the append.
        earlier: The table of these rows, in batches.
        tried: Rows that were tried again, in order.
    """
    n_tries = dict(zip(plan.append.again, plan.append.n_tries, strict=True))
    start = 0
    next_one = await anext(tried, None)
    for batch in earlier:
        rows = await asyncio.to_thread(rows_from_values, plan, batch)
        while next_one is not None and next_one[0] < start + len(rows):
            number, read, outcomes = next_one
            row, former = rows[number - start]
            if read.packed_outcomes is None:
                found = _put_over(read, former, outcomes, n_tries[number])
            else:
                decided = msgspec.msgpack.decode(read.packed_outcomes, type=list[Outcome])
                found = _count_tries(decided, outcomes, n_tries[number])
            rows[number - start] = row, found
            next_one = await anext(tried, None)
        yield rows
        start += len(rows)


def _count_tries(former: Sequence[Outcome], outcomes: Sequence[Outcome], n_tries: int) -> list[Outcome]:
    """Return the outcomes of a row that was reduced anew, or has stayed, as its worker has decided."""
    found = [replace(each, tries=n_tries + 1) for each in outcomes]
    found[0].members = [
        [
            replace(each, tries=n_tries + 1 if was.status.is_failure else was.tries)
            for was, each in zip(before, of_scene, strict=True)
        ]
        for before, of_scene in zip(former[0].members, outcomes[0].members, strict=True)
    ]
    return found


def _put_over(
    read: CubeRow, former: Sequence[Outcome], outcomes: Sequence[Outcome], n_tries: int
) -> list[Outcome]:
    """Return the outcomes of a row: the new ones of the sources that were read again."""
    return [
        was if source is None else replace(outcome, tries=n_tries + 1)
        for source, was, outcome in zip(read.sources, former, outcomes, strict=True)
    ]
