"""What is committed stays, whoever comes back later: workers, finishes and compactions of older versions."""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from functools import cache
from typing import Any, Final, override

import numpy as np
import obstore
import pytest

from pixel_gather.core.errors import (
    AlreadyCommittedError,
    AppendRunningError,
    ArrayExistsError,
    GatherCancelledError,
)
from pixel_gather.core.plan.cube_plan import CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.read.time_limits import ShardTimes
from pixel_gather.core.results.report import Report
from pixel_gather.core.stores import ROOT_KEY, Content
from pixel_gather.engine import row_claim
from pixel_gather.engine.compact import compact_cube
from pixel_gather.engine.gather_shard import give_up_shard
from pixel_gather.engine.gather_shards import LastPlan, gather_shards
from pixel_gather.engine.row_claim import claim_key
from pixel_gather.engine.step_files import find_committed
from pixel_gather.engine.stop_if_cancelled import IsCancelled
from pixel_gather.features.verify.check_cube import check_cube
from pixel_gather.io.cube.grown_shard import read_index
from pixel_gather.io.cube.zarr_cube import ZarrCube
from support.appends import GrownPlace, cut, paused, rows
from support.fakes import access_to
from support.in_loop import in_loop

type Planned = tuple[CubePlan, tuple[ShardTask, ...]]

_RNG: Final = np.random.default_rng(14)
_IMAGES: Final = {f"s3://b/{n}": _RNG.integers(1, 999, (1, 20, 20), "uint16") for n in range(14)}


def place(*, is_sharded: bool = True) -> GrownPlace:
    """Return an empty place. A shard has four rows, a chunk two."""
    return GrownPlace(images=_IMAGES, request={"output": cut(2, 4, is_sharded=is_sharded)})


def check_rows(grown: GrownPlace, *numbers: int) -> None:
    """Assert that the cube has these sources with their pixels, and nothing else to tell."""
    opened = grown.open()

    assert opened["href"].values.tolist() == [f"s3://b/{n}" for n in numbers]
    assert opened["status"].values.tolist() == [0] * len(numbers)
    wanted = np.stack([_IMAGES[f"s3://b/{n}"][0, 3:9, 2:10] for n in numbers])
    np.testing.assert_array_equal(opened["band_1"].values, wanted)
    assert check_cube(grown.store, place="grown").differences == ()


async def begun(grown: GrownPlace, *numbers: int) -> Planned:
    """Plan a first gather, and fill its shards."""
    planned = await grown.planned_first(rows(*numbers))
    await grown.fill(*planned)
    return planned


async def appended_to(grown: GrownPlace, *numbers: int) -> Planned:
    """Plan an append, and fill its shards."""
    planned = await grown.begun(rows(*numbers))
    await grown.fill(*planned)
    return planned


async def _never() -> bool:
    return False


async def redrive(
    grown: GrownPlace, plan: CubePlan, tasks: Sequence[ShardTask], *, is_cancelled: IsCancelled = _never
) -> list[bool]:
    """Run all tasks of a plan once more from their start, as the state machine does."""
    were_new: list[bool] = []
    await gather_shards(
        tasks,
        gather=f"place/{plan.claim}",
        last_plan=LastPlan(2**20),
        sources_of=lambda _: access_to(grown.reader),
        stores=grown.context().of_plan(plan.claim),
        times=ShardTimes(left_s=800, limit_s=None, late_s=100),
        on_shard=lambda _, __, filled: were_new.append(filled.is_new),
        is_cancelled=is_cancelled,
    )
    return were_new


@pytest.mark.parametrize("is_sharded", [True, False])
@pytest.mark.parametrize("version", [1, 2])
def test_redriven_tasks_of_a_version_read_and_write_nothing_after_an_append(
    version: int, *, is_sharded: bool
) -> None:
    """The append has continued their last shard. To them it looks like an object that nobody committed."""
    grown = place(is_sharded=is_sharded)

    async def all_of_it() -> Planned:
        planned = await begun(grown, 0, 1)
        await grown.finished(*planned)
        if version == 2:
            planned = await appended_to(grown, 2)
            await grown.finished(*planned)
        await grown.appended(rows(7))
        return planned

    plan, tasks = asyncio.run(all_of_it())
    before, n_opened = grown.contents(), len(grown.reader.opened)

    assert asyncio.run(redrive(grown, plan, tasks)) == []
    assert asyncio.run(grown.finished(plan, tasks)).shape[0] == version + 2
    for task in tasks:  # as a finish does that stood still before it gave them up
        with pytest.raises(AlreadyCommittedError):
            asyncio.run(give_up_shard(task, plan=plan, stores=grown.context().of_plan(plan.claim)))

    assert grown.contents() == before
    assert len(grown.reader.opened) == n_opened
    check_rows(grown, *([0, 1] if version == 1 else [0, 1, 2]), 7)


