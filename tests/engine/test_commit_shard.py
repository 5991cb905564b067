"""Two workers of one task: what the first has committed stays, however late the second one's PUTs arrive."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import numpy as np
import obstore
import pytest

from pixel_gather.core.errors import AlreadyCommittedError, BusyError, StoreError
from pixel_gather.core.model.outcome import ShardResult
from pixel_gather.core.plan.cut_tasks import cut_tasks
from pixel_gather.core.read.shard_buffers import Pixels
from pixel_gather.core.stores import StoredShard
from pixel_gather.engine import commit_shard as module
from pixel_gather.engine.commit_shard import EarlyLook, commit_shard, look_at_objects
from pixel_gather.engine.step_files import PLAN_KEY, read_committed, sidecar_key
from pixel_gather.io.cube.shard_codec import split_chunks
from pixel_gather.io.cube.zarr_cube import ZarrCube
from support.appends import in_memory
from support.fakes import FakeControl, FakeReader, stores_of, table_of
from support.plans import planned

_PLAN = planned(
    FakeReader({"s3://b/a.tif": np.ones((2, 16, 16), "uint16")}),
    table_of("s3://b/a.tif"),
    window={"pixels": [0, 0, 16, 16]},
    output={"codec": "none"},
)
(_TASK,) = cut_tasks(_PLAN, [0])
_FIRST, _SECOND = _TASK.object_keys(_PLAN)


def _filled(value: int) -> Pixels:
    return np.full((1, 16, 16), value, "uint16")


async def _is_ours() -> None:
    """Find the place ours."""


@dataclass
class Place:
    """A cube with two arrays, and the control files of its gather."""

    store: Any = field(default_factory=in_memory)
    control: Any = field(default_factory=lambda: FakeControl(files={PLAN_KEY: b"planned"}))

    @property
    def cube(self) -> ZarrCube:
        """Return the cube."""
        return ZarrCube(self.store, "place")

    async def commit(
        self,
        value: int,
        before_put: Callable[[int], Any] | None = None,
        check_claim: Callable[[], Awaitable[None]] = _is_ours,
        first_look: EarlyLook | None = None,
    ) -> ShardResult:
        """Do the task as a worker whose sources all have this value. Return the committed result."""
        encoders = [self.cube.encoder(_PLAN, each, [_filled(value)], n_before=0) for each in _PLAN.arrays]
        for each in encoders:
            await each.encode_rows(0, 1)

        async def put(index: int, replaces: str | None) -> StoredShard | None:
            if before_put is not None:
                await before_put(index)
            key = _TASK.object_keys(_PLAN)[index]
            return await self.cube.write_shard(key, encoders[index], replaces=replaces)

        committed, _ = await commit_shard(
            _TASK,
            plan=_PLAN,
            stores=stores_of(self.cube, self.control),
            put=put,
            check_claim=check_claim,
            result_of=lambda stored: _result(value, stored),
            first_look=first_look,
        )
        return committed

    def look(self) -> EarlyLook:
        """Return a look that has not begun."""
        keys = _TASK.object_keys(_PLAN)
        return EarlyLook(partial(look_at_objects, keys, cube=self.cube, check_claim=_is_ours))

    def values(self) -> list[int]:
        """Return the value of each array's pixels."""
        found = []
        for key in (_FIRST, _SECOND):
            (chunk,) = split_chunks(memoryview(bytes(obstore.get(self.store, key).bytes())), n=1)
            assert chunk is not None
            (value,) = set(np.frombuffer(chunk, "uint16").tolist())
            found.append(value)
        return found

    def told(self) -> ShardResult | None:
        """Return the result that a finish finds."""
        return asyncio.run(read_committed(_TASK, plan=_PLAN, stores=stores_of(self.cube, self.control)))


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


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_worker_may_look_long_before_it_puts(when: str) -> None:
    """What was committed since its look stays. What is there at its look is taken for what it is."""
    place = Place()

    async def run() -> ShardResult:
        look = place.look()
        if when == "before":
            look.begin()
            await asyncio.sleep(0.01)
        await place.commit(2)
        return await place.commit(1, first_look=look)

    result = asyncio.run(run())

    assert place.values() == [2, 2]
    assert (result.index, place.told()) == (2, result)


def test_a_look_ends_where_the_reading_fails() -> None:
    """Nobody waits for it, and it does not go on."""
    ended: list[str] = []

    async def look() -> list[str | None]:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("ended")
        return []

    async def run() -> None:
        looking = EarlyLook(look)
        async with looking:
            looking.begin()
            await asyncio.sleep(0)
            raise StoreError("refused")

    with pytest.raises(StoreError, match="refused"):
        asyncio.run(run())
    assert ended == ["ended"]


