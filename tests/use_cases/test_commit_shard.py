"""Two workers of one task: what the first has committed stays, however late the second one's PUTs arrive."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import obstore
import pytest
from obstore.store import MemoryStore

from pixel_gather.adapters.cube.shard_codec import chunks_of
from pixel_gather.adapters.cube.zarr_cube import ZarrCube
from pixel_gather.errors import StoreError
from pixel_gather.model.outcome import ShardResult
from pixel_gather.plan.shards import cut_tasks
from pixel_gather.read.read_shard import Pixels
from pixel_gather.stores import StoredShard
from pixel_gather.use_cases import commit_shard as module
from pixel_gather.use_cases.commit_shard import commit_shard
from pixel_gather.use_cases.step_files import PLAN_KEY, committed_result, sidecar_key
from support.fakes import FakeControl, FakeReader, table_of
from support.plans import planned

_PLAN = planned(
    FakeReader({"s3://b/a.tif": np.ones((2, 16, 16), "uint16")}),
    table_of("s3://b/a.tif"),
    window={"pixels": [0, 0, 16, 16]},
    output={"codec": "none"},
)
(_TASK,) = cut_tasks(_PLAN, [0])
_FIRST, _SECOND = _TASK.object_keys(_PLAN)


def _in_memory() -> Any:
    return MemoryStore()


def _filled(value: int) -> Pixels:
    return np.full((1, 16, 16), value, "uint16")


@dataclass
class Place:
    """A cube with two arrays, and the control files of its gather."""

    store: Any = field(default_factory=_in_memory)
    control: Any = field(default_factory=lambda: FakeControl(files={PLAN_KEY: b"planned"}))

    @property
    def cube(self) -> ZarrCube:
        """Return the cube."""
        return ZarrCube(self.store, "place")

    async def commit(self, value: int, before_put: Callable[[int], Any] | None = None) -> ShardResult:
        """Do the task as a worker whose sources all have this value. Return the committed result."""
        encoders = [self.cube.encoder(_PLAN, each, _filled(value)) for each in _PLAN.measurements]
        for each in encoders:
            await each.encode_rows(0, 1)

        async def put(index: int, replaces: str | None) -> StoredShard | None:
            if before_put is not None:
                await before_put(index)
            key = _TASK.shard_key(_PLAN)
            return await self.cube.write_shard(
                _PLAN.measurements[index], key, encoders[index], replaces=replaces
            )

        async def check() -> None:
            """The place is ours."""

        committed, _ = await commit_shard(
            _TASK,
            plan=_PLAN,
            cube=self.cube,
            control=self.control,
            put=put,
            check_claim=check,
            result_of=lambda stored: _result(value, stored),
        )
        return committed

    def values(self) -> list[int]:
        """Return the value of each array's pixels."""
        found = []
        for key in (_FIRST, _SECOND):
            (chunk,) = chunks_of(memoryview(bytes(obstore.get(self.store, key).bytes())), n=1)
            assert chunk is not None
            (value,) = set(np.frombuffer(chunk, "uint16").tolist())
            found.append(value)
        return found

    def told(self) -> ShardResult | None:
        """Return the result that a finish finds."""
        return asyncio.run(committed_result(_TASK, plan=_PLAN, cube=self.cube, control=self.control))


def _result(value: int, stored: Sequence[StoredShard]) -> ShardResult:
    return ShardResult(
        index=value, rows=[], read_s=0, measure_s=0, write_s=0, stored_nbytes=len(stored), peak_rss_mib=0
    )


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_PAUSE_S", 0.0)


@pytest.mark.parametrize("moment", [0, 1])
def test_a_put_that_arrives_late_changes_nothing(moment: int) -> None:
    """The late worker looked before the other one began. It returns the other's result."""
    place = Place()

    async def other_is_faster(index: int) -> None:
        if index == moment and not place.control.keys_put:
            await place.commit(2)

    result = asyncio.run(place.commit(1, other_is_faster))

    assert place.values() == [2, 2]
    assert (result.index, place.told()) == (2, result)


def test_what_a_dead_worker_left_is_replaced_and_can_never_be_committed() -> None:
    """It had put both objects. Its sidecar arrives after the other worker has looked."""
    place = Place()
    asyncio.run(_leave_objects(place, 1))
    left = [obstore.head(place.store, key)["e_tag"] for key in (_FIRST, _SECOND)]

    result = asyncio.run(place.commit(2))
    arrives = asyncio.run(place.control.put_new(sidecar_key(_TASK.index, str(left[0])), b"late"))

    assert not arrives
    assert place.values() == [2, 2]
    assert (result.index, place.told()) == (2, result)


def test_an_object_that_replaces_another_has_bytes_of_its_own() -> None:
    """Otherwise it could have the ETag of an earlier one, for which a PUT may still be on its way."""
    place, other = Place(), Place()
    for each in (place, other):
        asyncio.run(_leave_objects(each, 1))
    before = bytes(obstore.get(place.store, _FIRST).bytes())

    for each in (place, other):
        asyncio.run(each.commit(1))

    after = [bytes(obstore.get(each.store, _FIRST).bytes()) for each in (place, other)]
    assert len({before, *after}) == 3
    assert place.values() == [1, 1]


def test_a_sidecar_that_was_cleared_away_is_not_taken_for_none() -> None:
    """The gather was completed in this moment. Its pixels stay."""
    place = Place()
    asyncio.run(place.commit(2))
    place.control.files.clear()

    with pytest.raises(StoreError, match="completed meanwhile"):
        asyncio.run(place.commit(1))

    assert place.values() == [2, 2]


async def _leave_objects(place: Place, value: int) -> None:
    """Put the objects of a task, and end before its sidecar."""
    for measurement in _PLAN.measurements:
        encoder = place.cube.encoder(_PLAN, measurement, _filled(value))
        await encoder.encode_rows(0, 1)
        await place.cube.write_shard(measurement, _TASK.shard_key(_PLAN), encoder, replaces=None)
