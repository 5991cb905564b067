"""A large ranking between the rounds of a distributed map: its state, its tasks and their results.

Before each round, one function writes the state and the scenes to be read. Each worker reads the scenes of
its task and writes one sidecar. After the round, one function merges the sidecars and decides the next round.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import msgspec

from pixel_gather.core.errors import StoreError
from pixel_gather.core.model.status import Status
from pixel_gather.core.stores import ControlStore, needed_file
from pixel_gather.core.task_group import all_of
from pixel_gather.features.rank.map_plan import usd_of_round
from pixel_gather.features.rank.rounds import RankedScene, Rounds, Wanted

_STATE: Final = "state"
_SIDECARS: Final = "measured"
_AHEAD: Final = 32
_MOST_TRIES: Final = 2
_LOST: Final = "its worker failed at every try, also when it read no other scene"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTask:
    """Scenes that one worker reads."""

    index: int
    """From 0 in its round."""

    start: int
    """First byte of its scenes in the round's file."""

    stop: int
    """The byte after the last."""


class _Position(msgspec.Struct, array_like=True, frozen=True):
    """A scene of a task."""

    at: int
    """Its place in `MapState.scenes`."""

    step: int | None
    ranked: RankedScene


class _Sidecar(msgspec.Struct):
    scenes: list[tuple[int, RankedScene]]
    worker_s: float


@dataclass(slots=True, kw_only=True)
class MapState:
    """A large ranking at the start of one round."""

    number: int = 0
    """Number of the round, from 0."""

    scenes: list[RankedScene]
    """All of them, in the list's order."""

    wanted: list[tuple[int, int | None]] = field(default_factory=list)
    """What the round reads: places in ``scenes``, and steps."""

    tasks: list[RankTask] = field(default_factory=list)
    n_tries: int = 1
    """2 where the round reads again, one by one, the scenes whose worker was lost."""

    notes: list[str] = field(default_factory=list)
    execution: str
    """Name of the state machine's execution that works on it."""

    started_at: float
    """Seconds since 1970-01-01 UTC."""

    usd: float = 0.0
    """Spent so far besides the requests for sources."""


type Measure = Callable[[Sequence[Wanted], Callable[[RankedScene], None]], Awaitable[None]]
"""Measures scenes, and tells of each when it is done."""