class NotingCube(ZarrCube, frozen=True, kw_only=True):
    """A cube that notes which files are put beside the shards."""

    keys_put: list[str]

    @override
    async def put_object(self, key: str, content: Content, *, replaces: str | None) -> str | None:
        self.keys_put.append(key)
        return await ZarrCube.put_object(self, key, content, replaces=replaces)


@pytest.mark.parametrize("step", ["append", "compaction"])
def test_whoever_commits_has_given_a_sign_of_work(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one that takes long would count as abandoned."""
    monkeypatch.setattr(row_claim, "_RENEWED_AFTER_S", -1.0)
    grown, keys = place(), list[str]()
    grown.gather(rows(0, 1, 2))
    grown.append(rows(3))  # in the shard of the rows before
    grown.watch = lambda store: NotingCube(store=store, place="place", keys_put=keys)

    if step == "append":
        grown.append(rows(4))
    else:
        asyncio.run(compact_cube(grown.cube))

    assert keys[-2:] == [claim_key(3), ROOT_KEY]


_KEYS: Final = (
    "href/c/0",
    "status/c/0",
    "band_1/zarr.json",
    "href/zarr.json",
    "rows.parquet",
    "headers.parquet",
    "receipt.json",
    "zarr.json",
)
_PUTS: Final = tuple(("put", key) for key in _KEYS)
_LOOKS: Final = tuple(("look", key) for key in _KEYS)


async def finished_late(grown: GrownPlace, planning: Awaitable[Planned], at: tuple[str, str]) -> Report:
    """Finish while another finish and an append take place at one moment of it."""
    planned = await planning

    async def meanwhile() -> None:
        await grown.finished(*planned)
        await grown.appended(rows(3, 4))

    paused(grown, meanwhile, at)
    return await grown.finished(*planned)


@pytest.mark.parametrize("at", [*_PUTS, ("look", "band_1/zarr.json"), ("look", "zarr.json")])
def test_late_finish_of_a_first_gather_changes_nothing(at: tuple[str, str]) -> None:
    """It sleeps before one of its PUTs. Another finish completes the cube, and an append is committed."""
    grown = place()

    report = asyncio.run(finished_late(grown, begun(grown, 0, 1, 2), at))

    assert report.shape[0] == 5
    check_rows(grown, 0, 1, 2, 3, 4)
    grown.append(rows(5))
    check_rows(grown, 0, 1, 2, 3, 4, 5)


@pytest.mark.long
@pytest.mark.parametrize("at", [*_PUTS, *_LOOKS, ("put", "versions/00001.json")])
def test_late_finish_of_an_append_changes_nothing(at: tuple[str, str]) -> None:
    """It sleeps before one of its PUTs. Another finish commits the append, and the next one is committed."""
    grown = place()
    grown.gather(rows(0, 1))

    report = asyncio.run(finished_late(grown, appended_to(grown, 2), at))

    assert report.shape[0] == 5
    check_rows(grown, 0, 1, 2, 3, 4)


@cache
def grown_thrice() -> GrownPlace:
    """Return a cube with three appends, which a compaction makes smaller."""
    grown = place()
    grown.gather(rows(0, 1, 2))
    for number in (3, 4, 5):
        grown.append(rows(number))
    return grown


@pytest.mark.long
@pytest.mark.parametrize(
    "at",
    [
        *(("put", key) for key in ("band_1/c/0/0/0", "versions/00004.json")),
        *(
            (moment, key)
            for key in ("rows.parquet", "receipt.json", "zarr.json")
            for moment in ("look", "put")
        ),
    ],
)
def test_late_compaction_changes_nothing(at: tuple[str, str]) -> None:
    """It sleeps before one of its PUTs. Another compaction of the version is done, and an append as well."""
    grown = grown_thrice().copy()

    async def whole() -> None:
        async def meanwhile() -> None:
            await compact_cube(grown.cube)
            await grown.appended(rows(6, 7))

        paused(grown, meanwhile, at)
        await compact_cube(grown.cube)

    with pytest.raises(AppendRunningError, match="run again"):
        asyncio.run(whole())

    check_rows(grown, *range(8))
    grown.append(rows(8))
    check_rows(grown, *range(9))


def given_up(grown: GrownPlace, *numbers: int) -> None:
    """Begin an append, fill its shards and never finish it."""
    asyncio.run(appended_to(grown, *numbers))


def test_a_compaction_empties_the_shards_that_an_abandoned_append_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They lie beyond the rows. A reader finds no pixel there. A second compaction has nothing to do."""
    grown = place()
    grown.gather(rows(0, 1, 2, 3))
    given_up(grown, 4, 5)
    left = grown.contents()["band_1/c/1/0/0"]
    monkeypatch.setattr(row_claim, "LAPSES_AFTER_S", 0.0)

    done = asyncio.run(compact_cube(grown.cube))

    emptied = grown.contents()["band_1/c/1/0/0"]
    assert (done.n_shards, done.freed_nbytes, done.version) == (1, len(left) - len(emptied), 2)
    assert (read_index(emptied, (2, 2, 2)) == 2**64 - 1).all()
    check_rows(grown, 0, 1, 2, 3)
    assert asyncio.run(compact_cube(grown.cube)).version == 2
    grown.append(rows(4, 5))
    check_rows(grown, 0, 1, 2, 3, 4, 5)


def test_a_compaction_leaves_an_append_alone_that_is_at_work() -> None:
    """Its shards lie beyond the rows, too."""
    grown = place()
    grown.gather(rows(0, 1, 2, 3))
    plan, tasks = asyncio.run(appended_to(grown, 4, 5))

    with pytest.raises(
        AppendRunningError, match=r"another append is at work\..* abandoned\. Run again when it is done$"
    ):
        asyncio.run(compact_cube(grown.cube))

    asyncio.run(grown.finished(plan, tasks))
    check_rows(grown, 0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize("moment", ["read", "put"])
def test_a_late_compaction_empties_no_shard_of_a_later_append(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sleeps before it reads the shard, or before its PUT. Another append takes over and fills it."""
    grown = place()
    grown.gather(rows(0, 1, 2, 3))
    given_up(grown, 4, 5)
    monkeypatch.setattr(row_claim, "LAPSES_AFTER_S", 0.0)

    async def meanwhile() -> None:
        await grown.appended(rows(6, 7))

    paused(grown, meanwhile, (moment, "band_1/c/1/0/0"))
    with pytest.raises(AppendRunningError, match="run again"):
        asyncio.run(compact_cube(grown.cube))

    check_rows(grown, 0, 1, 2, 3, 6, 7)


@pytest.mark.parametrize("is_sharded", [True, False])
@pytest.mark.parametrize("version", [1, 2])
@in_loop
async def test_late_worker_changes_nothing(version: int, *, is_sharded: bool) -> None:
    """It reads its sources while another one commits the task, and an append continues the shard."""
    grown = place(is_sharded=is_sharded)

    plan, tasks = await grown.planned_first(rows(0, 1))
    if version == 2:
        await grown.fill(plan, tasks)
        await grown.finished(plan, tasks)
        plan, tasks = await grown.begun(rows(2))
    opens = grown.reader.open_
    is_first = True

    async def late(*arguments: Any, **named: Any) -> Any:
        nonlocal is_first
        if is_first:
            is_first = False
            await grown.fill(plan, tasks)
            await grown.finished(plan, tasks)
            await grown.appended(rows(7, 8))
        return await opens(*arguments, **named)

    grown.reader.open_ = late  # type: ignore[method-assign] # the moment of it
    with pytest.raises(AlreadyCommittedError):
        await grown.shard(tasks[0], plan)

    check_rows(grown, *([0, 1] if version == 1 else [0, 1, 2]), 7, 8)


def test_late_plan_of_a_first_gather_leaves_the_metadata_of_a_grown_cube() -> None:
    """It has found the claim of its twin before the cube was complete, and describes the arrays at last."""
    grown = place()
    plan, tasks = asyncio.run(begun(grown, 0, 1))
    asyncio.run(grown.finished(plan, tasks))
    grown.append(rows(2))
    before = grown.contents()

    ZarrCube(grown.store, "place")._create_measurements(plan)

    assert grown.contents() == before


def test_an_append_of_a_cube_that_was_gathered_anew_writes_nothing() -> None:
    """The new cube has as many versions as the old one had, and the claim of the append is still there."""
    grown = place()
    grown.gather(rows(0, 1))
    plan, tasks = asyncio.run(appended_to(grown, 2))
    claim = grown.contents()[claim_key(2)]
    obstore.delete(grown.store, list(grown.contents()))
    time.sleep(0.001)  # a claim is as exact as the clock
    grown.gather(rows(0, 1))
    obstore.put(grown.store, claim_key(2), claim)
    before = grown.contents()

    for work in (grown.shard(tasks[0], plan), grown.finished(plan, tasks)):
        with pytest.raises(ArrayExistsError, match="planned anew since"):
            asyncio.run(work)

    assert grown.contents() == before


@in_loop
async def test_workers_of_a_cancelled_execution_fill_no_more_than_the_shard_in_hand() -> None:
    """The marker is looked for at each shard. What is committed stays, and another execution goes on."""
    grown = place()
    n_asked = 0

    async def cancelled_at_the_second() -> bool:
        nonlocal n_asked
        n_asked += 1
        return n_asked > 1

    plan, tasks = await grown.planned_first(rows(0, 1, 2, 3, 4, 5, 6, 7, 8))
    assert len(tasks) == 3
    with pytest.raises(GatherCancelledError, match="submit its request again"):
        await redrive(grown, plan, tasks, is_cancelled=cancelled_at_the_second)
    n_committed = len(await find_committed(plan, tasks, stores=grown.context().of_plan(plan.claim)))
    were_new = await redrive(grown, plan, tasks)

    assert n_committed == 1
    assert were_new == [False, True, True]
