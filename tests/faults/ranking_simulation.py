"""Large rankings of a deployment in virtual time, with random faults. The same seed gives the same run.

What users, steps, workers and stores do is in `faults.simulated_rounds`. Several users rank lists of scenes
that overlap. In a third of the runs, all of them ask for the same ranking. In another third, they share the
kept statistics. Scenes are replaced, or cannot be read for a while. In one run of four, somebody removes all
rankings, and they are made again. In one run of six, rankings have a low limit of dollars. Few of their
scenes are then read at finer levels.

Each ranking must have all scenes of its list, in the order of their values. A value must be that of a version
of the scene that was there at some time since the ranking was asked for. All ranks that the request wants
decided must be decided. A scene must not be reported as lost if a worker had read it when the step began, nor
as failed by the worker that has read it. A ranking that has spent its dollars must not read finer levels. A
ranking that is written twice must be the same. In the end the faults stop, and then a ranking must have a
value for every scene.
"""

import asyncio
import json
import math
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Final, Literal, override
from unittest.mock import Mock, patch

import msgspec
import numpy as np

from faults.simulated_images import href_of, lines_of, number_of
from faults.simulated_rounds import (
    ALL_LISTED,
    LISTS,
    LONGEST_TASK_S,
    RoundsRun,
    RoundsWorld,
    SimulatedDeployment,
    clock_of,
    images_of,
    list_digest,
    opened_lists,
    run_seed,
)
from faults.storm import BrokenPromiseError
from handlers.deployment.report_spending import Spending
from handlers.rank import measure_scenes, open_ranker, ranking_rounds, statistics_on_s3
from handlers.rank.rank_request import ranking_name
from handlers.rank.ranking_rounds import RankingRounds
from pixel_gather.core.errors import BudgetError, SourceError, StoreError
from pixel_gather.core.estimate.pricing import USD_PER_GET, USD_PER_INVOCATION
from pixel_gather.core.model.source import Cost
from pixel_gather.core.model.status import Status
from pixel_gather.features.rank import map_rounds
from pixel_gather.features.rank.choose_reads import Rounds
from pixel_gather.features.rank.map_rounds import MapState
from pixel_gather.features.rank.measured_scene import MeasuredScene
from pixel_gather.features.rank.ranker import Ranker
from pixel_gather.features.rank.scenes import RankScene
from pixel_gather.io.store.fetched import Fetched
from pixel_gather.tables import map_round
from pixel_gather.tables.map_tasks import LOST, MapTask
from support.fakes import FakeLimiter
from support.measured_scene import measured_scene

_LEVELS: Final = (1, 0, None)
_ERRORS: Final = (8.0, 2.0, 0.0)
_FACTORS: Final = (4.0, 2.0, 1.0)
_NBYTES: Final = (100.0, 400.0, 1600.0)
"""Of each level, coarsest first."""

_PRECISIONS: Final = ("1.0", "2%", "exact", "coarse")
_BOUND: Final = 1.0
_TOP: Final = 3
_MOST_USD: Final = 0.0008
"""Limit of some rankings. It is enough for the first round, and seldom for the next one."""

type Row = Mapping[str, Any]
"""A row of a ranking."""

_READ_BEFORE: ContextVar[Mapping[tuple[str, int], AbstractSet[str]]] = ContextVar(
    "what was read before a step"
)
_ANSWERED: ContextVar[set[str]] = ContextVar("addresses of the scenes that a worker was given an answer for")


def _value(number: int, version: int, step: int) -> float:
    """Return what a version of a scene has at a level."""
    return number * 10.0 + version * 3.0 + step * 0.25


