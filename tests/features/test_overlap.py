"""In one process, one shard is stored while the next is read. At most four are in memory."""

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Any, override

import numpy as np
from msgspec.structs import replace

from pixel_gather.core.model.source import Cost
from pixel_gather.core.stores import RowEncoder, StoredShard
from pixel_gather.features.gather.gather import _gather_shards
from pixel_gather.in_process.progress import Progress
from pixel_gather.io.cube.zarr_cube import ZarrCube
from support.appends import GrownPlace
from support.fakes import FakeLimiter, FakeOpened, FakeReader, access_to, table_of
from support.in_loop import in_loop

N_SHARDS = 12
MOST_SHARDS = 4
NAMES = tuple(f"s3://b/{n}.tif" for n in range(N_SHARDS))
IMAGES = {name: np.full((1, 16, 16), row + 1, "uint16") for row, name in enumerate(NAMES)}
REQUEST: dict[str, Any] = {
    "window": {"pixels": [0, 0, 16, 16]},
    "output": {"codec": "none", "layout": {"chunk": [1, 16, 16], "shard_rows": 1}},
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


class SlowCube(ZarrCube, frozen=True, kw_only=True):
    """A cube that stores a shard only when the next one is being read."""

    log: Log

    @override
    async def write_shard(self, key: str, encoder: RowEncoder, *, replaces: str | None) -> StoredShard | None:
        """Wait for the next shard's first source, then store the shard."""
        row = int(key.split("/")[2])
        self.log.events.append(f"store {row}")
        if row + 1 < N_SHARDS:
            await asyncio.wait_for(self.log.opened[row + 1].wait(), timeout=10)
        stored = await ZarrCube.write_shard(self, key, encoder, replaces=replaces)
        self.log.events.append(f"stored {row}")
        return stored


@in_loop
async def test_shard_is_stored_while_the_next_is_read() -> None:
    """Otherwise this store would wait for ever. A fifth shard waits for memory."""
    log = Log()
    place = GrownPlace(
        images=IMAGES, request=REQUEST, watch=lambda store: SlowCube(store=store, place="place", log=log)
    )

    plan, tasks = await place.planned_first(table_of(*NAMES))
    sources = access_to(LoggingReader(IMAGES, log=log), limiter=FakeLimiter(1), timeout_s=10.0)
    context = replace(place.context().of_plan(plan.claim), sources=sources)
    await _gather_shards(plan, tasks, context=context, on_progress=_ignore)

    (pixels,) = place.values("band_1")
    assert pixels[:, 0, 0].tolist() == list(range(1, N_SHARDS + 1))
    for row in range(N_SHARDS - 1):
        assert log.events.index(f"read {row + 1}") < log.events.index(f"stored {row}")
    begun = itertools.accumulate(
        {"read": 1, "store": 0, "stored": -1}[each.split()[0]] for each in log.events
    )
    assert max(begun) <= MOST_SHARDS


def _ignore(progress: Progress) -> None:
    """Do nothing when a source is done."""
    assert progress.n_failed == 0
