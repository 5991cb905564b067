"""A large ranking between the rounds of a distributed map: its state, its tasks and their results.

After each round, one function merges what the workers have measured and decides the next round.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from copy import replace
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec

from pixel_gather.core.errors import StoreError
from pixel_gather.core.model.status import Status
from pixel_gather.core.stores import ControlStore, unpack
from pixel_gather.features.rank.choose_reads import RankedScene, Rounds, WantedRead
from pixel_gather.tables.map_round import usd_of_round
from pixel_gather.tables.map_tasks import (
    LOST,
    MOST_TRIES,
    MapTask,
    begin_round,
    commit_task,
    committed_tasks,
    read_sidecars,
    read_task,
    round_files,
    round_state,
    sidecar_key,
    state_key,
    unpack_scenes,
)


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
    """Number of the round."""

    first: int = 0
    """Number of the first round: 0, or more if former rounds are of a ranking that was removed."""

    scenes: list[RankedScene]
    """All of them, in the list's order."""

    wanted: list[tuple[int, int | None]] = field(default_factory=list)
    """What the round reads: places in ``scenes``, and steps."""

    tasks: list[MapTask] = field(default_factory=list)
    n_tries: int = 1
    """2 where the round reads again, one by one, the scenes whose worker was lost."""

    notes: list[str] = field(default_factory=list)
    started_at: float
    """Seconds since 1970-01-01 UTC."""

    removals: int = 0
    """How often the ranking had been removed when this attempt was begun."""

    seconds: float = 0.0
    """From the start of the ranking until the round was begun."""

    usd: float = 0.0
    """Spent so far besides the requests for sources."""


type Measure = Callable[[Sequence[WantedRead], Callable[[RankedScene], None]], Awaitable[None]]
"""Measures scenes, and tells of each when it is done."""


async def write_round(state: MapState, control: ControlStore, *, n_tasks: int) -> MapState:
    """Cut what a round reads into tasks, and write its files, unless another call has begun the round.

    There are at most as many tasks as scenes to read. The last round of a ranking has none.

    Returns:
        The state of the round, which has its tasks. It may be that of the other call.
    """
    edges = [len(state.wanted) * each // max(n_tasks, 1) for each in range(n_tasks + 1)]
    parts = [
        msgspec.msgpack.encode(
            [_Position(at, step, state.scenes[at]) for at, step in state.wanted[start:stop]]
        )
        for start, stop in pairwise(edges)
    ]
    content = await begin_round(
        round_files(control, state.number),
        parts,
        lambda tasks: msgspec.msgpack.encode(replace(state, tasks=tasks)),
        started_at=state.started_at,
    )
    return unpack(content, MapState, key=state_key(state.number))


async def load_round(control: ControlStore, number: int) -> MapState:
    """Return the state that `write_round` wrote."""
    content = await round_state(round_files(control, number))
    return unpack(content, MapState, key=state_key(number))


async def measure_task(
    task: MapTask, control: ControlStore, number: int, *, measure: Measure, longest_s: float
) -> int | None:
    """Measure the scenes of one task and write its sidecar. Safe to run twice.

    Scenes that were not read within ``longest_s`` get the status timed out.

    Returns:
        How many scenes were measured; None if the task has its sidecar already.
    """
    files, began = round_files(control, number), time.monotonic()
    content = await read_task(task, files)
    if content is None:
        return None
    positions = unpack_scenes(content, list[_Position], number)
    done: set[int] = set()
    try:
        async with asyncio.timeout(longest_s):
            wanted = [WantedRead(each.ranked, each.step) for each in positions]
            await measure(wanted, lambda ranked: done.add(id(ranked)))
    except TimeoutError:
        for each in positions:
            if id(each.ranked) not in done:
                each.ranked.fail(Status.TIMED_OUT, f"not read within the {longest_s:.0f} s of its worker")
    sidecar = _Sidecar([(each.at, each.ranked) for each in positions], time.monotonic() - began)
    await commit_task(task, files, msgspec.msgpack.encode(sidecar))
    return len(positions)


async def merge_round(state: MapState, control: ControlStore) -> tuple[MapState, list[int]]:
    """Return the state after a round, and the scenes that were read, by their places in `MapState.scenes`.

    A worker of the previous round may be late. If this round loses the same scene again, what that worker has
    read counts.

    Raises:
        StoreError: No worker has finished a task, neither in the first round nor in the second. So the
            workers cannot read at all.
    """
    sidecars = await _sidecars(state, control)
    found = {at: ranked for each in sidecars for at, ranked in each.scenes}
    lost = {at for at, _ in state.wanted} - found.keys()
    if lost and state.n_tries > 1:
        late = await _sidecars(await load_round(control, state.number - 1), control)
        found |= {at: ranked for each in late for at, ranked in each.scenes if at in lost}
        if not sidecars and not late and state.number == state.first + 1:
            raise StoreError("every worker failed, so no scene was read. Their log says why. Then rank again")
    scenes = [found.get(at, each) for at, each in enumerate(state.scenes)]
    worker_s = sum(each.worker_s for each in sidecars)
    usd = state.usd + usd_of_round(worker_s=worker_s, n_tasks=len(state.tasks))
    return replace(state, scenes=scenes, usd=usd), list(found)


async def _sidecars(state: MapState, control: ControlStore) -> list[_Sidecar]:
    """Return what the workers of a round have read so far."""
    files = round_files(control, state.number)
    tasks = await committed_tasks(state.tasks, files)
    keys = [f"rounds/{state.number}/{sidecar_key(task)}" for task in tasks]
    contents = await read_sidecars(files, tasks)
    return [unpack(each, _Sidecar, key=key) for each, key in zip(contents, keys, strict=True)]


def next_round(state: MapState, read: Sequence[int], rounds: Rounds) -> MapState:
    """Return the round after a merged one. It wants nothing if the ranking is decided.

    Scenes whose worker was lost are read again first, each by a worker of its own. Those that are lost again
    get the status lost. The scenes of the state, which `merge_round` has returned, are changed.
    """
    there = set(read)
    lost = [(at, step) for at, step in state.wanted if at not in there]
    following = replace(state, number=state.number + 1, wanted=[], tasks=[], n_tries=1)
    if lost and state.n_tries < MOST_TRIES:
        return replace(following, wanted=lost, n_tries=state.n_tries + 1)
    for at, _ in lost:
        state.scenes[at].fail(Status.LOST, LOST)
    return replace(following, wanted=next_reads(following.scenes, rounds))


def next_reads(scenes: Sequence[RankedScene], rounds: Rounds) -> list[tuple[int, int | None]]:
    """Return what has to be read next, by places."""
    places = {id(each): at for at, each in enumerate(scenes)}
    return [(places[id(each.ranked)], each.step) for each in rounds.choose_reads(scenes)]
