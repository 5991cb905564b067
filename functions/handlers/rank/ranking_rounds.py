"""A large ranking as a kind of table: it decides after each round of the map what the next one reads."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from msgspec import Struct

from handlers.api.answer_size import fit_scenes
from handlers.deployment.admit_request import open_table
from handlers.deployment.map_verdict import find_complete, run_round
from handlers.deployment.removals import check_not_removed, count_removals, note_result
from handlers.deployment.stores import Deployment
from handlers.rank.open_ranker import open_ranker_with_kept
from handlers.rank.rank_request import (
    REQUEST_KEY,
    AdmittedRanking,
    admit_ranking,
    noted_request,
    ranking_name,
)
from handlers.rank.statistics_on_s3 import open_kept_statistics
from pixel_gather.core.errors import BudgetError
from pixel_gather.core.estimate.pricing import USD_PER_GET
from pixel_gather.core.model.source import Cost
from pixel_gather.core.stores import needed_file
from pixel_gather.features.rank.choose_reads import NothingKept, Rounds, WantedRead, begun
from pixel_gather.features.rank.forecast import RoundForecast, check_ranking
from pixel_gather.features.rank.map_rounds import (
    MapState,
    load_round,
    merge_round,
    next_reads,
    next_round,
    write_round,
)
from pixel_gather.features.rank.parquet_table import write_table
from pixel_gather.features.rank.ranker import Ranker
from pixel_gather.features.rank.scenes import list_scenes
from pixel_gather.features.rank.table import Ranking
from pixel_gather.tables.map_round import MapRound, plan_round
from pixel_gather.tables.map_tasks import goes_on, last_attempt, result_of
from pixel_gather.tables.table_receipt import RESULT_KEY, read_result

_MOST_SCENES: Final = 100_000
"""In one ranking. Its state is in the memory of one function."""

_SAMPLES: Final = 3
"""Scenes that are tried for the forecast until one can be read."""

_LONGEST_SCENE_S: Final = 180.0
_TO_READ_ON: Final = 1.3
"""How much a ranking costs more than its first round. How many scenes are read on is not known before."""


class RankingRounds(Struct, frozen=True):
    """Decides the rounds of a deployment's large rankings: a `handlers.tables.kinds.TableSteps`."""

    deployment: Deployment

    async def begin(self, given: Any, *, execution: str, left_s: float) -> dict[str, Any]:
        """Begin a ranking, or go on with one of the same name. Safe to run twice."""
        asked = admit_ranking(given, self.deployment.settings)
        async with open_table(asked.gather, self.deployment, left_s=left_s) as table:
            if table.n_rows > _MOST_SCENES:
                raise BudgetError(
                    f"there are {table.n_rows:,} scenes, and one ranking takes at most {_MOST_SCENES:,}: "
                    "choose fewer by their time, area or cloud cover, or rank parts of the list"
                )
            scenes, notes, digest = list_scenes(table, asked.request), list(table.notes), table.digest
        name = ranking_name(given, digest, salt=execution if asked.checks_kept else "")
        files = self.deployment.table_files(name)
        former, result = await last_attempt(files, load_round)
        # The ranking is looked for after the noted result. Else one that is written in between would look
        # removed.
        if (found := await find_complete(self.deployment, name)) is not None:
            if former is not None and result is None:  # the call that wrote it was killed before its note
                await note_result(self.deployment, name, former, found["result"])
            return found
        removals = await count_removals(self.deployment, name)
        unfinished = None
        if former and result is None and goes_on(former, now_s=time.time(), removals=removals):
            unfinished = former  # it has failed, or still runs
            if former.tasks and former.n_tries == 1:  # limits are not in its name
                planned = self._map_round(former, n_tasks=len(former.tasks))
                check_ranking(asked.limits, len(former.scenes), seconds=planned.seconds, usd=planned.usd)
        await files.put(REQUEST_KEY, json.dumps(given).encode())
        if unfinished:
            return await self._run(name, unfinished, asked, execution)
        # Here the ranking has no rounds yet, its last attempt is too old, or it was written and removed.
        # It gets new rounds.
        number = 0 if former is None else former.number + 1
        state = MapState(
            number=number,
            first=number,
            scenes=begun(scenes),
            notes=notes,
            started_at=time.time(),
            removals=removals,
        )
        async with open_ranker_with_kept(
            asked, self.deployment, scenes=scenes, source_timeout_s=_LONGEST_SCENE_S
        ) as ranker:
            state.wanted = await _after_samples(ranker, state)
        if state.wanted:
            first = self._map_round(state)
            more = _TO_READ_ON if asked.request.reads_on else 1.0
            total = {"seconds": first.seconds * more, "usd": first.usd * more}
            check_ranking(asked.limits, len(scenes), **total)
        return await self._go_on(name, state, asked, execution)

    async def after(self, name: str, number: int, *, execution: str) -> dict[str, Any]:
        """Merge a round that has ended, and begin the next one or write the table. Safe to run twice."""
        files = self.deployment.table_files(name)
        state = await load_round(files, number)
        if (result := await result_of(state, files)) is not None:  # the ranking may have been removed since
            return {"verdict": "complete", "result": result}
        if (found := await find_complete(self.deployment, name)) is not None:
            await note_result(self.deployment, name, state, found["result"])
            return found
        asked = await noted_request(files, self.deployment.settings)
        state, read = await merge_round(state, files)
        async with open_kept_statistics(self.deployment.results, asked.request) as kept:
            rounds = Rounds(asked.request, kept)
            for at in read:
                rounds.keep(state.scenes[at])
            state = next_round(state, read, rounds)
        return await self._go_on(name, state, asked, execution)

    async def _go_on(
        self, name: str, state: MapState, asked: AdmittedRanking, execution: str
    ) -> dict[str, Any]:
        """Begin the round that a state wants, or write the ranking if the round has no tasks.

        It has none if no scene is wanted, or if the ranking would then cost more than limits.usd in all. The
        first round, and scenes that were lost, are not held to that limit here.
        """
        n_tasks = 0
        if state.wanted:
            is_lost = state.n_tries > 1
            planned = self._map_round(state, n_tasks=len(state.wanted) if is_lost else None)
            n_tasks, most, spent = planned.n_tasks, asked.limits.usd, _spent_usd(state)
            if state.number > state.first and not is_lost and most is not None and spent + planned.usd > most:
                state.notes.append(
                    f"limits.usd: {len(state.wanted):,} scenes were not read finer, as that would cost about "
                    f"${planned.usd:.4f} more than the ${spent:.4f} so far; their ranks are open"
                )
                n_tasks = 0
        state.seconds = time.time() - state.started_at
        state = await write_round(state, self.deployment.table_files(name), n_tasks=n_tasks)
        return await self._run(name, state, asked, execution)

    async def _run(
        self, name: str, state: MapState, asked: AdmittedRanking, execution: str
    ) -> dict[str, Any]:
        """Return the verdict that runs a round, or write the table if the round has no tasks."""
        if not state.tasks:
            return await self._complete(name, state, asked)
        planned = self._map_round(state, n_tasks=len(state.tasks))
        told = {
            "n_scenes": len(state.scenes),
            "n_wanted": len(state.wanted),
            "usd": _spent_usd(state) + planned.usd,
        }
        return await run_round(self.deployment, name, state, planned, execution=execution, told=told)

    def _map_round(self, state: MapState, *, n_tasks: int | None = None) -> MapRound:
        settings = self.deployment.settings
        wanted = [WantedRead(state.scenes[at], step) for at, step in state.wanted]
        read = [each.cost for each in state.scenes if each.cost.requests]
        like = read[0] if read else Cost(requests=2)
        forecast = RoundForecast.of_round(wanted, like=like, in_flight=settings.concurrency)
        most_workers = int(settings.limits.get("workers") or 1)
        return plan_round(forecast, n_scenes=len(wanted), most_workers=most_workers, n_tasks=n_tasks)

    async def _complete(self, name: str, state: MapState, asked: AdmittedRanking) -> dict[str, Any]:
        """Write the table, and the result last: it marks the other files as complete.

        Two calls at once write the same, because both take the state that was written first. A call that
        finds the result noted writes nothing, because the ranking may have been removed since. Each attempt
        has a folder of its own. So a call that stood still meanwhile replaces no file of a later attempt.
        """
        if (noted := await result_of(state, self.deployment.table_files(name))) is not None:
            return {"verdict": "complete", "result": noted}
        rounds = Rounds(asked.request, NothingKept())
        ordered = rounds.sort(state.scenes)
        if not state.wanted:
            state.notes += rounds.notes(ordered)
        ranking = Ranking(
            request=asked.request,
            scenes=tuple(ordered),
            seconds=state.seconds,
            notes=tuple(state.notes),
            spent_usd=_spent_usd(state),
        )
        folder = f"{self.deployment.settings.table_href(name)}/{state.first}"
        table = ranking.to_json()
        result = table["totals"] | {
            "kind": "ranking",
            "name": name,
            "rounds": state.number - state.first,
            "removals": state.removals,
            "table": f"{folder}/ranking.json",
            "parquet": f"{folder}/ranking.parquet",
        }
        files = self.deployment.results.below(f"{name}/{state.first}")
        await files.put("ranking.json", json.dumps(table).encode())
        await files.put("ranking.parquet", _parquet(ranking, table))
        places = {each: result[each] for each in ("table", "parquet")}
        answer = fit_scenes(table) | places
        await files.put("answer.json", json.dumps(answer, separators=(",", ":")).encode())
        await check_not_removed(self.deployment, name, state)
        committed = self.deployment.results.below(name)
        if not await committed.put_new(RESULT_KEY, json.dumps(result).encode()):
            content = await needed_file(committed, RESULT_KEY)
            place = self.deployment.settings.table_href(name)
            result = read_result(content, place=place, type=dict[str, Any])
        await note_result(self.deployment, name, state, result)
        return {"verdict": "complete", "result": result}


async def _after_samples(ranker: Ranker, state: MapState) -> list[tuple[int, int | None]]:
    """Read a scene for the forecast, another if that fails, and return what is wanted then."""
    for _ in range(_SAMPLES):
        wanted = next_reads(state.scenes, ranker.rounds)
        if not wanted:
            return []
        (at, step), scenes = wanted[0], state.scenes
        await ranker.measure([WantedRead(scenes[at], step)])
        if scenes[at].measured is not None:
            break
    return next_reads(state.scenes, ranker.rounds)


def _spent_usd(state: MapState) -> float:
    return state.usd + sum(each.cost.requests for each in state.scenes) * USD_PER_GET


def _parquet(ranking: Ranking, table: Mapping[str, Any]) -> bytes:
    about = {name: value for name, value in table.items() if name != "scenes"}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ranking.parquet"
        write_table(ranking.rows(), path, about=about)
        return path.read_bytes()