@dataclass
class World(RoundsWorld):
    """One run: its stores, its scenes and its rankings."""

    told: dict[str, tuple[bytes, Row]] = field(default_factory=dict)
    """The result of each ranking, and its table."""

    former: set[bytes] = field(default_factory=set)
    """Results of rankings that were removed."""

    read: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    """Addresses of scenes that workers have read, by ranking and round."""

    asked: dict[str, tuple[range, Mapping[str, int]]] = field(default_factory=dict)
    """The images of each ranking, and their versions when it was asked for first."""

    precision: str = field(init=False)
    """Of all rankings."""

    shares: Literal["ranking", "statistics", "nothing"] = field(init=False)
    """What the users share: one ranking, the kept statistics of several, or nothing."""

    is_limited: bool = field(init=False)
    """Whether rankings have a low limit of dollars."""

    def __post_init__(self) -> None:
        """Draw what is ranked, each by itself."""
        super().__post_init__()
        kind = random.Random(f"kind {self.seed}")  # noqa: S311 # no secret
        (self.precision,) = kind.choices(_PRECISIONS, (5, 1, 1, 1))
        self.shares = kind.choice(("ranking", "statistics", "nothing"))
        self.is_limited = kind.random() < 1 / 6

    @override
    def look_at(self, parts: Sequence[str], content: bytes) -> None:
        match parts:
            case ["cubes", "out", "tables", name, "result.json"]:
                check_result(self, name, content)
            case ["control", "tables", name, "rounds", number, "measured", _, _]:
                scenes = msgspec.msgpack.decode(content, type=map_rounds._Sidecar).scenes
                read = {ranked.scene.hrefs[0] for _, ranked in scenes}
                failed = {ranked.scene.hrefs[0] for _, ranked in scenes if ranked.is_stuck}
                if wrong := failed & _ANSWERED.get(set()):
                    raise BrokenPromiseError(f"a worker has read {wrong}, and tells that it failed")
                self.read.setdefault((name, int(number)), set()).update(read)
            case ["control", "tables", name, "rounds", number, "state"]:
                state = msgspec.msgpack.decode(content, type=MapState)
                self.check_tasks("/".join(parts[:-1]), state.tasks)
                check_state(self, name, state)

    @override
    def note_removal(self) -> Sequence[str]:
        names = list(self.told)
        self.former.update(result for result, _ in self.told.values())
        for name in names:
            del self.asked[name]
        self.told.clear()
        return names


def check_state(world: World, name: str, state: MapState) -> None:
    """Check the state of a round that follows another one.

    Raises:
        BrokenPromiseError: A scene is reported as lost. But it was not wanted again, or a worker had read it
            when the step began.
    """
    before = _READ_BEFORE.get({})
    last = world.files.get(f"control/tables/{name}/rounds/{state.number - 1}/state")
    if state.number == state.first or last is None:
        return
    decided = msgspec.msgpack.decode(last, type=MapState)
    _check_spending(world, name, decided, state)
    lost = {at for at, _ in decided.wanted if LOST in (state.scenes[at].reason or "")}
    first_try = world.files.get(f"control/tables/{name}/rounds/{state.number - 2}/state")
    tried = set[int]()
    if first_try is not None and state.number - 2 >= state.first:
        tried = {at for at, _ in msgspec.msgpack.decode(first_try, type=MapState).wanted}
    if lost - tried:
        raise BrokenPromiseError(f"{lost - tried} were not read again, and are told to be lost")
    there = set[str]().union(*(before.get((name, decided.number - back), ()) for back in (0, 1)))
    if read := [at for at in lost if state.scenes[at].scene.hrefs[0] in there]:
        raise BrokenPromiseError(f"{read} were read, and are told to be lost")


def _check_spending(world: World, name: str, before: MapState, state: MapState) -> None:
    """Check that a round costs something, and that no finer level is read once the dollars are spent."""
    least_usd = before.usd + len(before.tasks) * USD_PER_INVOCATION
    if state.usd < least_usd:
        raise BrokenPromiseError(f"{name} has spent ${state.usd} so far, and at least ${least_usd}")
    limits = json.loads(world.files[f"control/tables/{name}/request.json"]).get("limits", {})
    usd = state.usd + sum(each.cost.requests for each in state.scenes) * USD_PER_GET
    if state.tasks and state.n_tries == 1 and usd > limits.get("usd", math.inf):
        raise BrokenPromiseError(f"{name} has spent ${usd} of {limits}, and reads more")


def check_result(world: World, name: str, content: bytes) -> None:
    """Check a ranking when it is committed.

    Raises:
        BrokenPromiseError: It is wrong.
    """
    folder = world.results.folder + "/".join(json.loads(content)["table"].split("/")[-3:-1])
    table = json.loads(world.files[f"{folder}/ranking.json"])
    rows = table["scenes"]
    with TemporaryDirectory() as there:
        path = Path(there, "ranking.parquet")
        path.write_bytes(world.files[f"{folder}/ranking.parquet"])
        parquet = lines_of(path)
    if [(each["id"], each["value"]) for each in parquet] != [(each["id"], each["value"]) for each in rows]:
        raise BrokenPromiseError(f"{name} has other rows in its Parquet file")
    if json.loads(world.files[f"{folder}/answer.json"])["scenes"] != rows:
        raise BrokenPromiseError(f"{name} has other rows in its answer")
    if name not in world.asked:
        raise BrokenPromiseError(f"{name} was removed, and is there again")
    images, versions = world.asked[name]
    if sorted(number_of(row["hrefs"][0]) for row in rows) != list(images):
        raise BrokenPromiseError(f"{name} does not have all scenes once")
    for row in rows:
        _check_row(world, row, versions)
    _check_order(rows)
    stops = ["could be read finer", *(["limits.usd"] if world.is_limited else [])]
    if not any(why in note for why in stops for note in table["notes"]):
        _check_decided(world, rows)
    if name in world.told and world.told[name] != (content, table):
        raise BrokenPromiseError(f"{name} was written twice, and differs")
    world.told[name] = content, table


