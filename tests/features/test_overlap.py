"""In one process, one shard is stored while the next is read. At most four are in memory."""

import asyncio
import itertools
from dataclasses import dataclass, field

import numpy as np

from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.model.source import Cost
from pixel_gather.core.request.request import parse_request
from pixel_gather.core.stores import RowEncoder, StoredShard
from pixel_gather.engine.plan_gather import plan_gather
from pixel_gather.features.gather.gather import _gather_shards
from pixel_gather.in_process.progress import Progress
from support.fakes import (
    FakeControl,
    FakeCube,
    FakeLimiter,
    FakeOpened,
    FakeReader,
    access_to,
    context_of,
    table_of,
)

N_SHARDS = 12
MOST_SHARDS = 4
NAMES = tuple(f"s3://b/{n}.tif" for n in range(N_SHARDS))
IMAGES = {name: np.full((1, 16, 16), row + 1, "uint16") for row, name in enumerate(NAMES)}
REQUEST = {
    "sources": "list",
    "window": {"pixels": [0, 0, 16, 16]},
    "output": {"layout": {"chunk": [1, 16, 16], "shard_rows": 1}},
}


@dataclass
class Log:
    """Events in order."""

    events: list[str] = field(default_factory=list)
    opened: list[asyncio.Event] = field(default_factory=lambda: [asyncio.Event() for _ in range(N_SHARDS)])


@dataclass
class LoggingReader(FakeReader):
    """A reader that records when a shard's source is opened."""

    log: Log = field(default_factory=Log)

    async def open_(
        self, href: str, *, overview: int | None, cost: Cost, packed_header: bytes | None = None
    ) -> FakeOpened:
        """Open an image."""
        row = NAMES.index(href)
        self.log.events.append(f"read {row}")
        self.log.opened[row].set()
        return await super().open_(href, overview=overview, cost=cost, packed_header=packed_header)


@dataclass
class SlowCube(FakeCube):
    """A cube that stores a shard only when the next one is being read."""

    log: Log = field(default_factory=Log)

    async def write_shard(self, key: str, encoder: RowEncoder, *, replaces: str | None) -> StoredShard | None:
        """Wait for the next shard's first source, then store the shard."""
        row = int(key.split("/")[2])
        self.log.events.append(f"store {row}")
        if row + 1 < N_SHARDS:
            await asyncio.wait_for(self.log.opened[row + 1].wait(), timeout=10)
        stored = await super().write_shard(key, encoder, replaces=replaces)
        self.log.events.append(f"stored {row}")
        return stored


def test_shard_is_stored_while_the_next_is_read() -> None:
    """Otherwise this store would wait for ever. A fifth shard waits for memory."""
    log = Log()

    async def run() -> SlowCube:
        cube, reader = SlowCube(log=log), LoggingReader(IMAGES)
        context = context_of(cube, FakeControl(), access_to(reader, limiter=FakeLimiter(1), timeout_s=10.0))
        planned = await plan_gather(
            parse_request(REQUEST),
            table=table_of(*NAMES),
            context=context,
            workers=WorkerPool(max_task_nbytes=2**20),
        )
        assert planned is not None
        plan, tasks = planned
        reader.log = log
        log.events.clear()
        await _gather_shards(plan, tasks, context=context.of_plan(plan.claim), on_progress=_ignore)
        return cube

    cube = asyncio.run(run())

    assert cube.pixels["band_1"][:, 0, 0].tolist() == list(range(1, N_SHARDS + 1))
    for row in range(N_SHARDS - 1):
        assert log.events.index(f"read {row + 1}") < log.events.index(f"stored {row}")
    begun = itertools.accumulate(
        {"read": 1, "store": 0, "stored": -1}[each.split()[0]] for each in log.events
    )
    assert max(begun) <= MOST_SHARDS


def _ignore(progress: Progress) -> None:
    """Do nothing when a source is done."""
    assert progress.n_failed == 0
