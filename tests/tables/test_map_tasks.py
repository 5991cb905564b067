"""Tasks of a round, in memory: what two calls at once cut and commit."""

import asyncio

import msgspec

from pixel_gather.tables.map_tasks import MapTask, begin_round, commit_task, read_sidecars, task_scenes
from support.fakes import FakeControl


def state_of(tasks: list[MapTask]) -> bytes:
    """Return a state that names the tasks."""
    return msgspec.json.encode(tasks)


def tasks_of(state: bytes) -> list[MapTask]:
    """Return the tasks that a state names."""
    return msgspec.json.decode(state, type=list[MapTask])


def test_other_scenes_of_the_same_length_leave_those_of_the_state_that_counts() -> None:
    """Two calls at once may have read another version of the list. The first state counts for both."""
    files = FakeControl()

    async def run() -> list[bytes]:
        first = await begin_round(files, [b"one", b"two"], state_of, started_at=1.0)
        second = await begin_round(files, [b"six", b"ten"], state_of, started_at=1.0)
        assert first == second
        return [await task_scenes(task, files) for task in tasks_of(second)]

    assert asyncio.run(run()) == [b"one", b"two"]


def test_the_worker_that_commits_a_task_first_is_the_one() -> None:
    """What a second one has measured is dropped, and it is told so."""
    files = FakeControl()

    async def run() -> tuple[list[bool], list[bytes]]:
        (task,) = tasks_of(await begin_round(files, [b"scenes"], state_of, started_at=1.0))
        committed = [await commit_task(task, files, sidecar) for sidecar in (b"first", b"second")]
        return committed, await read_sidecars(files, [task])

    assert asyncio.run(run()) == ([True, False], [b"first"])
