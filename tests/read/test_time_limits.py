"""Reading ends in time for the pixels to be stored."""

import asyncio
from types import SimpleNamespace

import pytest

from pixel_gather.core.errors import ShardLateError, ShardsLeftError
from pixel_gather.core.read.time_limits import ShardTimes, in_time, reading_s
from support.in_loop import in_virtual_time


@pytest.mark.parametrize(("left_s", "expected"), [(900, 840), (100, 75), (8, 6), (0, 0)])
def test_reading_leaves_time_to_store(left_s: float, expected: float) -> None:
    """A minute is kept for storing, or a quarter of the time if less is left."""
    assert reading_s(left_s) == expected


async def _work(seconds: float, ended: list[str]) -> str:
    try:
        await asyncio.sleep(seconds)
    finally:
        ended.append("work")
    return "filled"


@pytest.mark.parametrize("limit_s", [None, 60])
def test_first_try_that_is_in_time_is_left_alone(limit_s: float | None) -> None:
    """A try within its limit is not stopped, nor is a second try, which has no limit."""
    assert asyncio.run(in_time(_work(0.01, []), limit_s=limit_s)) == "filled"


@in_virtual_time
async def test_first_try_that_is_late_ends_before_the_state_machine_stops_waiting() -> None:
    """No part of it runs on when a fresh worker begins."""
    ended: list[str] = []

    with pytest.raises(ShardLateError, match="not filled in time"):
        await in_time(_work(3600, ended), limit_s=100)
    assert asyncio.get_running_loop().time() == 75
    assert ended == ["work"]


def test_time_out_of_the_work_itself_is_no_lateness() -> None:
    """A time-out of the work itself is raised unchanged, because another worker would meet it, too."""

    async def work() -> None:
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        asyncio.run(in_time(work(), limit_s=60))


def test_shard_of_a_second_try_takes_no_longer_than_its_limit() -> None:
    """Each shard has the limit, however long the worker may run. So the cost is bounded."""
    times = ShardTimes(left_s=900, limit_s=None, late_s=120)

    assert [times.begin() for _ in range(3)] == [120, 120, 120]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that stands still at ``now``."""
    clock = SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr("pixel_gather.core.read.time_limits.time", clock)
    return clock


def test_second_try_that_has_no_time_for_a_whole_shard_leaves_it_to_another(clock: SimpleNamespace) -> None:
    """The first shard of a try always begins, so each try fills at least one."""
    times = ShardTimes(left_s=100, limit_s=None, late_s=120, _began_s=clock.now)

    assert times.begin() == 100
    with pytest.raises(ShardsLeftError, match="some shards are filled"):
        times.begin()


def test_shards_share_what_is_left_of_the_workers_life(clock: SimpleNamespace) -> None:
    """Each may take what the shards before it have left."""
    times = ShardTimes(left_s=100, limit_s=None, late_s=None, _began_s=clock.now)

    assert times.begin() == 100
    clock.now += 30
    assert times.begin() == 70


def test_first_try_goes_on_while_three_quarters_of_its_limit_have_room_for_the_longest_shard(
    clock: SimpleNamespace,
) -> None:
    """Of 100 s, 75 s count. After two shards of 25 s there is just room for one, and then for none."""
    times = ShardTimes(left_s=900, limit_s=100, late_s=None, _began_s=clock.now)

    times.begin()
    clock.now += 25
    times.begin()
    clock.now += 25
    times.begin()
    clock.now += 1
    with pytest.raises(ShardLateError, match="100 s are too short"):
        times.begin()


@pytest.mark.parametrize(
    ("left_s", "late_s", "begins"), [(50, None, True), (49, None, False), (49, 10, False)]
)
def test_second_try_goes_on_while_there_is_time_for_twice_the_longest_shard(
    clock: SimpleNamespace, left_s: float, late_s: float | None, *, begins: bool
) -> None:
    """The longest took 25 s."""
    times = ShardTimes(left_s=left_s + 25, limit_s=None, late_s=late_s, _began_s=clock.now)

    times.begin()
    clock.now += 25

    if begins:
        assert times.begin() == left_s
    else:
        with pytest.raises(ShardsLeftError, match=f"{left_s} s are too short"):
            times.begin()


def test_second_try_goes_on_to_the_end_of_its_life_while_shards_take_no_time(clock: SimpleNamespace) -> None:
    """Without a limit for a shard, any time that is left is enough."""
    times = ShardTimes(left_s=0.5, limit_s=None, late_s=None, _began_s=clock.now)

    assert [times.begin() for _ in range(2)] == [0.5, 0.5]


def test_shard_that_is_stored_while_the_next_is_read_counts_until_it_is_stored(
    clock: SimpleNamespace,
) -> None:
    """The last shard is stored alone, so it takes as long as the longest one in all."""
    times = ShardTimes(left_s=900, limit_s=100, late_s=None, _began_s=clock.now)
    times.begin()
    clock.now += 20.0
    times.begin()  # the first one is read
    clock.now += 20.0
    times.note(40.0)  # and stored

    with pytest.raises(ShardLateError):
        times.begin()
