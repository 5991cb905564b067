"""The tasks of one round of a table in a distributed map: cut, committed and looked for.

Before a round, one function writes the scenes of all its tasks as one file, then the state of the round,
which names the tasks. Each worker reads the bytes of its task and writes one sidecar, which commits the task.
After the round, one function reads the sidecars.

The function may be called twice at once, and cut the scenes differently each time. The state that is written
first counts for both, so a sidecar is always of the tasks of the state.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import xxhash
from msgspec import Struct

from pixel_gather.core.stores import ControlStore, needed_file
from pixel_gather.core.task_group import all_of

MOST_TRIES: Final = 2
"""Scenes whose worker was lost are read again, each by a worker of its own."""

LOST: Final = "its worker failed at every try, also when it read no other scene"

_STATE: Final = "state"
"""The file of a round that is written last. Who finds it finds the others."""

_SIDECARS: Final = "measured"
_AHEAD: Final = 32


class MapTask(Struct, frozen=True, kw_only=True):
    """Scenes that one worker reads."""

    index: int
    """From 0 in its round."""

    start: int
    """First byte of its scenes in the round's file."""

    stop: int
    """The byte after the last."""

    scenes: str
    """Key of that file. It tells what is in it, so it is never written over with something else."""


def round_files(control: ControlStore, number: int) -> ControlStore:
    """Return the store of a round's files."""
    return control.below(f"rounds/{number}")


async def begin_round(
    files: ControlStore, parts: Sequence[bytes], state_of: Callable[[list[MapTask]], bytes]
) -> bytes:
    """Write the files of a round, unless another call has begun it.

    Args:
        files: Of the round.
        parts: The scenes of each task.
        state_of: Returns the state with the tasks.

    Returns:
        The state of the round: of this call, or of the one that was first.
    """
    whole = b"".join(parts)
    key, tasks, stop = f"scenes-{xxhash.xxh3_128(whole).hexdigest()}", [], 0
    for index, part in enumerate(parts):
        tasks.append(MapTask(index=index, start=stop, stop=stop + len(part), scenes=key))
        stop += len(part)
    await files.put(key, whole)
    state = state_of(tasks)
    return state if await files.put_new(_STATE, state) else await round_state(files)


async def begun_round(files: ControlStore) -> bytes | None:
    """Return the state of a round; None if it was not begun."""
    return await files.get(_STATE)


async def round_state(files: ControlStore) -> bytes:
    """Return the state of a round that was begun."""
    return await needed_file(files, _STATE)


async def read_task(task: MapTask, files: ControlStore) -> bytes | None:
    """Return the scenes of a task; None if it is committed."""
    if await files.get(_sidecar(task.index)) is not None:
        return None
    return await task_scenes(task, files)


async def task_scenes(task: MapTask, files: ControlStore) -> bytes:
    """Return the scenes of a task, as `begin_round` took them."""
    return await files.get_range(task.scenes, task.start, task.stop)


async def commit_task(task: MapTask, files: ControlStore, sidecar: bytes) -> bool:
    """Commit a task by its sidecar. Return False if another worker has committed the task before."""
    return await files.put_new(_sidecar(task.index), sidecar)


async def read_sidecars(files: ControlStore, indexes: Iterable[int]) -> list[bytes]:
    """Return the sidecars of committed tasks, in the order of their indexes."""
    gate = asyncio.Semaphore(_AHEAD)

    async def load(index: int) -> bytes:
        async with gate:
            return await needed_file(files, _sidecar(index))

    return list(await all_of(load(index) for index in sorted(indexes)))


async def committed_tasks(files: ControlStore) -> frozenset[int]:
    """Return the indexes of the tasks of a round that are committed."""
    return frozenset(int(key.rpartition("/")[2]) for key in await files.list_(f"{_SIDECARS}/"))


async def missing_tasks(tasks: Iterable[MapTask], files: ControlStore) -> list[MapTask]:
    """Return the tasks of a round that are not committed."""
    done = await committed_tasks(files)
    return [task for task in tasks if task.index not in done]


async def last_round(control: ControlStore) -> int | None:
    """Return the number of the last round that was begun; None if there is none."""
    written = [key.split("/") for key in await control.list_("rounds/")]
    return max((int(parts[1]) for parts in written if parts[2:] == [_STATE]), default=None)


def _sidecar(index: int) -> str:
    return f"{_SIDECARS}/{index}"