def _check_row(world: World, row: Row, versions: Mapping[str, int]) -> None:
    """Check that a value is that of a version that was there since the ranking was asked for."""
    (href,) = row["hrefs"]
    if row["value"] is None:
        if row["status"] == "ok":
            raise BrokenPromiseError(f"{href} has no value, and nobody says why")
        return
    step = _FACTORS.index(row["factor"])
    may_be = range(versions.get(href, 0), world.n_versions[href] + 1)
    if row["value"] not in {_value(number_of(href), version, step) for version in may_be}:
        raise BrokenPromiseError(
            f"{href} has {row['value']} at level {step}, of none of the versions {may_be}"
        )
    if row["error"] != _ERRORS[step]:
        raise BrokenPromiseError(f"{href} has an error of {row['error']} at level {step}")


def _check_order(rows: Sequence[Row]) -> None:
    values = [row["value"] for row in rows if row["value"] is not None]
    ranks = [row["rank"] for row in rows]
    if values != sorted(values, reverse=True):
        raise BrokenPromiseError(f"values are not in their order: {values}")
    if ranks != [*range(1, len(values) + 1), *[None] * (len(rows) - len(values))]:
        raise BrokenPromiseError(f"ranks are {ranks}")


def _check_decided(world: World, rows: Sequence[Row]) -> None:
    """Check that scenes were read as fine as the request wants."""
    precision = world.precision
    bound = {"1.0": _BOUND, "2%": 0.0, "exact": 0.0, "coarse": math.inf}[precision]
    if precision == "2%":
        values = [row["value"] for row in rows if row["value"] is not None]
        bound = 0.02 * float(np.diff(np.quantile(values, [0.16, 0.84]))[0]) / 2 if values else 0.0
    for row in rows:
        if row["value"] is None or row["error"] <= bound or row["reason"] is not None:
            continue
        if precision == "exact" or (row["rank_low"] < row["rank_high"] and row["rank_low"] <= _TOP):
            raise BrokenPromiseError(f"{row['id']} is not decided: {row}")


@dataclass
class SimulatedScenes:
    """Measures scenes: a `SceneReader`."""

    world: World

    async def measure(self, scene: RankScene, *, step: int | None, cost: Cost) -> MeasuredScene:
        """Return what a scene has at a level now."""
        world, chance = self.world, self.world.chance.random
        (href,) = scene.hrefs
        at = len(_LEVELS) - 1 if step is None else step
        cost.requests += 1
        version = world.n_versions[href]
        await asyncio.sleep(chance() * (2 if chance() < 0.95 or world.has_calmed else 90))
        if not world.has_calmed and chance() < 0.1:
            raise SourceError("it did not answer", href=href, status=Status.TIMED_OUT)
        cost.nbytes += int(_NBYTES[at])
        cost.decode_s += chance() * 0.02
        _ANSWERED.get(set()).add(href)
        return measured_scene(
            _value(number_of(href), version, at),
            error=_ERRORS[at],
            level=_LEVELS[at],
            etags=(str(version),),
            levels=_LEVELS,
            level_nbytes=_NBYTES,
            factor=_FACTORS[at],
        )


@dataclass
class SimulatedRanges:
    """Tells which version of a file is there: `Ranges` of one byte."""

    world: World

    async def get_range(self, href: str, start: int, stop: int, *, etag: str | None, cost: Cost) -> Fetched:
        """Return one byte of the version that is there now."""
        assert (start, stop, etag) == (0, 1, None)
        del cost
        await asyncio.sleep(self.world.chance.random())
        version = str(self.world.n_versions[href])
        return Fetched(content=memoryview(b"I"), etag=version, object_nbytes=1)


