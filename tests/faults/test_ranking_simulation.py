"""Large rankings of a deployment under faults at random, and proof that the simulation finds defects."""

import math
from collections.abc import Sequence
from copy import replace
from dataclasses import dataclass, field
from typing import Any, Final
from unittest.mock import AsyncMock

import pytest

from faults.put_back import PutBack, assert_found, name_of
from faults.ranking_simulation import simulate
from faults.simulated_rounds import StormyBucket
from handlers.rank import measure_scenes, open_ranker, ranking_rounds
from handlers.rank.ranking_rounds import RankingRounds
from pixel_gather.core.stores import ControlStore
from pixel_gather.features.rank import map_rounds
from pixel_gather.features.rank.choose_reads import RankedScene, Rounds, WantedRead
from pixel_gather.features.rank.map_rounds import MapState
from pixel_gather.features.rank.measured_scene import MeasuredScene
from pixel_gather.tables import map_tasks


@pytest.mark.parametrize("seed", range(24))
def test_rankings_are_of_scenes_as_they_were(seed: int) -> None:
    """`scripts/simulate FIRST STOP rankings` runs more."""
    simulate(seed)


def test_a_seed_is_always_the_same_run() -> None:
    """Otherwise nobody could look at what it has found."""
    first, again = simulate(5), simulate(5)

    assert (first.files, first.last_arrival_s) == (again.files, again.last_arrival_s)


def _put_back_steps_of_removed_rankings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a step that is redriven write a ranking that was removed from what was read before."""
    monkeypatch.setattr(ranking_rounds, "result_of", AsyncMock(return_value=None))
    monkeypatch.setattr(ranking_rounds, "check_not_removed", AsyncMock())


def _put_back_removed_rankings_that_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a request for a ranking that was removed write it from what was read before."""

    async def without_result(*known: Any) -> tuple[Any, None]:
        state, _ = await map_tasks.last_attempt(*known)
        return state, None

    monkeypatch.setattr(ranking_rounds, "last_attempt", without_result)
    monkeypatch.setattr(ranking_rounds, "count_removals", AsyncMock(return_value=0))
    monkeypatch.setattr(ranking_rounds, "check_not_removed", AsyncMock())


def _put_back_jobs_that_outlive_a_ranking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a job write its ranking that had not ended when another one wrote it, before it was removed."""
    monkeypatch.setattr(ranking_rounds, "count_removals", AsyncMock(return_value=0))
    monkeypatch.setattr(ranking_rounds, "check_not_removed", AsyncMock())


def _put_back_kept_statistics_of_other_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a finer level be that of an older version, which another ranking has stored late."""

    def of_any_version(rounds: Rounds, wanted: WantedRead) -> MeasuredScene | None:
        return rounds.kept.get(wanted.ranked.scene, step=rounds._name_of(wanted.step))

    monkeypatch.setattr(Rounds, "_find_kept", of_any_version)


def _put_back_kept_statistics_that_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a ranking take what was kept of files that were replaced."""

    async def nothing(*_: Any, **__: Any) -> None: ...

    monkeypatch.setattr(open_ranker, "drop_replaced", nothing)


def _put_back_late_workers_that_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a scene be lost that a late worker of the round before has read."""

    async def of_one_round(state: MapState, control: ControlStore) -> tuple[MapState, list[int]]:
        merged, read = await map_rounds.merge_round(replace(state, n_tries=1), control)
        return replace(merged, n_tries=state.n_tries), read

    monkeypatch.setattr(ranking_rounds, "merge_round", of_one_round)


def _put_back_lost_scenes_that_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a scene be lost that its worker was lost with, though another one might have read it."""
    monkeypatch.setattr(map_rounds, "MOST_TRIES", 1)


def _put_back_last_rounds_without_a_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each call write the ranking from what it has merged itself."""

    async def go_on(
        steps: RankingRounds, name: str, state: MapState, asked: Any, execution: str
    ) -> dict[str, Any]:
        if not state.wanted:
            return await steps._complete(name, state, asked)
        return await going_on(steps, name, state, asked, execution)

    going_on = RankingRounds._go_on
    monkeypatch.setattr(RankingRounds, "_go_on", go_on)


