"""Rank scenes in rounds: all at their coarsest level, then only those whose rank is still open, finer."""

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from pixel_gather.errors import RequestError, SourceError
from pixel_gather.model.source import Cost
from pixel_gather.model.status import Status
from pixel_gather.ports import SourceLimiter
from pixel_gather.ranking.measure import Measured, SceneReader
from pixel_gather.ranking.order import Place, places, undecided
from pixel_gather.ranking.ranking_request import RankingRequest
from pixel_gather.ranking.scenes import RankScene
from pixel_gather.task_group import all_of

_ONE_FIRST: Final = 1
"""Scenes that are read before the others, to learn how long the first read of a file should be."""


class KeptStatistics(Protocol):
    """Statistics of earlier rankings."""

    def get(self, scene: RankScene, *, step: str) -> Measured | None:
        """Return what was measured of a scene at a step, or None."""

    def put(self, scene: RankScene, *, step: str, measured: Measured) -> None:
        """Keep what was measured. Drops what is kept of other versions of the scene's files."""


class NothingKept:
    """Keeps no statistics."""

    def get(self, scene: RankScene, *, step: str) -> Measured | None:
        """Return None."""
        del scene, step
        return None  # mypy wants to see it

    def put(self, scene: RankScene, *, step: str, measured: Measured) -> None:
        """Do nothing."""


@dataclass(slots=True, kw_only=True)
class RankedScene:
    """One scene of a ranking."""

    scene: RankScene
    status: Status = Status.OK
    reason: str | None = None
    """Why it has no value."""

    measured: Measured | None = None
    place: Place | None = None
    cost: Cost = field(default_factory=Cost)
    seconds: float = 0.0
    """Wall time of measuring it, at all levels."""

    was_kept: bool = False
    """Whether all that was needed of it came from an earlier ranking."""

    step: int | None = 0
    """Which of its levels it was measured at, 0 for the coarsest; None for full resolution."""

    @property
    def value(self) -> float:
        """Its statistic; NaN if it has none."""
        return math.nan if self.measured is None else self.measured.value

    @property
    def error(self) -> float:
        """Its standard error; infinite if unknown."""
        return math.inf if self.measured is None else self.measured.error

    @property
    def is_final(self) -> bool:
        """Whether it cannot be read any finer."""
        return self.measured is None or self.measured.level is None


type OnScene = Callable[[RankedScene], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranker:
    """Ranks scenes. The caller owns what it reads with."""

    request: RankingRequest
    scenes: SceneReader
    limiter: SourceLimiter
    kept: KeptStatistics
    forget: Callable[[str], None]
    """Drops what is kept of a file's bytes, because it was replaced."""

    source_timeout_s: float
    most_ahead: int
    on_scene: OnScene = lambda _: None

    async def rank(self, scenes: Iterable[RankScene]) -> list[RankedScene]:
        """Return all scenes in their order, those without a value last."""
        ranked = [RankedScene(scene=scene) for scene in scenes]
        for each in ranked:
            if each.scene.missing is not None:
                each.status, each.reason = Status.ABSENT, each.scene.missing
        there = [each for each in ranked if each.scene.missing is None]
        first_step = 0 if self.request.precision.kind in ("bound", "coarse") else None
        for some in (there[:_ONE_FIRST], there[_ONE_FIRST:]):
            await self._measure((each, first_step) for each in some)
        while finer := self._to_refine(ranked):
            await self._measure((each, _finer(each)) for each in finer)
        self._place(ranked)
        return sorted(ranked, key=_in_order)

    def _to_refine(self, ranked: Sequence[RankedScene]) -> list[RankedScene]:
        """Return the scenes to be read at their next level; those that nothing is known of come first."""
        self._place(ranked)
        precision = self.request.precision
        if precision.kind != "bound":
            return []
        unknown = [
            each
            for each in ranked
            if not each.is_final and not (math.isfinite(each.error) and math.isfinite(each.value))
        ]
        if unknown:
            return unknown
        errors = [each.error for each in ranked]
        found = undecided(
            [each.place for each in ranked], errors, top=self.request.top, bound=precision.bound
        )
        return [ranked[at] for at in found if not ranked[at].is_final]

    def _place(self, ranked: Sequence[RankedScene]) -> None:
        descending = self.request.order == "desc"
        found = places(
            [each.value for each in ranked], [each.error for each in ranked], descending=descending
        )
        for each, place in zip(ranked, found, strict=True):
            each.place = place

    async def _measure(self, wanted: Iterable[tuple[RankedScene, int | None]]) -> None:
        """Measure scenes, each at its step; only ``most_ahead`` of them at one time."""
        ahead = asyncio.Semaphore(self.most_ahead)

        async def one(each: RankedScene, step: int | None) -> None:
            async with ahead:
                await self._measure_one(each, step)
            self.on_scene(each)

        await all_of(one(each, step) for each, step in wanted)

    async def _measure_one(self, ranked: RankedScene, step: int | None) -> None:
        ranked.step = step
        name = self._name_of(step)
        kept = self.kept.get(ranked.scene, step=name)
        if kept is not None:
            ranked.was_kept = ranked.measured is None or ranked.was_kept
            ranked.measured = kept
            return
        ranked.was_kept = False
        started = asyncio.get_running_loop().time()
        cost = ranked.cost
        n_before = cost.needed_requests
        try:
            async with self.limiter.permit(ranked.scene.hrefs[0], weight=len(ranked.scene.hrefs)) as permit:
                async with asyncio.timeout(self.source_timeout_s):
                    ranked.measured = await self._read(ranked.scene, step, cost)
                if cost.needed_requests > n_before:
                    permit.was_read(n_requests=cost.needed_requests - n_before)
            self.kept.put(ranked.scene, step=name, measured=ranked.measured)
            if step is not None and ranked.measured.level is None:
                self.kept.put(ranked.scene, step=self._name_of(None), measured=ranked.measured)
        except SourceError as error:
            ranked.status, ranked.reason, ranked.measured = error.status, error.reason, None
        except RequestError as error:  # PROJ finds no way to this source's CRS
            ranked.status, ranked.reason, ranked.measured = Status.UNSUPPORTED, str(error), None
        except TimeoutError:
            reason = f"not read within {self.source_timeout_s:g} s"
            ranked.status, ranked.reason, ranked.measured = Status.TIMED_OUT, reason, None
        ranked.seconds += asyncio.get_running_loop().time() - started
        if ranked.measured is not None and ranked.is_final and not ranked.measured.n_pixels:
            ranked.reason = "no pixel of the area has data that the mask keeps"

    async def _read(self, scene: RankScene, step: int | None, cost: Cost) -> Measured:
        try:
            return await self.scenes.measure(scene, step=step, cost=cost)
        except SourceError as error:
            if error.status is not Status.CHANGED:
                raise
        for href in scene.hrefs:  # it was replaced since its header was kept
            self.forget(href)
        return await self.scenes.measure(scene, step=step, cost=cost)

    def _name_of(self, step: int | None) -> str:
        """Return what kept statistics call a step."""
        if step is not None:
            return f"step {step}"
        return "exact" if self.request.precision.step == 1 else f"every {self.request.precision.step}"


def _finer(ranked: RankedScene) -> int:
    """Return the step after that of a scene."""
    assert ranked.step is not None  # noqa: S101 # at full resolution there is nothing finer
    return ranked.step + 1


def _in_order(ranked: RankedScene) -> tuple[int, int]:
    if ranked.place is not None:
        return 0, ranked.place.rank
    return (1, 0) if ranked.measured is not None else (2, 0)
