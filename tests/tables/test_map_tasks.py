"""Tasks of a round, in memory: what two calls at once cut and commit."""

import msgspec
import pytest

from pixel_gather.tables.map_tasks import (
    MapTask,
    begin_round,
    commit_task,
    committed_tasks,
    read_sidecars,
    task_scenes,
)
from support.fakes import FakeControl
from support.in_loop import in_loop


def state_of(tasks: list[MapTask]) -> bytes:
    """Return a state that names the tasks."""
    return msgspec.json.encode(tasks)


def tasks_of(state: bytes) -> list[MapTask]:
    """Return the tasks that a state names."""
    return msgspec.json.decode(state, type=list[MapTask])


@in_loop
async def test_other_scenes_of_the_same_length_leave_those_of_the_state_that_counts() -> None:
    """Two calls at once may have read another version of the list. The first state counts for both."""
    files = FakeControl()

    first = await begin_round(files, [b"one", b"two"], state_of, started_at=1.0)
    second = await begin_round(files, [b"six", b"ten"], state_of, started_at=1.0)
    assert first == second
    assert [await task_scenes(task, files) for task in tasks_of(second)] == [b"one", b"two"]


@in_loop
async def test_the_worker_that_commits_a_task_first_is_the_one() -> None:
    """What a second one has measured is dropped, and it is told so."""
    files = FakeControl()

    (task,) = tasks_of(await begin_round(files, [b"scenes"], state_of, started_at=1.0))
    committed = [await commit_task(task, files, sidecar) for sidecar in (b"first", b"second")]
    assert (committed, await read_sidecars(files, [task])) == ([True, False], [b"first"])


@pytest.mark.parametrize(
    ("scenes", "started_at", "n_committed"),
    [([b"one", b"two"], 1.0, 1), ([b"one", b"two"], 2.0, 0), ([b"on", b"etwo"], 1.0, 0)],
    ids=["same", "later attempt", "other cut"],
)
@in_loop
async def test_what_was_measured_counts_for_the_same_tasks_of_the_same_attempt(
    scenes: list[bytes], started_at: float, n_committed: int
) -> None:
    """The state of a round has expired, and the sidecar of its first task has not."""
    files = FakeControl()

    first, _ = tasks_of(await begin_round(files, [b"one", b"two"], state_of, started_at=1.0))
    await commit_task(first, files, b"measured")
    del files.files["state"]
    tasks = tasks_of(await begin_round(files, scenes, state_of, started_at=started_at))
    assert len(await committed_tasks(tasks, files)) == n_committed
