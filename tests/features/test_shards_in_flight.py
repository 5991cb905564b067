"""More shards are in flight while the decoding threads wait."""

import asyncio
from collections.abc import Sequence

import pytest

from pixel_gather.features.gather.shards_in_flight import ShardsInFlight
from support.in_loop import in_loop

MIB = 2**20


class Clocks:
    """Seconds that pass, and seconds of them that a thread works."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.worked_s = 7.0

    def pass_(self, seconds: float, *, share: float) -> None:
        """Let time pass. The thread works for this share of it."""
        self.now_s += seconds
        self.worked_s += seconds * share

    def shards(self, *, shard_nbytes: int = 32 * MIB, decodes: bool = True) -> ShardsInFlight:
        """Return what is tested."""
        return ShardsInFlight(
            shard_nbytes=shard_nbytes,
            decodes=decodes,
            clock=lambda: self.now_s,
            work_clock=lambda: self.worked_s,
        )


def limits(clocks: Clocks, shards: ShardsInFlight, ends: Sequence[tuple[float, float]]) -> list[int]:
    """End shards, each some seconds after the one before, with a thread so busy. Return the limits."""

    async def run() -> list[int]:
        found = []
        for seconds, share in ends:
            async with shards:
                clocks.pass_(seconds, share=share)
            found.append(shards.limit)
        return found

    return asyncio.run(run())


def test_waiting_threads_get_more_shards() -> None:
    """The first shard tells nothing: it began when nothing was in flight."""
    clocks = Clocks()

    assert limits(clocks, clocks.shards(), [(1, 0.1)] + 4 * [(1, 0.74)]) == [2, 3, 4, 4, 4]


def test_busy_threads_get_no_more_shards() -> None:
    """More shards would only take memory."""
    clocks = Clocks()

    assert limits(clocks, clocks.shards(), [(1, 0.0)] + 20 * [(1, 0.76), (1, 1.0)]) == 41 * [2]


def test_threads_that_never_wait_get_fewer_shards_after_a_while() -> None:
    """Eight times in a row. Then it is found out again whether two are enough."""
    clocks = Clocks()
    shards = clocks.shards()

    assert limits(clocks, shards, [(1, 0), (1, 0.1), (1, 0.1)] + 7 * [(1, 0.98)]) == [2, 3] + 8 * [4]
    assert limits(clocks, shards, [(1, 0.96)] + 8 * [(1, 0.98)]) == 8 * [4] + [3]
    assert limits(clocks, shards, 17 * [(1, 1)]) == 7 * [3] + 10 * [2]


def test_short_shards_are_measured_together() -> None:
    """A tenth of a second tells little, so three of them count as one."""
    clocks = Clocks()

    found = limits(clocks, clocks.shards(), [(1, 0), (0.1, 0.2), (0.1, 0.2), (0.1, 0.2), (0.1, 0), (0.2, 0)])

    assert found == [2, 2, 2, 3, 3, 4]


def test_shards_that_are_not_decoded_are_many_at_once() -> None:
    """The threads have next to nothing to do."""
    clocks = Clocks()

    assert limits(clocks, clocks.shards(decodes=False), 3 * [(1, 0.1)]) == [4, 4, 4]
    assert limits(clocks, clocks.shards(decodes=False, shard_nbytes=64 * MIB), [(1, 0.1)]) == [2]


@pytest.mark.parametrize(("mib", "most"), [(1, 4), (32, 4), (33, 3), (43, 2), (64, 2), (400, 2)])
def test_large_shards_stay_few(mib: int, most: int) -> None:
    """More than two take at most 128 MiB."""
    clocks = Clocks()

    assert limits(clocks, clocks.shards(shard_nbytes=mib * MIB), 6 * [(1, 0.1)])[-1] == most


@in_loop
async def test_as_many_are_admitted_as_the_limit_says() -> None:
    """Others wait, also after the limit has fallen, and after an error."""
    clocks = Clocks()
    shards = clocks.shards()
    inside: list[int] = []

    ends = [asyncio.Event() for _ in range(24)]

    async def one(number: int) -> None:
        async with shards:
            inside.append(number)
            await ends[number].wait()
            inside.remove(number)
            if number == 1:
                raise OSError

    works = [asyncio.ensure_future(one(number)) for number in range(24)]
    found = []
    for number, share in enumerate([0.1, 0.1, 0.1] + 16 * [1.0]):
        await asyncio.sleep(0)
        clocks.pass_(1, share=share)
        ends[number].set()
        for _ in range(5):
            await asyncio.sleep(0)
        found.append(len(inside))
    for event in ends:
        event.set()
    await asyncio.gather(*works, return_exceptions=True)
    assert found == [2, 3] + 8 * [4] + 8 * [3] + [2]
    assert inside == []
