"""Tables of a deployment under faults at random, and proof that the simulation finds defects."""

import json
import math
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from copy import replace
from typing import Any, Final
from unittest.mock import AsyncMock

import pytest

from faults.put_back import PutBack, assert_found, name_of
from faults.simulated_rounds import StormyBucket
from faults.table_simulation import simulate
from handlers.deployment import removals
from handlers.deployment.stores import Deployment
from handlers.tables import committed_tables, feature_steps
from handlers.tables.committed_tables import Committed, CommittedTables
from handlers.tables.feature_table import FeatureTable
from pixel_gather.core.stores import ControlStore
from pixel_gather.features.versions import compact_table
from pixel_gather.tables import base_table, feature_rounds, map_tasks
from pixel_gather.tables.base_table import BaseTable
from pixel_gather.tables.feature_rounds import FeatureState, MeasuredPart
from pixel_gather.tables.map_tasks import MapTask
from pixel_gather.tables.merge_zone_lines import LineMerger
from pixel_gather.tables.part_folder import PartFolder
from pixel_gather.tables.table_receipt import side_path
from support.fakes import FakeControl

_SEEDS: Final = (*range(16), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(16, 40)))
"""Of points, then of zones, eight of each."""


@pytest.mark.parametrize("seed", _SEEDS)
def test_tables_hold_what_their_images_held(seed: int) -> None:
    """`scripts/simulate FIRST STOP tables` runs more."""
    simulate(seed)


@pytest.mark.long
def test_a_seed_is_always_the_same_run() -> None:
    """Otherwise nobody could look at what it has found."""
    first, again = simulate(5), simulate(5)

    assert (first.files, first.last_arrival_s) == (again.files, again.last_arrival_s)


def _put_back_rounds_that_are_cut_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the call count that has cut a round last, while workers of the first one are at work."""

    async def begin_round(
        files: ControlStore,
        parts: Sequence[bytes],
        state_of: Callable[[list[MapTask]], bytes],
        *,
        started_at: float,
    ) -> bytes:
        del started_at
        tasks, stop = [], 0
        for index, part in enumerate(parts):
            tasks.append(MapTask(index=index, start=stop, stop=stop + len(part), scenes_key="scenes"))
            stop += len(part)
        await files.put("scenes", b"".join(parts))
        await files.put("state", state_of(tasks))
        return state_of(tasks)

    monkeypatch.setattr(feature_rounds, "begin_round", begin_round)


def _put_back_commits_without_a_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an append replace a version that another one has committed meanwhile."""

    async def commit(tables: CommittedTables, name: str, result: Any, *, over: Committed | None) -> bool:
        del over
        await tables.deployment.results.below(name).put("result.json", json.dumps(result).encode())
        return True

    monkeypatch.setattr(CommittedTables, "commit", commit)


def _put_back_versions_in_one_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two appends write the files of their version to the same place."""

    async def upload(tables: CommittedTables, name: str, path: Any, *, version: int) -> dict[str, str]:
        files = tables.deployment.results.below(name).below(f"v{version}")
        place, addresses = f"{tables.deployment.settings.table_href(name)}/v{version}", {}
        for field, beside in committed_tables._PLACES.items():
            each = path if beside is None else side_path(path, beside)
            if beside != "pieces" or each.exists():
                await files.put_stream(each.name, committed_tables.chunks(each))
                addresses[field] = f"{place}/{each.name}"
        return addresses

    monkeypatch.setattr(CommittedTables, "upload", upload)


def _put_back_the_last_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what was read last of an image replace what was read before, of whatever version."""
    monkeypatch.setattr(base_table, "_replaces", lambda _new, _old: True)


def _put_back_tries_that_are_not_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what one try could not read of an image be unread, though another try has read it."""
    monkeypatch.setattr(BaseTable, "complete", lambda *_: None)


def _put_back_pieces_that_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an append merge the pieces that it has read itself, and none of the table."""
    pieces_of = LineMerger._pieces_of

    def of_new(merger: LineMerger, start: int, stop: int) -> Iterator[Any]:
        found = pieces_of(merger, start, stop)
        return (each for each in found if merger.records[each[0]].number >= 0)

    monkeypatch.setattr(LineMerger, "_pieces_of", of_new)


def _put_back_pieces_of_one_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a zone be complete without the pieces that another try has read."""
    completed = base_table._complete_image
    monkeypatch.setattr(
        base_table, "_complete_image", lambda record, parts, read, _: completed(record, parts, read, None)
    )


def _put_back_late_readings_that_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an image be lost in the second round that a late worker of the first one has read."""
    opened = PartFolder.open_

    class Forgetful(dict[int, Any]):
        def get(self, *_: Any) -> None:
            return None

        def __contains__(self, _: object) -> bool:
            return False

    def open_(path: Any, *, digest: str) -> PartFolder:
        return replace(opened(path, digest=digest), records=Forgetful())

    monkeypatch.setattr(PartFolder, "open_", open_)


def _put_back_rounds_that_are_overlooked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a late decision of a round know nothing of the next one, which was begun."""
    measured = feature_rounds.measured_parts

    class UpTo(StormyBucket):
        number: int

        def below(self, folder: str) -> Any:
            return FakeControl() if folder == f"rounds/{self.number + 1}" else super().below(folder)

    def of_known_rounds(state: FeatureState, control: StormyBucket) -> AsyncGenerator[MeasuredPart]:
        there = UpTo(storm=control.storm, files=control.files, folder=control.folder)
        there.number = state.number
        return measured(state, there)

    monkeypatch.setattr(feature_steps, "measured_parts", of_known_rounds)


def _put_back_sidecars_of_any_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a second worker of a task replace what the first one has committed."""

    async def commit_task(task: MapTask, files: ControlStore, sidecar: bytes) -> bool:
        await files.put(f"measured/{task.scenes_key}/{task.index}", sidecar)
        return True

    monkeypatch.setattr(feature_rounds, "commit_task", commit_task)


