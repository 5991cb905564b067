"""The tasks of one round of a table in a distributed map: cut, committed and looked for.

Before a round, one function writes the scenes of all its tasks as one file, then the state of the round,
which names the tasks. Each worker reads the bytes of its task and writes one sidecar, which commits the task.
After the round, one function reads the sidecars.

The function may be called twice at once, and the two calls may cut the scenes into different tasks. Then the
state that is written first counts. The second call takes it and drops its own. So every sidecar that is read
belongs to a task of that state.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, Protocol

import xxhash
from msgspec import Struct

from pixel_gather.core.stores import ControlStore, decode_json, needed_file, unpack
from pixel_gather.core.task_group import all_of
from pixel_gather.tables.table_receipt import RESULT_KEY

MOST_TRIES: Final = 2
"""Scenes whose worker was lost are read again, each by a worker of its own."""

LOST: Final = "its worker failed at every try, also when it read no other scene"

_STATE: Final = "state"
"""The file of a round that is written last. Who finds it finds the others."""

_AHEAD: Final = 32

_LONGEST_ATTEMPT_S: Final = 14 * 86_400
"""How long after its beginning an attempt is continued. A redrive is possible for as long.

Control files expire one by one after a month, so an older attempt may lack some.
"""


class MapTask(Struct, frozen=True, kw_only=True):
    """Scenes that one worker reads."""

    index: int
    """From 0 in its round."""

    start: int
    """First byte of its scenes in the round's file."""

    stop: int
    """The byte after the last."""

    scenes_key: str
    """Key of that file. It tells what is in the file, and how it is cut. So nothing else is written there."""


class _Noted(Struct, frozen=True, kw_only=True):
    """The result of a table that was written."""

    started_at: float
    """When the attempt was begun that wrote it, in seconds since 1970-01-01 UTC."""

    result: dict[str, Any]


def state_key(number: int) -> str:
    """Return the key of a round's state, among the table's control files."""
    return f"rounds/{number}/{_STATE}"


def round_files(control: ControlStore, number: int) -> ControlStore:
    """Return the store of a round's files."""
    return control.below(f"rounds/{number}")


async def begin_round(
    files: ControlStore,
    parts: Sequence[bytes],
    state_of: Callable[[list[MapTask]], bytes],
    *,
    started_at: float,
) -> bytes:
    """Write the scenes of a round, then its state. If another call has written a state, that one stays.

    Args:
        files: The store of the round's files.
        parts: The scenes, one part for each task.
        state_of: Takes the tasks and returns the state to write.
        started_at: When the attempt was begun. It is part of the tasks' keys. So sidecars of an older
            attempt do not count for these tasks.

    Returns:
        The state that counts. It is that of another call if that call was first.
    """
    whole, edges = b"".join(parts), [0, *accumulate(map(len, parts))]
    digest = xxhash.xxh3_128(json.dumps([started_at, edges]).encode())
    digest.update(whole)
    key = f"scenes-{digest.hexdigest()}"
    tasks = [
        MapTask(index=index, start=start, stop=stop, scenes_key=key)
        for index, (start, stop) in enumerate(pairwise(edges))
    ]
    await files.put(key, whole)
    state = state_of(tasks)
    return state if await files.put_new(_STATE, state) else await round_state(files)


async def find_round(files: ControlStore) -> bytes | None:
    """Return the state of a round; None if it was not begun."""
    return await files.get(_STATE)


async def round_state(files: ControlStore) -> bytes:
    """Return the state of a round that was begun."""
    return await needed_file(files, _STATE)


class RoundState(Protocol):
    """What the states of the rounds of all kinds of tables have."""

    number: int
    """Of the round."""

    tasks: list[MapTask]
    first: int
    """Number of the table's first round."""

    started_at: float
    """When the table was begun, in seconds since 1970-01-01 UTC."""

    removals: int
    """How often the table had been removed when it was begun."""