def _put_back_attempts_of_any_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an attempt be continued some of whose files have expired."""
    monkeypatch.setattr(map_tasks, "_LONGEST_ATTEMPT_S", math.inf)


def _put_back_rounds_that_are_cut_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the call count that has cut a round last, while workers of the first one are at work."""

    class Overwritten(StormyBucket):
        async def put_new(self, key: str, content: bytes) -> bool:
            await self.put(key, content)
            return True

    async def begun(files: StormyBucket, *known: Any, **more: Any) -> bytes:
        there = Overwritten(storm=files.storm, files=files.files, folder=files.folder)
        return await map_tasks.begin_round(there, *known, **more)

    monkeypatch.setattr(map_rounds, "begin_round", begun)


def _put_back_scenes_that_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let scenes vanish that could not be read."""
    ordered = Rounds.sort

    def of_read(rounds: Rounds, ranked: Sequence[RankedScene]) -> list[RankedScene]:
        return [each for each in ordered(rounds, ranked) if not each.is_failed]

    monkeypatch.setattr(Rounds, "sort", of_read)


def _put_back_states_before_their_scenes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a step be killed between the state of a round and the scenes that its tasks read."""

    @dataclass
    class StateFirst(StormyBucket):
        late: list[tuple[str, bytes]] = field(default_factory=list)

        async def put(self, key: str, content: bytes) -> None:
            self.late.append((key, content))

        async def put_new(self, key: str, content: bytes) -> bool:
            is_new = await super().put_new(key, content)
            for each in self.late:
                await super().put(*each)
            return is_new

    async def begun(files: StormyBucket, *known: Any, **more: Any) -> bytes:
        there = StateFirst(storm=files.storm, files=files.files, folder=files.folder)
        return await map_tasks.begin_round(there, *known, **more)

    monkeypatch.setattr(map_rounds, "begin_round", begun)


def _put_back_workers_that_forget_what_they_have_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all scenes of a worker count as timed out if one of them does."""

    async def measured(*known: Any, measure: map_rounds.Measure, **more: Any) -> int | None:
        async def in_silence(wanted: Sequence[WantedRead], _done: Any) -> None:
            await measure(wanted, lambda _: None)

        return await map_rounds.measure_task(*known, measure=in_silence, **more)

    monkeypatch.setattr(measure_scenes, "measure_task", measured)


def _put_back_rounds_that_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a ranking count the dollars of its requests alone."""

    async def merge(state: MapState, control: ControlStore) -> tuple[MapState, list[int]]:
        merged, read = await map_rounds.merge_round(state, control)
        return replace(merged, usd=state.usd), read

    monkeypatch.setattr(ranking_rounds, "merge_round", merge)


def _put_back_limits_of_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each round spend as many dollars as the whole ranking may."""
    monkeypatch.setattr(ranking_rounds, "_spent_usd", lambda _: 0.0)


_DEFECTS: Final[tuple[PutBack, ...]] = (
    _put_back_steps_of_removed_rankings,
    _put_back_removed_rankings_that_go_on,
    _put_back_jobs_that_outlive_a_ranking,
    _put_back_kept_statistics_of_other_versions,
    _put_back_kept_statistics_that_are_not_checked,
    _put_back_late_workers_that_are_forgotten,
    _put_back_lost_scenes_that_are_not_read_again,
    _put_back_last_rounds_without_a_state,
    _put_back_attempts_of_any_age,
    _put_back_rounds_that_are_cut_twice,
    _put_back_scenes_that_are_left_out,
    _put_back_states_before_their_scenes,
    _put_back_workers_that_forget_what_they_have_read,
    _put_back_rounds_that_cost_nothing,
    _put_back_limits_of_one_round,
)
_MOST_SEEDS: Final = 3000
_FIRST_SEEDS: Final[dict[PutBack, int]] = {
    _put_back_jobs_that_outlive_a_ranking: 1100,
    _put_back_kept_statistics_of_other_versions: 100,
    _put_back_late_workers_that_are_forgotten: 90,
    _put_back_last_rounds_without_a_state: 55,
}
"""A rare defect is looked for where it was found last. Other seeds follow, as changes of code move it."""


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("defect", _DEFECTS, ids=name_of)
def test_a_defect_that_is_put_back_is_found(defect: PutBack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the simulation would prove nothing."""
    first = _FIRST_SEEDS.get(defect, 0)
    assert_found(defect, simulate, monkeypatch, first_seed=first, most_seeds=_MOST_SEEDS)
