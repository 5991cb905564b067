"""Gathers and appends over fakes, into a cube in memory that readers can open."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, override

import numpy as np
import obstore
import xarray as xr
import zarr
from obstore.store import MemoryStore
from zarr.storage import ObjectStore

from pixel_gather.core.estimate.workload import WorkerPool
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.ports import Projector, SourceTable
from pixel_gather.core.read.measure_rows import digest_of
from pixel_gather.core.read.shard_buffers import Pixels, ShardBuffers
from pixel_gather.core.request.request import parse_request
from pixel_gather.core.results.report import Report
from pixel_gather.core.stores import ROOT_KEY, Content, StoredObject
from pixel_gather.engine.base_cube import read_base
from pixel_gather.engine.find_failed_rows import FailedRows
from pixel_gather.engine.finish_gather import finish_gather
from pixel_gather.engine.gather_context import GatherContext
from pixel_gather.engine.gather_shard import FilledShard, gather_shard
from pixel_gather.engine.plan_gather import Planned, plan_gather
from pixel_gather.engine.step_files import find_committed
from pixel_gather.io.cube.zarr_cube import ZarrCube
from pixel_gather.io.cube.zarr_metadata import gather_of
from support.fakes import (
    FakeControl,
    FakeImage,
    FakeProjector,
    FakeReader,
    FakeTable,
    access_to,
    context_of,
)


def in_memory() -> Any:
    """Return an empty store, which serves as any other."""
    return MemoryStore()


def cut(chunk_rows: int, shard_rows: int, *, is_sharded: bool = True) -> dict[str, Any]:
    """Return the ``output`` of a request for small chunks.

    Without sharding, a chunk has ``shard_rows`` rows.
    """
    if is_sharded:
        return {"layout": {"chunk": [chunk_rows, 4, 4], "shard_rows": shard_rows}}
    return {"layout": {"chunk": [shard_rows, 4, 8]}, "sharding": False}


def rows(*numbers: int, digest: str = "") -> FakeTable:
    """Return a list of one source a row, named and dated by its number."""
    made = tuple(
        CubeRow(time_us=n * 1_000_000, sources=(Source(href=f"s3://b/{n}", time_us=n * 1_000_000),))
        for n in numbers
    )
    return FakeTable(made, has_time=True, digest=(digest or "-".join(map(str, numbers))).ljust(64, "x"))


@dataclass(kw_only=True)
class GrownPlace:
    """A place for one cube, with the control files of its gathers."""

    images: Mapping[str, Pixels | FakeImage]
    request: dict[str, Any] = field(default_factory=dict)
    store: Any = field(default_factory=in_memory)
    control: FakeControl = field(default_factory=FakeControl)
    watch: Callable[[Any], ZarrCube] = lambda store: ZarrCube(store, "place")
    """Returns the cube in a store."""

    projector: Projector = field(default_factory=FakeProjector)
    max_task_nbytes: int = 2**24
    reader: FakeReader = field(init=False)

    def __post_init__(self) -> None:
        """Start without opened sources."""
        self.reader = FakeReader(self.images)

    @property
    def cube(self) -> ZarrCube:
        """The cube."""
        return self.watch(self.store)

    def context(self) -> GatherContext:
        """Return what all steps share."""
        return context_of(self.cube, self.control, access_to(self.reader, projector=self.projector))

    def gather(self, table: SourceTable) -> Report:
        """Make the cube."""
        return asyncio.run(self.gathered(table))

    def append(self, table: SourceTable, **request: Any) -> Report | None:
        """Add rows. Return None if there is nothing to add."""
        return asyncio.run(self.appended(table, **request))

    async def gathered(self, table: SourceTable) -> Report:
        """Make the cube; see `gather`."""
        planned = await self.planned_first(table)
        await self.fill(*planned)
        return await self.finished(*planned)

    async def planned_first(self, table: SourceTable) -> Planned:
        """Do the first step of a new cube."""
        planned = await self.plan_request(table, self.request)
        assert planned is not None, "the cube is complete"
        return planned

    async def appended(self, table: SourceTable, **request: Any) -> Report | None:
        """Add rows; see `append`."""
        planned = await self.planned(table, **request)
        if planned is None:
            return None
        await self.fill(*planned)
        return await self.finished(*planned)

    async def planned(self, table: SourceTable, **request: Any) -> Planned | None:
        """Do the first step of an append. Return None if there is nothing to add."""
        output = {"output": {"append_to": "place"}}
        shared = {name: value for name, value in self.request.items() if name != "output"}
        return await self.plan_request(table, shared | output | request)

    async def plan_request(self, table: SourceTable, request: Mapping[str, Any]) -> Planned | None:
        """Do the first step of a request. Return None if there is nothing to gather."""
        return await plan_gather(
            parse_request(self.given(request)),
            table=table,
            context=self.context(),
            workers=WorkerPool(max_task_nbytes=self.max_task_nbytes),
        )

    async def begun(self, table: SourceTable, **request: Any) -> Planned:
        """Do the first step of an append that has rows to add."""
        planned = await self.planned(table, **request)
        assert planned is not None, "there is nothing to add"
        return planned

    def filled(self, table: SourceTable, **request: Any) -> Planned:
        """Do all steps of an append but the last."""
        planned = asyncio.run(self.begun(table, **request))
        asyncio.run(self.fill(*planned))
        return planned

    async def finished(
        self, plan: CubePlan, tasks: Sequence[ShardTask], *, max_lost_share: float = 0.0
    ) -> Report:
        """Do the last step of a new cube or an append."""
        stores = self.context().of_plan(plan.claim)
        return await finish_gather(plan=plan, tasks=tasks, stores=stores, max_lost_share=max_lost_share)

    async def fill(self, plan: CubePlan, tasks: Sequence[ShardTask]) -> None:
        """Do all tasks that are not done."""
        done = await find_committed(plan, tasks, stores=self.context().of_plan(plan.claim))
        for task in tasks:
            if task.index not in done:
                await self.shard(task, plan)

    async def shard(self, task: ShardTask, plan: CubePlan) -> FilledShard:
        """Do one task."""
        return await gather_shard(
            task,
            plan=plan,
            context=self.context().of_plan(plan.claim),
            buffers=ShardBuffers(plan),
        )

    def contents(self) -> dict[str, bytes]:
        """Return all objects of the cube."""
        return {key: bytes(obstore.get(self.store, key).bytes()) for key in self.etags()}

    def etags(self) -> dict[str, str]:
        """Return the ETags of all objects. A store in memory gives each PUT the next number."""
        return {item["path"]: item["e_tag"] or "" for page in obstore.list(self.store) for item in page}

    def plan_anew(self) -> None:
        """Let the place belong to another claim of the same plan."""
        obstore.put(self.store, ROOT_KEY, as_if_planned_anew(self.contents()[ROOT_KEY]))

    def copy(self) -> "GrownPlace":
        """Return a place with a copy of the cube, for one test to change."""
        copy = GrownPlace(images=self.images, request=self.request)
        for key, content in self.contents().items():
            obstore.put(copy.store, key, content)
        return copy

    def open(self) -> xr.Dataset:
        """Open the cube like any user."""
        opened: xr.Dataset = xr.open_zarr(ObjectStore(self.store, read_only=True), chunks=None)
        return opened

    def values(self, *names: str) -> list[np.ndarray[Any, Any]]:
        """Return what a reader finds now in some arrays."""
        group: Any = zarr.open_group(ObjectStore(self.store, read_only=True), mode="r")
        return [np.asarray(group[name][...]) for name in names]

    def digest(self) -> str:
        """Return a digest of the pixels that a reader finds now."""
        return digest_of(np.ascontiguousarray(*self.values("band_1")))

    def given(self, more: Mapping[str, Any]) -> dict[str, Any]:
        """Return a whole request."""
        return {"sources": "list", "window": {"pixels": [2, 3, 8, 6]}} | dict(more)


def as_if_planned_anew(root: bytes) -> bytes:
    """Return the group's metadata of an incomplete cube, with its claim replaced by another."""
    metadata = json.loads(root)
    gather = gather_of(metadata["attributes"]) | {"planned_at": "2026-11-21T00:00:00.000001+00:00"}
    metadata["attributes"]["pixel_gather"] = json.dumps(gather)
    return json.dumps(metadata).encode()