def goes_on(state: RoundState, *, now_s: float, removals: int) -> bool:
    """Return whether an attempt is continued. If it is too old, or the table was removed, a new one is begun.

    Args:
        state: Of the attempt.
        now_s: Seconds since 1970-01-01 UTC.
        removals: How often the table was removed until now.
    """
    return now_s - state.started_at < _LONGEST_ATTEMPT_S and state.removals == removals


async def keep_result(state: RoundState, control: ControlStore, result: Mapping[str, Any]) -> None:
    """Note the result of a table that is written.

    The note lies in the folder of the table's first round. If somebody removes the table, the note stays. So
    a later request knows that the table was removed.
    """
    content = {"started_at": state.started_at, "result": result}
    await round_files(control, state.first).put(RESULT_KEY, json.dumps(content).encode())


async def result_of(state: RoundState, control: ControlStore) -> dict[str, Any] | None:
    """Return the result that was noted for the table of this state; None if none was."""
    content = await round_files(control, state.first).get(RESULT_KEY)
    if content is None:
        return None
    noted = decode_json(content, _Noted, key=f"rounds/{state.first}/{RESULT_KEY}")
    return noted.result if noted.started_at == state.started_at else None


async def last_attempt[State: RoundState](
    control: ControlStore, load: Callable[[ControlStore, int], Awaitable[State]]
) -> tuple[State | None, dict[str, Any] | None]:
    """Return the state of the last round that was begun, and the result that was noted for its table.

    Each is None if there is none.

    Args:
        control: The table's control files.
        load: Returns the state of a round, by its number.
    """
    number = await _last_round(control)
    if number is None:
        return None, None
    state = await load(control, number)
    return state, await result_of(state, control)


async def read_task(task: MapTask, files: ControlStore) -> bytes | None:
    """Return the scenes of a task; None if it is committed."""
    if await files.get(sidecar_key(task)) is not None:
        return None
    return await task_scenes(task, files)


async def task_scenes(task: MapTask, files: ControlStore) -> bytes:
    """Return the scenes of a task, as `begin_round` took them."""
    return await files.get_range(task.scenes_key, task.start, task.stop)


def unpack_scenes[T](content: bytes, type_: type[T], number: int) -> T:
    """Return the scenes of a task of a round.

    Raises:
        StoreError: The scenes are damaged. The message names the file of the round's state to be removed. If
            it is removed, a new call writes both files again.
    """
    return unpack(content, type_, key=state_key(number))


async def commit_task(task: MapTask, files: ControlStore, sidecar: bytes) -> bool:
    """Commit a task by its sidecar. Return False if another worker has committed the task before."""
    return await files.put_new(sidecar_key(task), sidecar)


async def read_sidecars(files: ControlStore, tasks: Iterable[MapTask]) -> list[bytes]:
    """Return the sidecars of committed tasks, in the order of the tasks."""
    wanted = (needed_file(files, sidecar_key(task)) for task in tasks)
    return await all_of(wanted, at_once=_AHEAD)


async def committed_tasks(tasks: Sequence[MapTask], files: ControlStore) -> list[MapTask]:
    """Return the tasks of a round that are committed, in their order."""
    if not tasks:
        return []
    there = await files.list_(_sidecars(tasks[0].scenes_key))
    return [task for task in tasks if sidecar_key(task) in there]


async def missing_tasks(tasks: Sequence[MapTask], files: ControlStore) -> list[MapTask]:
    """Return the tasks of a round that are not committed."""
    done = set(await committed_tasks(tasks, files))
    return [task for task in tasks if task not in done]


async def _last_round(control: ControlStore) -> int | None:
    """Return the number of the last round that was begun; None if there is none."""
    written = [key.split("/") for key in await control.list_("rounds/")]
    return max((int(parts[1]) for parts in written if parts[2:] == [_STATE]), default=None)


def sidecar_key(task: MapTask) -> str:
    """Return the key of a task's sidecar, in the store of its round."""
    return f"{_sidecars(task.scenes_key)}{task.index}"


def _sidecars(scenes_key: str) -> str:
    """Return the folder of the sidecars of a cut."""
    return f"measured/{scenes_key}/"
