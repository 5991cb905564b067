"""More shards are in flight while the cores have time left."""

import asyncio
from collections.abc import Sequence

import pytest

from pixel_gather.local.shards_in_flight import ShardsInFlight

MIB = 2**20


class Clocks:
    """Seconds that pass, and seconds of CPU time that they took."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.cpu_s = 7.0

    def pass_(self, seconds: float, *, busy: float) -> None:
        """Let time pass. ``busy`` is the share of the two cores that was used."""
        self.now_s += seconds
        self.cpu_s += 2 * seconds * busy

    def shards(self, *, shard_nbytes: int = 32 * MIB) -> ShardsInFlight:
        """Return what is tested."""
        return ShardsInFlight(
            shard_nbytes=shard_nbytes, clock=lambda: self.now_s, cpu_clock=lambda: self.cpu_s, n_cores=2
        )


def limits(clocks: Clocks, shards: ShardsInFlight, ends: Sequence[tuple[float, float]]) -> list[int]:
    """End shards, each some seconds after the one before, with the cores so busy. Return the limits."""

    async def run() -> list[int]:
        found = []
        for seconds, busy in ends:
            async with shards:
                clocks.pass_(seconds, busy=busy)
            found.append(shards.limit)
        return found

    return asyncio.run(run())


def test_idle_cores_get_more_shards() -> None:
    """The first shard tells nothing: it began when nothing was in flight."""
    clocks = Clocks()

    assert limits(clocks, clocks.shards(), [(1, 0.1)] + 4 * [(1, 0.76)]) == [2, 3, 4, 4, 4]


def test_busy_cores_get_no_more_shards() -> None:
    """In between nothing changes."""
    clocks = Clocks()

    found = limits(clocks, clocks.shards(), [(1, 0), (1, 0.78), (1, 0.6), (1, 0.84), (1, 0.86), (1, 0.9)])

    assert found == [2, 2, 3, 3, 2, 2]


def test_short_shards_are_measured_together() -> None:
    """A tenth of a second tells little, so three of them count as one."""
    clocks = Clocks()

    found = limits(
        clocks, clocks.shards(), [(1, 0), (0.1, 0.2), (0.1, 0.2), (0.1, 0.2), (0.1, 0.9), (0.2, 1)]
    )

    assert found == [2, 2, 2, 3, 3, 2]


@pytest.mark.parametrize(("mib", "most"), [(1, 4), (32, 4), (33, 3), (43, 2), (64, 2), (400, 2)])
def test_large_shards_stay_few(mib: int, most: int) -> None:
    """More than two take at most 128 MiB."""
    clocks = Clocks()

    assert limits(clocks, clocks.shards(shard_nbytes=mib * MIB), 6 * [(1, 0.1)])[-1] == most


def test_as_many_are_admitted_as_the_limit_says() -> None:
    """Others wait, also after the limit has fallen, and after an error."""
    clocks = Clocks()
    shards = clocks.shards()
    inside: list[int] = []

    async def run() -> list[int]:
        ends = [asyncio.Event() for _ in range(12)]

        async def one(number: int) -> None:
            async with shards:
                inside.append(number)
                await ends[number].wait()
                inside.remove(number)
                if number == 1:
                    raise OSError

        works = [asyncio.ensure_future(one(number)) for number in range(12)]
        found = []
        for number, busy in enumerate([0.1, 0.1, 0.1, 0.9, 0.9, 0.9]):
            await asyncio.sleep(0)
            clocks.pass_(1, busy=busy)
            ends[number].set()
            for _ in range(5):
                await asyncio.sleep(0)
            found.append(len(inside))
        for event in ends:
            event.set()
        await asyncio.gather(*works, return_exceptions=True)
        return found

    assert asyncio.run(run()) == [2, 3, 4, 3, 2, 2]
    assert inside == []