def _put_back_lost_images_that_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let images vanish whose worker was lost."""

    async def none(_state: FeatureState, _control: ControlStore) -> list[Any]:
        return []

    monkeypatch.setattr(feature_steps, "lost_images", none)


def _put_back_readings_of_removed_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a table that was removed be made of what was read before."""
    monkeypatch.setattr(feature_steps, "result_of", AsyncMock(return_value=None))
    monkeypatch.setattr(feature_steps, "count_removals", AsyncMock(return_value=0))
    monkeypatch.setattr(feature_steps, "check_not_removed", AsyncMock())


def _put_back_jobs_that_outlive_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a job write its table that was begun before the table was removed, and is redriven now."""
    monkeypatch.setattr(feature_steps, "check_not_removed", AsyncMock())


def _put_back_tables_that_do_not_tell_of_removals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a job append to a table that was removed and made anew since the job was begun."""

    async def if_gone(deployment: Deployment, table: str, state: FeatureState) -> None:
        if await deployment.find_result(table, type=dict[str, Any]) is None:
            await removals.check_not_removed(deployment, table, state)

    monkeypatch.setattr(feature_steps, "check_not_removed", if_gone)


def _put_back_attempts_that_outlive_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a request go on with an attempt at a table that was removed since."""

    def goes_on(state: FeatureState, *, now_s: float, removals: int) -> bool:
        del removals
        return map_tasks.goes_on(state, now_s=now_s, removals=state.removals)

    monkeypatch.setattr(feature_steps, "goes_on", goes_on)


def _put_back_attempts_of_any_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an attempt be continued some of whose files have expired."""
    monkeypatch.setattr(map_tasks, "_LONGEST_ATTEMPT_S", math.inf)


def _put_back_sidecars_of_older_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sidecars count whose state has expired, if the same scenes are cut in the same way."""
    begin_round = map_tasks.begin_round

    async def of_any_time(*known: Any, started_at: float) -> bytes:
        del started_at
        return await begin_round(*known, started_at=0.0)

    monkeypatch.setattr(feature_rounds, "begin_round", of_any_time)


def _put_back_first_appends_of_other_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a job add its values to a table of others that was made since the job was begun."""
    check = BaseTable.check

    def at_the_beginning(table: BaseTable, about: Mapping[str, Any]) -> None:
        if "list" not in about:
            check(table, about)

    monkeypatch.setattr(BaseTable, "check", at_the_beginning)


def _put_back_names_that_outlive_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an append have the same name as that of a removed table at the same version."""

    def name(table: FeatureTable) -> str:
        version = 0 if table.base is None else table.base.receipt["appends"] + 1
        return of_etag(replace(table, base_etag=str(version)))

    of_etag: Callable[[FeatureTable], str] = FeatureTable.name.fget  # type: ignore[attr-defined] # a property
    monkeypatch.setattr(FeatureTable, "name", property(name))


def _put_back_versions_that_bring_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an append write a version in which nothing is new."""
    monkeypatch.setattr(BaseTable, "gains", lambda *_: True)


def _put_back_compactions_of_the_last_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a compaction remove what is there."""
    monkeypatch.setattr(compact_table, "_KEPT", 0)


_DEFECTS: Final[tuple[PutBack, ...]] = (
    _put_back_rounds_that_are_cut_twice,
    _put_back_commits_without_a_condition,
    _put_back_versions_in_one_folder,
    _put_back_the_last_reading,
    _put_back_tries_that_are_not_completed,
    _put_back_pieces_that_are_forgotten,
    _put_back_pieces_of_one_try,
    _put_back_late_readings_that_are_lost,
    _put_back_rounds_that_are_overlooked,
    _put_back_sidecars_of_any_worker,
    _put_back_lost_images_that_are_left_out,
    _put_back_readings_of_removed_tables,
    _put_back_jobs_that_outlive_a_table,
    _put_back_tables_that_do_not_tell_of_removals,
    _put_back_attempts_that_outlive_a_table,
    _put_back_attempts_of_any_age,
    _put_back_sidecars_of_older_attempts,
    _put_back_first_appends_of_other_values,
    _put_back_names_that_outlive_a_table,
    _put_back_versions_that_bring_nothing,
    _put_back_compactions_of_the_last_version,
)
_MOST_SEEDS: Final = 3000
_FIRST_SEEDS: Final[dict[PutBack, int]] = {
    _put_back_rounds_that_are_overlooked: 240,
    _put_back_tables_that_do_not_tell_of_removals: 550,
    _put_back_attempts_that_outlive_a_table: 330,
    _put_back_attempts_of_any_age: 690,
    _put_back_names_that_outlive_a_table: 1540,
}
"""A rare defect is looked for where it was found last. Other seeds follow, as changes of code move it."""


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("defect", _DEFECTS, ids=name_of)
def test_a_defect_that_is_put_back_is_found(defect: PutBack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the simulation would prove nothing."""
    first = _FIRST_SEEDS.get(defect, 0)
    assert_found(defect, simulate, monkeypatch, first_seed=first, most_seeds=_MOST_SEEDS)
