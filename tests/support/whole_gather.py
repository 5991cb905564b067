"""A gather of a few small images over fakes, step by step. Its cube lies in memory."""

import asyncio
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.core.results.report import Report
from pixel_gather.core.stores import FoundCube
from pixel_gather.engine.gather_context import GatherContext
from pixel_gather.engine.gather_shard import FilledShard
from pixel_gather.engine.plan_gather import Planned
from pixel_gather.engine.step_files import load_plan, load_tasks
from pixel_gather.io.cube.quicklook_file import QUICKLOOKS_KEY
from pixel_gather.io.header_index import HEADERS_KEY, stored_entries
from support.appends import GrownPlace
from support.fakes import FakeTable, table_of

NAMES: Final = tuple(f"s3://b/{n}.tif" for n in range(7))
_RNG: Final = np.random.default_rng(7)
IMAGES: Final = {name: _RNG.integers(1, 999, (1, 20, 16), "uint16") for name in NAMES}
_WHOLE: Final = {
    "window": {"pixels": [0, 0, 16, 20]},
    "output": {"layout": {"chunk": [2, 8, 8], "shard_rows": 2}},
}


@dataclass(kw_only=True)
class Gather(GrownPlace):
    """A gather of one list. The default is shards of two rows and strips of eight lines.

    Its control files and its cube survive a crash.
    """

    images: dict[str, Any] = field(default_factory=lambda: dict(IMAGES))
    table: FakeTable = field(default_factory=lambda: table_of(*NAMES))
    max_task_nbytes: int = 2**20

    def given(self, more: Mapping[str, Any]) -> dict[str, Any]:
        """Return a whole request."""
        return super().given(_WHOLE | dict(more))

    def plan(self) -> Planned:
        """Plan the gather."""
        return asyncio.run(self.planned_first(self.table))

    def plan_if_needed(self) -> Planned | None:
        """Plan the gather; None if there is nothing to gather."""
        return asyncio.run(self.plan_request(self.table, self.request))

    def plan_of_the_claim(self) -> Planned:
        """Return the plan as a worker finds it."""
        found = self.found()
        assert found is not None
        control = self.control.below(found.claim)
        return asyncio.run(load_plan(control)), asyncio.run(load_tasks(control))

    def context_of(self, plan: CubePlan) -> GatherContext:
        """Return what the steps of a plan share."""
        return self.context().of_plan(plan.claim)

    def fill_shard(self, task: ShardTask, plan: CubePlan) -> FilledShard:
        """Gather one shard."""
        return asyncio.run(self.shard(task, plan))

    def fill_from(self, first: int) -> Planned:
        """Plan the gather, and gather its shards from one of them on."""
        plan, tasks = self.plan()
        for task in tasks[first:]:
            self.fill_shard(task, plan)
        return plan, tasks

    def finish(self, plan: CubePlan, tasks: tuple[ShardTask, ...], *, max_lost_share: float = 0.0) -> Report:
        """Finish."""
        return asyncio.run(self.finished(plan, tasks, max_lost_share=max_lost_share))

    def run(self) -> Report:
        """Do all steps that are not done yet."""
        return self.gather(self.table)

    def found(self) -> FoundCube | None:
        """Return the cube as its metadata tell of it."""
        return asyncio.run(self.cube.found())

    def is_complete(self) -> bool:
        """Return whether the cube is marked as complete."""
        found = self.found()
        return found is not None and found.report is not None

    def keys_by_put(self) -> list[str]:
        """Return the keys of all objects in the order of their last PUTs."""
        etags = self.etags()
        return sorted(etags, key=lambda key: int(etags[key].strip('"')))

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """Return what a reader finds now in an array."""
        (values,) = self.values(name)
        return values

    def arrays(self) -> frozenset[str]:
        """Return the names of the complete cube's arrays."""
        found = self.found()
        return frozenset() if found is None else found.arrays

    def quicklooks(self) -> tuple[list[int], Pixels]:
        """Return the rows of the pictures of the first band, and the pictures."""
        with np.load(io.BytesIO(self.contents()[QUICKLOOKS_KEY]), allow_pickle=False) as stored:
            return stored["rows/band_1"].tolist(), stored["pixels/band_1"]

    def headers(self) -> dict[str, bytes]:
        """Return the header index of the cube, in its order."""
        entries = [each for batch in stored_entries(self.contents()[HEADERS_KEY]) for each in batch]
        assert len(dict(entries)) == len(entries), "each source has one entry"
        return dict(entries)
