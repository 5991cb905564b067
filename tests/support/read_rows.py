"""Reads sources of a plan over fakes, for tests of what becomes of their pixels."""

import asyncio
from typing import Any

import numpy as np

from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import cut_tasks, row_ranges
from pixel_gather.core.read.read_shard import ignore, read_shard
from pixel_gather.core.read.shard_buffers import ShardBuffers
from support.fakes import FakeReader, access_to, table_of


def read_rows(plan: CubePlan, reader: FakeReader, *names: str) -> tuple[np.ndarray[Any, Any], list[Outcome]]:
    """Read all sources of a plan of one band. Return their pixels and outcomes."""
    (task,) = cut_tasks(plan, [0 for _ in row_ranges(plan)])
    with ShardBuffers(plan).borrow(task) as buffers:
        (buffer,) = (each for each in buffers if isinstance(each, np.ndarray))
        buffer.view("u1")[...] = 0xAB
        reading = read_shard(
            list(table_of(*names).rows(0, len(names))),
            buffers,
            plan=plan,
            task=task,
            sources=access_to(reader),
            on_source=ignore,
        )
        outcomes = asyncio.run(reading)
        return buffer[0].copy(), [outcome for (outcome,) in outcomes]
