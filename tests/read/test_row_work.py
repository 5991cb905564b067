"""Work on groups of rows, while others are read."""

import asyncio
from collections.abc import Sequence

import pytest

from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.model.status import Status
from pixel_gather.core.read.row_work import RowWork
from support.in_loop import in_loop


@in_loop
async def test_work_on_a_group_starts_when_all_of_its_sources_are_there() -> None:
    """Two groups of two rows and one of a single row, each source of which ends in its own time."""
    done: list[tuple[int, list[list[str | None]]]] = []

    async def work(start: int, rows: Sequence[Sequence[Outcome]]) -> None:
        done.append((start, [[each.reason for each in row] for row in rows]))

    async with RowWork(n_slots=2, stops=[2, 4, 5], work=work) as rows:
        for row, slot in ((2, 0), (0, 1), (3, 1), (4, 0), (3, 0), (4, 1), (2, 1), (1, 0), (1, 1)):
            rows.note(row, slot, Outcome(status=Status.OK, reason=f"{row} {slot}"))
        await asyncio.sleep(0)
        assert [start for start, _ in done] == [4, 2]
        rows.note(0, 0, Outcome(status=Status.OK, reason="0 0"))
        await rows.ended()

    assert done == [
        (4, [["4 0", "4 1"]]),
        (2, [["2 0", "2 1"], ["3 0", "3 1"]]),
        (0, [["0 0", "0 1"], ["1 0", "1 1"]]),
    ]


def test_work_ends_with_its_shard() -> None:
    """If reading fails, nothing works on the pixels any longer. An error of the work is raised."""
    events: list[str] = []

    async def work(start: int, _: Sequence[Sequence[Outcome]]) -> None:
        try:
            if start:
                raise ValueError("no memory")
            await asyncio.sleep(10)
        finally:
            events.append(f"{start} ended")

    async def read(*, fails: bool) -> None:
        async with RowWork(n_slots=1, stops=[1, 2], work=work) as rows:
            rows.note(0, 0, Outcome(status=Status.OK))
            rows.note(1, 0, Outcome(status=Status.OK))
            await asyncio.sleep(0)
            if fails:
                raise OSError("unread")
            await rows.ended()

    for fails, error in ((True, OSError), (False, ValueError)):
        with pytest.raises(error):
            asyncio.run(read(fails=fails))
        assert sorted(events) == ["0 ended", "1 ended"]
        events.clear()


@in_loop
async def test_work_has_ended_when_the_shard_has() -> None:
    """Its pixels' memory is used again at once."""
    ended = []

    async def work(start: int, _: Sequence[Sequence[Outcome]]) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ended.append(start)

    async with RowWork(n_slots=1, stops=[1], work=work) as rows:
        rows.note(0, 0, Outcome(status=Status.OK))
        await asyncio.sleep(0)
    assert ended == [0]