@dataclass
class Run(RoundsRun):
    """The actors of one run."""

    world: World

    @property
    def deployment(self) -> Any:
        """A fresh process of it."""
        return SimulatedDeployment(self.world, objects=SimulatedRanges(self.world), limiter=FakeLimiter())

    @override
    async def begin(self, given: Any, execution: str) -> dict[str, Any]:
        images = images_of(given["sources"])
        name = ranking_name(given, list_digest(images), salt=execution if given.get("check_kept") else "")
        self.world.asked.setdefault(name, (images, dict(self.world.n_versions)))
        steps = RankingRounds(self.deployment)
        try:
            verdict = await steps.begin(given, execution=execution, left_s=900.0)
        except BudgetError as error:
            assert "limits" in given or self.world.halts
            raise StoreError("it is over its limit, or nothing may begin") from error
        self._check_told(verdict, former=set())
        return verdict

    @override
    async def decide(self, name: str, number: int, execution: str) -> dict[str, Any]:
        _READ_BEFORE.set({key: frozenset(read) for key, read in self.world.read.items()})
        verdict = await RankingRounds(self.deployment).after(name, number, execution=execution)
        self._check_told(verdict, former=self.world.former)
        return verdict

    def _check_told(self, verdict: Mapping[str, Any], *, former: AbstractSet[bytes]) -> None:
        """Check that a ranking is there that is told to be done, or that its result is a former one."""
        if verdict["verdict"] != "complete":
            return
        told, _ = self.world.told.get(verdict["result"]["name"], (b"null", {}))
        if verdict["result"] not in map(json.loads, {told, *former}):
            raise BrokenPromiseError(f"{verdict['result']} is told, and is no result")

    @override
    async def worker(self, gather: str, task: MapTask) -> None:
        _ANSWERED.set(set())
        name, _, number = gather.rpartition("/")
        await measure_scenes.measure_scenes(
            self.deployment, name, int(number), task, longest_s=LONGEST_TASK_S, spent=Spending()
        )

    @override
    async def execution(self, name: str, number: int) -> None:
        more = {"check_kept": True} if self.chance() < 0.2 else {}
        await self.ranked(name, number, **more)

    async def ranked(self, name: str, number: int, **more: Any) -> Row:
        """Make the ranking of a user. Return the table."""
        shares = self.world.shares
        if self.world.is_limited and not self.world.has_calmed:
            more["limits"] = {"usd": _MOST_USD}
        images = ALL_LISTED if shares == "ranking" else LISTS[number % len(LISTS)]
        given = {
            "sources": [href_of(n) for n in images],
            "by": f"b1+{number}" if shares == "nothing" else "b1",
            "precision": self.world.precision,
            "top": _TOP,
            **more,
        }
        verdict = await self.make(given, name)
        return self.world.told[verdict["result"]["name"]][1]


async def _everything(world: World) -> None:
    run = Run(world)
    await run.through_faults(n_before_removal=3)
    for number in range(len(LISTS)):
        await run.execute_at_last(f"last-{number}", number)
    table = await run.ranked("fresh", LISTS.index(ALL_LISTED), check_kept=True)
    if failed := [row["id"] for row in table["scenes"] if row["value"] is None or row["reason"]]:
        raise BrokenPromiseError(f"without faults {failed} were not read")
    await world.all_arrived()


def simulate(seed: int) -> World:
    """Make rankings by several users, and check the promise.

    Raises:
        BrokenPromiseError: A ranking was wrong, or did not end.
    """
    world = World(seed)
    run_seed(world, lambda: _everything(world), _patches(world))
    return world


def _patches(world: World) -> list[Any]:
    """Let the program use the stores, the scenes and the time of a run."""

    @asynccontextmanager
    async def over(*_: Any, **__: Any) -> AsyncIterator[None]:
        yield None

    def make(request: Any, *, limiter: Any, ranges: Any, kept: Any, **more: Any) -> Ranker:
        scenes: Any = SimulatedScenes(world)
        bounds = {name: more[name] for name in ("source_timeout_s", "most_ahead")}
        return Ranker(
            rounds=Rounds(request, kept), scenes=scenes, limiter=limiter, forget=ranges.forget, **bounds
        )

    return [
        patch.object(ranking_rounds, "open_table", opened_lists(world)),
        patch.object(open_ranker, "CogReader", SimpleNamespace(over=over)),
        patch.object(open_ranker, "make_ranker", make),
        patch.object(map_round, "_USUAL_TASK_S", 0.02),
        patch.object(statistics_on_s3, "_logger", Mock()),
        *clock_of(world, ranking_rounds, map_rounds),
    ]