async def write_round(state: MapState, control: ControlStore, *, n_tasks: int) -> None:
    """Cut what a round reads into tasks, and write its files. The state comes last.

    Args:
        state: ``tasks`` is replaced.
        control: The ranking's control files.
        n_tasks: At most the number of scenes that the round reads.
    """
    edges = [len(state.wanted) * each // n_tasks for each in range(n_tasks + 1)]
    parts = [
        msgspec.msgpack.encode(
            [_Position(at, step, state.scenes[at]) for at, step in state.wanted[start:stop]]
        )
        for start, stop in pairwise(edges)
    ]
    state.tasks, stop = [], 0
    for index, part in enumerate(parts):
        state.tasks.append(RankTask(index=index, start=stop, stop=stop + len(part)))
        stop += len(part)
    files = _files(control, state.number)
    await files.put("scenes", b"".join(parts))
    await files.put(_STATE, msgspec.msgpack.encode(state))


async def load_round(control: ControlStore, number: int) -> MapState:
    """Return the state that `write_round` wrote."""
    return msgspec.msgpack.decode(await needed_file(_files(control, number), _STATE), type=MapState)


async def last_round(control: ControlStore) -> int | None:
    """Return the number of the last round that was written; None if there is none."""
    written = [key.split("/") for key in await control.list_("rounds/")]
    return max((int(parts[1]) for parts in written if parts[2:] == [_STATE]), default=None)


async def missing_tasks(state: MapState, control: ControlStore) -> list[RankTask]:
    """Return the tasks of a round that have no sidecar."""
    done = await _committed(_files(control, state.number))
    return [task for task in state.tasks if task.index not in done]


async def measure_task(
    task: RankTask, control: ControlStore, number: int, *, measure: Measure, longest_s: float
) -> int | None:
    """Measure the scenes of one task and write its sidecar. Safe to run twice.

    Args:
        task: One task of a round.
        control: The ranking's control files.
        number: The round's.
        measure: Reads the scenes.
        longest_s: Scenes that were not read within this time get the status timed out.

    Returns:
        How many scenes were measured; None if the task has its sidecar already.
    """
    files, began = _files(control, number), time.monotonic()
    if await files.get(_sidecar_key(task.index)) is not None:
        return None
    content = await files.get_range("scenes", task.start, task.stop)
    positions = msgspec.msgpack.decode(content, type=list[_Position])
    done: set[int] = set()
    try:
        async with asyncio.timeout(longest_s):
            wanted = [Wanted(each.ranked, each.step) for each in positions]
            await measure(wanted, lambda ranked: done.add(id(ranked)))
    except TimeoutError:
        for each in positions:
            if id(each.ranked) not in done:
                each.ranked.fail(Status.TIMED_OUT, f"not read within the {longest_s:.0f} s of its worker")
    sidecar = _Sidecar([(each.at, each.ranked) for each in positions], time.monotonic() - began)
    await files.put(_sidecar_key(task.index), msgspec.msgpack.encode(sidecar))
    return len(positions)


async def merged(state: MapState, control: ControlStore) -> tuple[MapState, list[int]]:
    """Return the state after a round, and the places of the scenes that it has read.

    Raises:
        StoreError: No worker has finished any task, so the workers cannot read at all.
    """
    files = _files(control, state.number)
    done = await _committed(files)
    was_last_try = state.n_tries == _MOST_TRIES
    if was_last_try and not done and all(each.measured is None for each in state.scenes):
        raise StoreError("every worker failed, so no scene was read. Their log says why. Then rank again")
    gate = asyncio.Semaphore(_AHEAD)

    async def load(index: int) -> _Sidecar:
        async with gate:
            content = await needed_file(files, _sidecar_key(index))
        return msgspec.msgpack.decode(content, type=_Sidecar)

    scenes, read, worker_s = list(state.scenes), [], 0.0
    for sidecar in await all_of(load(index) for index in sorted(done)):
        worker_s += sidecar.worker_s
        for at, ranked in sidecar.scenes:
            scenes[at] = ranked
            read.append(at)
    usd = state.usd + usd_of_round(worker_s=worker_s, n_tasks=len(state.tasks))
    return replace(state, scenes=scenes, usd=usd), read


def next_round(state: MapState, read: Sequence[int], rounds: Rounds) -> MapState:
    """Return the round after a merged one. It wants nothing if the ranking is decided.

    Scenes whose worker was lost are read again first, each by a worker of its own. Those that are lost again
    get the status lost.

    Args:
        state: What `merged` has returned. Its scenes are changed.
        read: Places of the scenes that the round has read.
        rounds: Decides, with the statistics that are kept.
    """
    there = set(read)
    lost = [(at, step) for at, step in state.wanted if at not in there]
    following = replace(state, number=state.number + 1, wanted=[], tasks=[], n_tries=1)
    if lost and state.n_tries < _MOST_TRIES:
        return replace(following, wanted=lost, n_tries=state.n_tries + 1)
    for at, _ in lost:
        state.scenes[at].fail(Status.LOST, _LOST)
    return replace(following, wanted=wanted_of(following.scenes, rounds))


def wanted_of(scenes: Sequence[RankedScene], rounds: Rounds) -> list[tuple[int, int | None]]:
    """Return what has to be read next, by places."""
    places = {id(each): at for at, each in enumerate(scenes)}
    return [(places[id(each.ranked)], each.step) for each in rounds.wanted(scenes)]


def _files(control: ControlStore, number: int) -> ControlStore:
    return control.below(f"rounds/{number}")


def _sidecar_key(index: int) -> str:
    return f"{_SIDECARS}/{index}"


async def _committed(files: ControlStore) -> frozenset[int]:
    return frozenset(int(key.rpartition("/")[2]) for key in await files.list_(f"{_SIDECARS}/"))
