"""Rounds of a large ranking in memory: tasks, lost workers, late workers, forecasts."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import product

import pytest

from pixel_gather.core.errors import StoreError
from pixel_gather.core.model.source import Cost, Source
from pixel_gather.core.model.status import Status
from pixel_gather.features.rank.choose_reads import NothingKept, RankedScene, Rounds, WantedRead, begun
from pixel_gather.features.rank.forecast import RoundForecast
from pixel_gather.features.rank.map_rounds import (
    MapState,
    load_round,
    measure_task,
    merge_round,
    next_reads,
    next_round,
    write_round,
)
from pixel_gather.features.rank.measured_scene import MeasuredScene
from pixel_gather.features.rank.ranking_request import RankingRequest
from pixel_gather.features.rank.scenes import RankScene
from pixel_gather.tables.find_bands import BandOf
from pixel_gather.tables.map_round import plan_round
from pixel_gather.tables.map_tasks import last_attempt, missing_tasks, round_files
from support.fakes import FakeControl
from support.in_loop import in_loop
from support.measured_scene import measured_scene

N = 7


def _rounds(precision: str = "coarse") -> Rounds:
    return Rounds(RankingRequest.of(by="b1", precision=precision), NothingKept())


def _state(rounds: Rounds) -> MapState:
    scenes = [
        RankScene(
            id=f"s{n}",
            time_us=n,
            bands={"b1": BandOf(Source(href=f"s3://a/{n}.tif", columns={"scale": 0.5}), 1)},
            mask=None,
        )
        for n in range(N)
    ]
    state = MapState(scenes=begun(scenes), started_at=0.0)
    state.wanted = next_reads(state.scenes, rounds)
    return state


class _Kept(NothingKept):
    """Keeps one statistic of all scenes and levels."""

    def __init__(self, measured: MeasuredScene) -> None:
        self.measured = measured

    def get(self, scene: RankScene, *, step: str) -> MeasuredScene:
        """Return it."""
        del scene, step
        return self.measured


@pytest.mark.parametrize(("etag", "n_wanted"), [("1", 0), ("2", N)])
def test_a_finer_level_that_is_kept_counts_for_the_version_that_was_read(etag: str, n_wanted: int) -> None:
    """Another ranking may have stored an older version since."""
    scenes = _state(_rounds()).scenes
    for each in scenes:
        each.measured = measured_scene(1.0)

    kept = _Kept(measured_scene(1.0, error=0.0, level=None, etags=(etag,)))
    wanted = Rounds(_rounds("0.1").request, kept).choose_reads(scenes)

    assert len(wanted) == n_wanted


async def _measure(wanted: Sequence[WantedRead], done: Callable[[RankedScene], None]) -> None:
    for each in wanted:
        each.ranked.step, each.ranked.measured = each.step, measured_scene(float(each.ranked.scene.id[1:]))
        done(each.ranked)


async def _run(state: MapState, files: FakeControl, *, lost: frozenset[int] = frozenset()) -> None:
    for task in state.tasks:
        if task.index not in lost:
            await measure_task(task, files, state.number, measure=_measure, longest_s=9)


@pytest.mark.parametrize("n_tasks", [1, 2, N])
@in_loop
async def test_every_scene_is_in_one_task_and_comes_back(n_tasks: int) -> None:
    """So does a value that is not finite. The state is what was written."""
    files, state = FakeControl(), _state(_rounds())
    state.number = 9
    await write_round(state, files, n_tasks=1)
    state.scenes[0].measured = measured_scene(float("nan"), error=float("inf"))
    state.number = 10  # not the last one by name
    state = await write_round(state, files, n_tasks=n_tasks)
    assert len(await missing_tasks(state.tasks, round_files(files, 10))) == n_tasks
    await _run(state, files)
    assert await missing_tasks(state.tasks, round_files(files, 10)) == []
    last, result = await last_attempt(files, load_round)
    assert (last and last.number, result) == (10, None)
    found, read = await merge_round(await load_round(files, 10), files)
    assert sorted(read) == list(range(N))

    assert [each.value for each in found.scenes] == [float(n) for n in range(N)]
    assert found.usd > 0


@pytest.mark.parametrize("damaged", ["rounds/0/state", "rounds/0/measured/"])
@in_loop
async def test_a_damaged_control_file_is_named(damaged: str) -> None:
    """The error says what to do."""
    files = FakeControl()
    await _run(await write_round(_state(_rounds()), files, n_tasks=1), files)
    (key,) = (each for each in files.files if each.startswith(damaged))
    files.files[key] = b"{}"
    with pytest.raises(StoreError, match=f"^{key} is damaged .*: remove this control file and run again"):
        await merge_round(await load_round(files, 0), files)


@in_loop
async def test_task_is_measured_once() -> None:
    """A second worker of the same task changes nothing."""
    files, state = FakeControl(), _state(_rounds())
    state = await write_round(state, files, n_tasks=1)
    (task,) = state.tasks
    first = await measure_task(task, files, 0, measure=_measure, longest_s=9)
    assert (first, await measure_task(task, files, 0, measure=_measure, longest_s=9)) == (N, None)


@in_loop
async def test_scenes_of_a_lost_worker_are_read_again_alone_and_then_listed() -> None:
    """Those that others have read keep their values."""
    files, rounds = FakeControl(), _rounds()
    state = _state(rounds)
    state = await write_round(state, files, n_tasks=3)
    await _run(state, files, lost=frozenset({1}))
    state, read = await merge_round(state, files)
    again = next_round(state, read, rounds)
    again = await write_round(again, files, n_tasks=len(again.wanted))
    await _run(again, files, lost=frozenset({0}))
    state, read = await merge_round(again, files)
    last = next_round(state, read, rounds)

    assert [at for at, _ in again.wanted] == [2, 3]
    assert (again.number, again.n_tries) == (1, 2)
    assert last.wanted == []
    assert [each.status for each in last.scenes] == [Status.LOST if n == 2 else Status.OK for n in range(N)]


@in_loop
async def test_scenes_of_a_worker_that_was_late_are_not_lost() -> None:
    """It commits after its round has ended, and the second worker of each scene is lost."""
    files, rounds = FakeControl(), _rounds()
    first = await write_round(_state(rounds), files, n_tasks=1)
    state, read = await merge_round(first, files)
    again = next_round(state, read, rounds)
    again = await write_round(again, files, n_tasks=len(again.wanted))
    await _run(again, files, lost=frozenset(range(1, N)))
    await _run(first, files)
    state, read = await merge_round(again, files)
    last = next_round(state, read, rounds)

    assert last.wanted == []
    assert [each.value for each in last.scenes] == [float(n) for n in range(N)]


@pytest.mark.parametrize("has_sample", [False, True])
def test_round_in_which_no_worker_can_read_fails(*, has_sample: bool) -> None:
    """After every scene had a worker of its own. It is an error of the deployment.

    The function that plans may have read a scene for its forecast.
    """

    async def work() -> None:
        files, rounds = FakeControl(), _rounds()
        state = _state(rounds)
        state.number = state.first = 3  # a former ranking was removed
        if has_sample:
            state.scenes[0].measured = measured_scene(0.0)
            state.wanted = next_reads(state.scenes, rounds)
        for n_tasks in (2, N):
            state = await write_round(state, files, n_tasks=n_tasks)
            state, read = await merge_round(state, files)
            state = next_round(state, read, rounds)

    with pytest.raises(StoreError, match="every worker failed"):
        asyncio.run(work())


@in_loop
async def test_scenes_that_are_late_are_listed_as_timed_out() -> None:
    """Those that were read in time are kept."""

    async def slow(wanted: Sequence[WantedRead], done: Callable[[RankedScene], None]) -> None:
        await _measure(wanted[:2], done)
        await asyncio.sleep(60)

    files, state = FakeControl(), _state(_rounds())
    state = await write_round(state, files, n_tasks=1)
    await measure_task(state.tasks[0], files, 0, measure=slow, longest_s=0.01)
    found, _ = await merge_round(state, files)
    statuses = [each.status for each in found.scenes]

    assert statuses == [Status.OK] * 2 + [Status.TIMED_OUT] * (N - 2)


@pytest.mark.parametrize(("status", "value"), [(Status.CORRUPT, 3.0), (Status.CHANGED, None)])
def test_a_value_of_a_file_that_was_replaced_is_not_kept(status: Status, value: float | None) -> None:
    """A coarser level of the same file counts where a finer one cannot be read."""
    ranked = _state(_rounds()).scenes[0]
    ranked.measured = measured_scene(3.0)

    ranked.fail(status, "why")

    assert (None if ranked.measured is None else ranked.measured.value) == value
    assert ranked.status is (Status.OK if value else status)


def test_open_ranks_make_another_round() -> None:
    """Only those scenes are read, at their next level."""
    rounds = _rounds("0.01")
    state = _state(rounds)
    for n, each in enumerate(state.scenes):
        each.step, each.measured = 0, measured_scene(10.0 * n if n != 3 else 20.1)

    following = next_round(state, range(N), rounds)

    assert following.wanted == [(2, 1), (3, 1)]


def test_small_scenes_are_read_where_a_large_one_is_too_much() -> None:
    """With those before it, it would take more than exact. The best places come first."""
    rounds = _rounds("0.01")
    state = _state(rounds)
    for n, each in enumerate(state.scenes):
        each.step, each.cost = 0, Cost(requests=1, nbytes=4)
        full = 20.0 if n in (4, 5) else 4.0
        each.measured = measured_scene(10.0 * (n // 2), level_nbytes=(4.0, full))

    following = next_round(state, range(N), rounds)

    assert following.wanted == [(4, 1), (2, 1), (3, 1), (0, 1)]


def test_forecast_of_a_round_counts_each_scene_by_its_next_level() -> None:
    """Full resolution has the square of the factor times the pixels; a scene that is new costs as others."""
    known, new = RankedScene(scene=None), RankedScene(scene=None)  # type: ignore[arg-type] # it is not looked at
    known.cost, known.measured = Cost(requests=1, nbytes=1000, decode_s=0.1), measured_scene(1.0)
    like = Cost(requests=3, nbytes=500, decode_s=0.2)

    found = RoundForecast.of_round([WantedRead(known, 1), WantedRead(new, 0)], like=like, in_flight=8)

    assert (found.requests, found.nbytes) == (4, 4 * 1000 + 500)
    assert found.seconds == pytest.approx(4 * 0.1 + 0.2 + 2 * 0.009 + 4 * 0.2e-3)


@pytest.mark.parametrize(("seconds", "workers"), list(product([1.0, 100.0, 1e5], [1, 50, 500])))
def test_tasks_are_neither_too_many_nor_too_long(seconds: float, workers: int) -> None:
    """No task is near the end of a worker's life; workers are no more than the deployment's."""
    found = plan_round(RoundForecast(5000, 1e9, seconds), n_scenes=5000, most_workers=workers)

    assert found.n_workers <= workers
    assert seconds / found.n_tasks <= 120 or found.n_tasks == 5000
    assert 120 <= found.first_limit_s <= 800
    assert found.usd > RoundForecast(5000, 1e9, seconds).usd


@pytest.mark.parametrize(
    ("megabytes", "gets", "side", "expected"),
    [
        (0.55, 1, 686, ("18 s, $0.0010", "2", "13 s, $0.0014")),
        (2.2, 2, 1372, ("44 s, $0.0023", "5", "13 s, $0.0030")),
        (6.0, 2, 2048, ("120 s, $0.0040", "13", "14 s, $0.0056")),
        (42.0, 2, 5490, ("842 s, $0.0206", "85", "15 s, $0.0298")),
    ],
)
def test_costs_of_1563_scenes_are_those_of_the_page(
    megabytes: float, gets: int, side: int, expected: tuple[str, ...]
) -> None:
    """The table of docs/rank.md is what the model says."""
    ranked = RankedScene(scene=None)  # type: ignore[arg-type] # as above
    like = Cost(requests=gets, nbytes=int(megabytes * 1e6), decode_s=side * side * 2 / 400e6)

    forecast = RoundForecast.of_round([WantedRead(ranked, 0)] * 1563, like=like, in_flight=128)
    found = plan_round(forecast, n_scenes=1563, most_workers=500)

    assert (
        f"{forecast.seconds:.0f} s, ${forecast.usd:.4f}",
        str(found.n_tasks),
        f"{found.seconds:.0f} s, ${found.usd:.4f}",
    ) == expected
