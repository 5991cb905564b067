"""Resets the status of rows that an abandoned append had tried again.

An append publishes in place. One that was stopped within its commit may have left rows that say ``ok``, with
their pixels. Whoever takes over reads these rows anew, and may get other pixels or none. So their status is
first put back to what the table of rows has. The rows count as failed until the commit. So nobody mistakes
new pixels for those of the stopped append.
"""

from contextlib import suppress

import numpy as np

from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.results.row_coordinates import status_coordinate
from pixel_gather.core.stores import ControlStore, CubeStore
from pixel_gather.engine.publish_version import put_all
from pixel_gather.engine.row_claim import check_next_version, check_row_claim
from pixel_gather.engine.step_files import is_planned


class _PlannedError(Exception):
    """Another run of the same request has planned meanwhile, so it has done this before."""


async def withdraw_tries(cube: CubeStore, plan: CubePlan, control: ControlStore) -> None:
    """Put the status of the rows that a plan tries again back to what the table of rows has.

    It changes nothing once the plan is among the control files. By then the plan's workers may have
    committed, and its last step may have published.

    Args:
        cube: The cube. The plan has claimed its next version.
        plan: The plan. It is not among the control files yet.
        control: Control files of the plan.

    Raises:
        ArrayExistsError: Another append has taken over.
        AppendRunningError: Another append was committed meanwhile.
        StoreError: A store failed, or the table of rows is damaged.
    """
    # The whole coordinate takes a byte per row and measurement.
    status = status_coordinate(plan)
    _, batches = await cube.row_table()
    values = np.concatenate([batch[status.name] for batch in batches])[: plan.first_row]

    async def check_still_ours() -> None:
        if await is_planned(control):
            raise _PlannedError
        await check_next_version(cube, plan.append.version)
        await check_row_claim(cube, plan)

    with cube.stage() as staged:
        await staged.create_coordinates(plan, [status])
        await staged.write_rows(plan, [status], 0, {status.name: values})
        chunks = staged.chunk_keys(status.name)
        numbers = sorted({row // plan.append.chunk_rows for row in plan.append.again})
        keys = [chunks[number] for number in numbers]
        with suppress(_PlannedError):
            await put_all(cube, keys, staged.content, still_ours=check_still_ours)