def test_a_worker_that_slept_while_the_task_was_committed_and_cleared_writes_nothing() -> None:
    """A late planner has put the plan back, so only the group's metadata tell of the commit."""
    place = Place()
    asyncio.run(place.commit(2))
    n_checks = 0

    async def check() -> None:
        nonlocal n_checks
        n_checks += 1
        if n_checks == 1:  # the version is committed now, and its control files are cleared
            place.control.files.clear()
            place.control.files[PLAN_KEY] = b"planned"
        else:
            raise AlreadyCommittedError("committed")

    with pytest.raises(AlreadyCommittedError):
        asyncio.run(place.commit(1, check_claim=check))

    assert place.values() == [2, 2]


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
    for array, key in zip(_PLAN.arrays, _TASK.object_keys(_PLAN), strict=True):
        encoder = place.cube.encoder(_PLAN, array, [_filled(value)], n_before=0)
        await encoder.encode_rows(0, 1)
        await place.cube.write_shard(key, encoder, replaces=None)


async def _leave_alone() -> None:
    """The place is ours."""


def _commit(
    place: Place, put: Callable[[int, str | None], Any], cube: Any = None
) -> tuple[ShardResult, bool]:
    """Do the task with another way to put objects."""
    committing = commit_shard(
        _TASK,
        plan=_PLAN,
        stores=stores_of(cube or place.cube, place.control),
        put=put,
        check_claim=_leave_alone,
        result_of=lambda stored: _result(7, stored),
    )
    return asyncio.run(committing)


def test_a_worker_tells_whether_it_was_the_one() -> None:
    """The second one has the result of the first."""
    place = Place()

    async def put(index: int, replaces: str | None) -> StoredShard | None:
        assert replaces is None
        obstore.put(place.store, (_FIRST, _SECOND)[index], b"x")
        etag = await place.cube.etag_of((_FIRST, _SECOND)[index])
        assert etag is not None
        return StoredShard(nbytes=5, etag=etag)

    first, is_first = _commit(place, put)
    second, is_second = _commit(place, put)

    assert (is_first, is_second) == (True, False)
    assert first == second
    assert first.stored_nbytes == 2


def test_a_worker_gives_up_if_others_are_faster_again_and_again() -> None:
    """It is not an endless loop. Nothing of it is left."""
    place, asked = Place(), []

    async def never(index: int, replaces: str | None) -> None:
        asked.append((index, replaces))

    with pytest.raises(BusyError, match=f"others write shard {_TASK.index} at the same time: run again"):
        _commit(place, never)

    assert set(asked) == {(0, None)}
    assert place.control.keys_put == []


def test_a_sidecar_that_is_neither_put_nor_there_is_waited_for() -> None:
    """Another PUT is on its way. If it never arrives, the worker gives up."""
    place, tries = Place(), []

    class Slow(FakeControl):
        """Refuses files that nobody sees, for some time."""

        async def put_new(self, key: str, content: bytes) -> bool:
            tries.append(key)
            return len(tries) > 3 and await super().put_new(key, content)

    async def put(index: int, replaces: str | None) -> StoredShard | None:
        assert replaces is None
        return StoredShard(nbytes=5, etag=f"{index}")

    place.control = Slow(files={PLAN_KEY: b"planned"})
    assert _commit(place, put)[1]
    assert tries == [sidecar_key(_TASK.index, "0")] * 4

    place.control = Slow(files={PLAN_KEY: b"planned"})
    place.control.put_new = _refuse
    with pytest.raises(BusyError, match="run again"):
        _commit(place, put)


async def _refuse(key: str, content: bytes) -> bool:
    assert key
    assert content
    return False


@pytest.mark.parametrize("is_ours", [True, False])
def test_an_object_that_changes_between_is_put_again_only_in_ones_own_turn(*, is_ours: bool) -> None:
    """The first object says whose turn it is."""
    place, puts = Place(), []
    etags: dict[str, str | None] = {_FIRST: None, _SECOND: None}

    class Cube:
        """Knows the ETags of objects."""

        async def etag_of(self, key: str) -> str | None:
            return etags[key]

    async def put(index: int, replaces: str | None) -> StoredShard | None:
        puts.append((index, replaces))
        if index == 0:
            etags[_FIRST] = "ours"
            return StoredShard(nbytes=5, etag="ours")
        if replaces is None:
            etags[_SECOND] = "theirs"
            if not is_ours:
                etags[_FIRST] = "theirs"
                place.control.files[sidecar_key(_TASK.index, "theirs")] = msgspec.msgpack.encode(
                    _result(9, ())
                )
            return None
        return StoredShard(nbytes=5, etag="second")

    result, is_new = _commit(place, put, Cube())

    assert puts == ([(0, None), (1, None), (1, "theirs")] if is_ours else [(0, None), (1, None)])
    assert (result.index, is_new) == ((7, True) if is_ours else (9, False))