class PausingCube(ZarrCube, frozen=True, kw_only=True):
    """A cube that waits, before it touches an object, until the rest of the world has gone on."""

    pauses: Callable[[str], bool]
    """Tells whether it waits at this key."""

    meanwhile: Callable[[], Awaitable[None]]
    moment: str
    """When: ``look`` before `etag_of`, ``read`` before `read_object`, ``put`` before `put_object`."""

    @override
    async def etag_of(self, key: str) -> str | None:
        if self.moment == "look":
            await self._pause(key)
        return await ZarrCube.etag_of(self, key)

    @override
    async def read_object(self, key: str) -> StoredObject | None:
        if self.moment == "read":
            await self._pause(key)
        return await ZarrCube.read_object(self, key)

    @override
    async def put_object(self, key: str, content: Content, *, replaces: str | None) -> str | None:
        if self.moment == "put":
            await self._pause(key)
        return await ZarrCube.put_object(self, key, content, replaces=replaces)

    async def _pause(self, key: str) -> None:
        if self.pauses(key):
            await self.meanwhile()


def paused(grown: GrownPlace, meanwhile: Callable[[], Awaitable[None]], at: tuple[str, str]) -> None:
    """Let the cube wait once, at a (moment, key), until something else has been done."""
    former = grown.watch
    moment, key = at
    left = [key]

    def is_the_one(touched: str) -> bool:
        if touched in left:
            left.remove(touched)
            grown.watch = former
            return True
        return False

    grown.watch = lambda store: PausingCube(
        store, "place", pauses=is_the_one, meanwhile=meanwhile, moment=moment
    )


async def read_failed(
    grown: GrownPlace, *, asked: Mapping[str, Any] | None = None, **told: Any
) -> FailedRows:
    """Return the failed rows of a cube. ``told`` replaces columns of its table of rows."""
    asked = asked or {"sources": "l", "window": "centre"}
    request = parse_request(dict(asked) | {"output": {"append_to": "place"}})
    base = await read_base(request, None, grown.cube, await grown.cube.found())
    assert base.template is not None
    failed = FailedRows(template=base.template, n_rows=base.append.first_row, asks_for_all=False)
    for _ in failed.watch(dict(each) | told for each in base.rows):
        pass
    return failed


CLOCKS: Final = ("start", "end", "open", "read", "decode")


def equal_but_for_clocks(one: xr.Dataset, other: xr.Dataset) -> bool:
    """Return whether two cubes have the same variables, apart from timings."""
    left, right = (each.drop_vars(CLOCKS) for each in (one, other))
    return set(left.variables) == set(right.variables) and all(
        _same(left[name].values, right[name].values) for name in left.variables
    )


def _same(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    return one.dtype == other.dtype and bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fcM"))
